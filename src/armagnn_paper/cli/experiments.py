"""``armagnn reproduce convergence | reservoir | pace`` and ``armagnn figure``: all that is no table of the paper."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from armagnn.checks import choice, integer
from armagnn.cli.app import notes_console, output_console, whole_table
from armagnn.data import load
from armagnn.errors import ArmagnnError
from armagnn.explore import learned as what_was_learned
from armagnn.files import check_writable, write_atomic
from armagnn.sealed import rows_csv, write_sealed
from armagnn.spectral.plot import check_format, picture
from armagnn.training import Run
from armagnn.training.config import torch_device
from armagnn_paper import convergence as theorem_1
from armagnn_paper import forecast, heterophily_section, layer_gains, responses
from armagnn_paper import training_time as times
from armagnn_paper.claims import RUNS, measure, rows_of, summary_table
from armagnn_paper.claims_changes import ROBUSTNESS, TRANSFER
from armagnn_paper.claims_deep import DEEP
from armagnn_paper.claims_layers import DEPTH, DIVERSITY, NORMS
from armagnn_paper.table import Cell
from armagnn_paper.tables import TABLES

CLAIMS: Final = {claim.name: claim for claim in (ROBUSTNESS, TRANSFER, DEPTH, DEEP, DIVERSITY, NORMS)}


def convergence(
    dataset: Annotated[
        list[str] | None, typer.Option(help="cora, citeseer, chain-50, chain-100, chain-500, chain-1000.")
    ] = None,
    runs: Annotated[int, typer.Option(help="Seeds of a cell.")] = 10,
    out: Annotated[Path, typer.Option(help="The table; what is in it is not done again.")] = Path(
        "results", "convergence.csv"
    ),
    cost: Annotated[bool, typer.Option("--cost", help="Measure time and memory of a training step instead.")] = False,
) -> None:
    """Theorem 1: ARMA iterated until it converges, and with T = 10 and T = 100 steps.

    Citation networks, and chains whose labels are decided 50 to 1,000 hops away.
    """
    integer("runs", runs, 1)
    console = output_console()
    if cost:
        table = whole_table("layer", "steps", "processor ms", "peak MiB", title="One training step on Cora's graph")
        for case, steps, milliseconds, memory in theorem_1.costs():
            table.add_row(case, f"{steps:.4g}", f"{milliseconds:.4g}", f"{memory:.4g}")
        console.print(table)
        return
    for line in theorem_1.run(out, dataset or theorem_1.DATASETS, runs):
        console.print(line, soft_wrap=True)


def reservoir(
    dataset: Annotated[
        list[str] | None, typer.Option("--dataset", help="cora, citeseer, bench-hard, mutag; may be repeated.")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Runs, each with another seed.")] = 10,
    out: Annotated[Path, typer.Option(help="The table.")] = Path("results", "reservoir.csv"),
) -> None:
    """Reservoir ARMA (Section 4.1): random stacks and a trained readout; about 25 minutes on a CPU."""
    from armagnn_paper import reservoir_table as room  # scikit-learn takes a second to import

    check_writable(out)
    rows = [row for name in dataset or room.DATASETS for row in room.measure(name, runs)]
    write_sealed(out, rows_csv(room.ReservoirRow, rows))


def pace(
    table: Annotated[list[str] | None, typer.Argument(help="Tables, e.g. graph-signal; by default all four.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:1.")] = "cpu",
    out: Annotated[Path, typer.Option(help="The table; what is in it is not measured again.")] = Path(
        "results", forecast.PACE
    ),
) -> None:
    """Measure an epoch of every cell of the tables, for `--plan`: many minutes, and hours on a processor.

    Cells that have trials on such a device in the exported tables need none; neither do those without settings.
    """
    for name in table or ():
        choice("table", name, tuple(TABLES))
    for name in table or TABLES:
        own = TABLES[name]
        known = forecast.known_times(own, out.parent, ()).spent
        wanted = []
        for cell in forecast.cells(own):
            if (cell, not device.startswith("cuda")) in known:
                continue
            try:
                wanted.append((Cell(*cell), own.config(Cell(*cell))))
            except ArmagnnError as error:
                notes_console().print(f"{' '.join(cell)} is left out: {error}", soft_wrap=True)
        for found in forecast.measure(own, wanted, out, device) if wanted else ():
            shown = f"{found.dataset} {found.method} {found.protocol}"
            output_console().print(f"{shown}: {found.seconds:.3g} s an epoch and training", soft_wrap=True)


# -------------------------------------------------------------------------------------------------------------- figures


def training_time(
    dataset: Annotated[str, typer.Option(help="The dataset; the paper's is ppi.")] = "ppi",
    method: Annotated[list[str] | None, typer.Option(help="Methods; by default those of the figure.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:1.")] = "cpu",
    epochs: Annotated[int, typer.Option(help="Most epochs of a training.")] = 2000,
    out: Annotated[Path, typer.Option(help="The picture; the numbers go to the same folder as CSV.")] = Path(
        "figures", "training-time.png"
    ),
) -> None:
    """Figure 4: time per epoch and to the best validation score, for GCN, Chebyshev, CayleyNet and ARMA on PPI."""
    console, timings, numbers = output_console(), [], out.with_suffix(".csv")
    check_format(out)
    check_writable(out, numbers)
    table = whole_table(
        "method", "ms per epoch", "best epoch", "s to best", "val. acc. %", title=f"Training on {dataset}"
    )
    for timing in times.measure(dataset, method or times.METHODS, device, epochs):
        timings.append(timing)
        write_sealed(numbers, rows_csv(times.Timing, timings))  # as they come: a method can take minutes
        notes_console().print(f"{timing.method}: {1e3 * timing.seconds_per_epoch:.1f} ms per epoch")
        table.add_row(
            timing.method, f"{1e3 * timing.seconds_per_epoch:.2f}", str(timing.best_epoch),
            f"{timing.seconds_to_best:.2f}", f"{timing.val_accuracy:.1f}",
        )  # fmt: skip
    write_atomic(out, picture(times.draw(timings, dataset), check_format(out)))
    console.print(table)
    console.print(f"Written to {out} and {numbers}", highlight=False, soft_wrap=True)


def heterophily(
    results: Annotated[Path, typer.Option(help="Where the exported tables are.")] = Path("results"),
    out: Annotated[Path, typer.Option(help="The picture.")] = Path("figures", "heterophily.png"),
) -> None:
    """Each method's lead over GCN on the heterophily sets, from results/heterophily.csv."""
    check_writable(out)
    write_atomic(out, heterophily_section.draw(heterophily_section.read(results / "heterophily.csv")))
    output_console().print(f"Written to {out}", highlight=False, soft_wrap=True)


