"""``armagnn figure``: the figures of the paper, made again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from armagnn.cli.consoles import notes_console, output_console, whole_table
from armagnn.data import load
from armagnn.explore import learned as what_was_learned
from armagnn.files import check_writable, write_atomic
from armagnn.sealed import write_sealed
from armagnn.spectral.plot import check_format, picture
from armagnn.training import Run
from armagnn_paper import claims as paper_claims
from armagnn_paper import responses, responses_trained
from armagnn_paper import training_time as times
from armagnn_paper.claims_rows import measure, read_rows


def training_time(
    dataset: Annotated[str, typer.Option(help="The dataset; the paper's is ppi.")] = "ppi",
    method: Annotated[list[str] | None, typer.Option(help="Methods; by default those of the figure.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:1.")] = "cpu",
    epochs: Annotated[int, typer.Option(help="Most epochs of a training.")] = 2000,
    out: Annotated[Path, typer.Option(help="The picture; the numbers go beside it as CSV.")] = Path(
        "figures", "training-time.png"
    ),
) -> None:
    """Figure 4: time per epoch and to the best validation score, for GCN, Chebyshev, CayleyNet and ARMA on PPI."""
    console, timings, numbers = output_console(), [], out.with_suffix(".csv")
    check_writable(out, numbers)
    table = whole_table(
        "method", "ms per epoch", "best epoch", "s to best", "val. acc. %", title=f"Training on {dataset}"
    )
    for timing in times.measure(dataset, method or times.METHODS, device, epochs):
        timings.append(timing)
        write_sealed(numbers, times.to_csv(timings).encode())  # as they come: a method can take minutes
        notes_console().print(f"{timing.method}: {1e3 * timing.seconds_per_epoch:.1f} ms per epoch")
        table.add_row(
            timing.method, f"{1e3 * timing.seconds_per_epoch:.2f}", str(timing.best_epoch),
            f"{timing.seconds_to_best:.2f}", f"{timing.val_accuracy:.1f}",
        )  # fmt: skip
    write_atomic(out, times.draw(timings, dataset))
    console.print(table)
    console.print(f"Written to {out} and {numbers}", highlight=False, soft_wrap=True)


def response(
    dataset: Annotated[str, typer.Option(help="A dataset of one graph; the paper's is cora.")] = "cora",
    out: Annotated[Path, typer.Option(help="Figure 2, a *.png, *.svg or *.pdf; the others go beside it.")] = Path(
        "figures", "response.png"
    ),
    steps: Annotated[int, typer.Option(min=1, help="Training steps of the layers of Figure 3.")] = 800,
) -> None:
    """Figures 2 and 3: empirical responses of GCS stacks, of GCNs, and of trained ARMA layers with K = 3.

    Beside the picture: *-design, rational and Chebyshev filters of 8 coefficients; *-gamma, what self-loops do to a
    GCN; *-trained, Figure 3; and *-trained.json, all parameters of its layers. In Figure 2, V = b 1 / F_in: with the
    paper's V = b 1, Eq. 20 gives F_in times the analytic response.
    """
    check_format(out)
    check_writable(out)
    data = load(dataset)
    responses.check_single(data)
    console = output_console()
    _save(responses.draw_figure2(responses.figure2(data)), out, console)
    _save(responses.draw_design(), _beside(out, "design"), console)
    sweep = responses.gamma_sweep(data)
    _save(responses.draw_sweep(sweep), _beside(out, "gamma"), console)
    filters = responses_trained.figure3(data, steps)
    _save(responses_trained.draw_figure3(filters), _beside(out, "trained"), console)
    found = responses_trained.parameters(filters)
    path = _beside(out, "trained").with_suffix(".json")
    write_atomic(path, (json.dumps(found, indent=1) + "\n").encode())
    for name, content in found.items():
        error = content["rms error in bands"]
        console.print(
            f"{name}: {content['layer']}; error of the response: median {content['median error']:.3f}, r.m.s. in bands "
            f"{error['seen']:.3f} (unseen signal {error['unseen']:.3f})", highlight=False, soft_wrap=True,
        )  # fmt: skip
        table = whole_table("stack", "‖W‖₂", "W0", "V", "bias", title=f"{name}: parameters (W in {path.name})")
        for number, stack in enumerate(content["stacks"], 1):
            vectors = [" ".join(f"{v:.2f}" for v in stack[key]) for key in ("W0", "V", "bias")]
            table.add_row(str(number), f"{stack['norm of W']:.2f}", *vectors)
        console.print(table)


def learned(
    run: Annotated[Path, typer.Argument(help="The run folder.", metavar="RUN")],
    out: Annotated[
        Path | None, typer.Option(help="The picture, *.png, *.svg or *.pdf.", show_default="RUN/learned.png")
    ] = None,
) -> None:
    """What every stack of every layer of a trained run does to the spectrum of its input (Eq. 20)."""
    out = run / "learned.png" if out is None else out
    check_format(out)
    opened = Run.open(run)
    check_writable(out)
    mu, found = what_was_learned.learned_responses(opened)
    console = output_console()
    _save(what_was_learned.draw_learned(mu, found, opened.config.title), out, console)


def claims(
    name: Annotated[list[str] | None, typer.Argument(help="Which claims; by default all.")] = None,
    runs: Annotated[
        int, typer.Option(min=1, help="Trials of everything, with the seeds 0, 1, ...")
    ] = paper_claims.RUNS,
    results: Annotated[
        Path, typer.Option(help="Where the numbers are kept; what is there is not measured again.")
    ] = Path("results", "claims"),
    out: Annotated[Path, typer.Option(help="The folder of the pictures.")] = Path("figures", "claims"),
) -> None:
    """The paper's claims, measured on trained networks: robustness, transfer, depth, diversity, norms.

    Given again, it goes on where it was interrupted.
    """
    chosen = [paper_claims.claim(each) for each in name or paper_claims.CLAIMS]
    console = output_console()
    check_writable(*(path for each in chosen for path in (results / f"{each.name}.csv", out / f"{each.name}.png")))
    for each in chosen:
        path = results / f"{each.name}.csv"
        for job, rows in measure(each.jobs(), path, runs):
            done = ", ".join(job.covers.values())
            notes_console().print(f"{each.name}: {done}, {len(rows)} numbers", highlight=False)
        rows = read_rows(path)
        head, lines = paper_claims.table(rows)
        table = whole_table(*head, title=each.question)
        for line in lines:
            table.add_row(*line)
        console.print(table)
        _save(each.draw(rows), out / f"{each.name}.png", console)


def _beside(path: Path, what: str) -> Path:
    return path.with_name(f"{path.stem}-{what}{path.suffix}")


def _save(figure: Any, path: Path, console: Console) -> None:
    content = picture(figure, check_format(path))
    write_atomic(path, content)
    console.print(f"Written to {path}", highlight=False, soft_wrap=True)