def gains(
    dataset: Annotated[
        list[str] | None, typer.Option(help=f"One of {', '.join(layer_gains.DATASETS)}; may be repeated.")
    ] = None,
    method: Annotated[list[str] | None, typer.Option(help="arma or rational; by default both.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:1.")] = "cpu",
    results: Annotated[Path, typer.Option(help="The gains; what is there is not trained again.")] = Path(
        "results", "layer-gains.csv"
    ),
    out: Annotated[Path, typer.Option(help="The picture.")] = Path("figures", "layer-gains.png"),
) -> None:
    """Gains of the layers of the networks of the heterophily tables: chosen setting, split 0, seed 0.

    Minesweeper takes minutes on a GPU, and long on a processor.
    """
    torch_device(device)  # refuses what is not there
    check_format(out)
    check_writable(results, out)
    datasets = [choice("dataset", each, layer_gains.DATASETS) for each in dataset or layer_gains.DATASETS]
    methods = [choice("method", each, layer_gains.METHODS) for each in method or layer_gains.METHODS]
    console = output_console()
    for line in layer_gains.run(results, datasets, methods, device):
        console.print(line, highlight=False)
    _save(layer_gains.draw(results), out, console)


def response(
    dataset: Annotated[str, typer.Option(help="A dataset of one graph; the paper's is cora.")] = "cora",
    out: Annotated[
        Path, typer.Option(help="Figure 2, a *.png, *.svg or *.pdf; the others go to the same folder.")
    ] = Path("figures", "response.png"),
    steps: Annotated[int, typer.Option(min=1, help="Training steps of the layers of Figure 3.")] = 800,
) -> None:
    """Figures 2 and 3: empirical responses of GCS stacks, of GCNs, and of trained ARMA layers with K = 3.

    In the same folder: *-design, rational and Chebyshev filters of 8 coefficients; *-gamma, what self-loops do to a
    GCN; *-trained, Figure 3; and *-trained.json, all parameters of its layers. In Figure 2, V = b 1 / F_in: with the
    paper's V = b 1, Eq. 20 gives F_in times the analytic response.
    """
    check_format(out)
    check_writable(out)
    data = load(dataset)
    responses.check_single(data)
    console = output_console()
    _save(responses.draw_figure2(responses.figure2(data)), out, console)
    _save(responses.draw_design(), _next_to(out, "design"), console)
    sweep = responses.gamma_sweep(data)
    _save(responses.draw_sweep(sweep), _next_to(out, "gamma"), console)
    filters = responses.figure3(data, steps)
    _save(responses.draw_figure3(filters), _next_to(out, "trained"), console)
    found = responses.parameters(filters)
    path = _next_to(out, "trained").with_suffix(".json")
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


def news_baselines(
    out: Annotated[Path, typer.Option(help="The table to write.")] = Path("results", "news-baselines.csv"),
) -> None:
    """Classify the documents of 20news without a graph, by scikit-learn, on the features that the networks see."""
    from armagnn.data import load_signals
    from armagnn_paper.news_baselines import baselines, write_baselines

    found = baselines(load_signals("20news"))
    write_baselines(found, out)
    for each in found:
        output_console().print(f"{each.method}: {each.accuracy:.2f} %", highlight=False)


def claims(
    name: Annotated[list[str] | None, typer.Argument(help="Which claims; by default all.")] = None,
    runs: Annotated[int, typer.Option(min=1, help="Trials of everything, with the seeds 0, 1, ...")] = RUNS,
    results: Annotated[
        Path, typer.Option(help="Where the numbers are kept; what is there is not measured again.")
    ] = Path("results", "claims"),
    out: Annotated[Path, typer.Option(help="The folder of the pictures.")] = Path("figures", "claims"),
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:1: where deep is trained, the others on cpu.")] = "cpu",
) -> None:
    """The paper's claims, measured on trained networks: robustness, transfer, depth, deep, diversity, norms.

    Given again, it goes on where it was interrupted. On a processor deep takes hours.
    """
    torch_device(device)  # refuses what is not there
    chosen = [CLAIMS[choice("claim", each, CLAIMS)] for each in name or CLAIMS]
    console = output_console()
    check_writable(*(path for each in chosen for path in (results / f"{each.name}.csv", out / f"{each.name}.png")))
    for each in chosen:
        path = results / f"{each.name}.csv"
        jobs = each.jobs if each.jobs_on is None else each.jobs_on(device)
        for job, rows in measure(jobs, path, runs):
            done = ", ".join(map(str, job.covers.values()))
            notes_console().print(f"{each.name}: {done}, {len(rows)} numbers", highlight=False)
        rows = rows_of(path)
        head, lines = summary_table(rows)
        table = whole_table(*head, title=each.question)
        for line in lines:
            table.add_row(*line)
        console.print(table)
        _save(each.draw(rows), out / f"{each.name}.png", console)


def _next_to(path: Path, what: str) -> Path:
    return path.with_name(f"{path.stem}-{what}{path.suffix}")


def _save(figure: Any, path: Path, console: Console) -> None:
    content = picture(figure, check_format(path))
    write_atomic(path, content)
    console.print(f"Written to {path}", highlight=False, soft_wrap=True)
