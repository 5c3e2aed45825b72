"""Corrupted files: what comes back must be the true answer or a typed error, never another answer.

    python -m attack.damage --count 2000 --seed 0 --json damage.json      (with PYTHONPATH=src:tests)
    python -m attack.damage --replay "damage.run(seed==17)"

Each file that the package reads back lies in a folder that is made once. For every try the folder is copied, one
thing in it is damaged (a function of the seed), and the copy is read. The true answer is that of the whole folder.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import armagnn.data as data
import armagnn.training as training
from armagnn import GraphOperator
from armagnn.errors import RunError
from armagnn.training.checkpoint import Checkpoint
from armagnn.training.record import to_csv
from armagnn.training.results_store import Store
from attack import bad_inputs
from attack.datasets import graphs_file, node_file, rings
from attack.pool import Wrong
from attack.subjects import Call
from data.test_tu import write

CHECKOUT = Path(__file__).resolve().parents[2]
Answer = Callable[[Path], Any]


# ------------------------------------------------------------------------------------------------------------- damages


def flip_bit(content: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(content))
    return content[:place] + bytes([content[place] ^ (1 << draw.randrange(8))]) + content[place + 1 :]


def change_byte(content: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(content))
    return content[:place] + bytes([draw.randrange(256)]) + content[place + 1 :]


def truncate(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content))]


def extend(content: bytes, draw: random.Random) -> bytes:
    return content + draw.randbytes(draw.choice([1, 7, 512]))


def zero_block(content: bytes, draw: random.Random) -> bytes:
    place, size = draw.randrange(len(content)), draw.choice([1, 16, 512, 4096])
    return content[:place] + bytes(len(content[place : place + size])) + content[place + size :]


def repeat_block(content: bytes, draw: random.Random) -> bytes:
    place, size = draw.randrange(len(content)), draw.choice([1, 16, 512])
    return content[: place + size] + content[place : place + size] + content[place + size :]


def swap_lines(content: bytes, draw: random.Random) -> bytes:
    lines = content.split(b"\n")
    one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def drop_line(content: bytes, draw: random.Random) -> bytes:
    lines = content.split(b"\n")
    del lines[draw.randrange(len(lines))]
    return b"\n".join(lines)


def change_digit(content: bytes, draw: random.Random) -> bytes:
    places = [place for place, byte in enumerate(content) if 48 <= byte < 58]
    if not places:
        return flip_bit(content, draw)
    place = draw.choice(places)
    return content[:place] + str(draw.randrange(10)).encode() + content[place + 1 :]


def swap_halves(content: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(content))
    return content[place:] + content[:place]


CONTENT = (
    flip_bit, flip_bit, change_byte, truncate, extend, zero_block, repeat_block, swap_lines, drop_line, change_digit,
    swap_halves,
)  # fmt: skip


def damage(folder: Path, seed: int) -> str:
    """Damage one thing in a folder; return what was done."""
    draw = random.Random(seed)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = draw.choice(files)
    kind = draw.random()
    name = str(path.relative_to(folder))
    if kind < 0.04:
        path.unlink()
        return f"{name}: removed"
    if kind < 0.06:
        path.unlink()
        path.mkdir()
        return f"{name}: a folder"
    if kind < 0.08:
        path.write_bytes(b"")
        return f"{name}: empty"
    if kind < 0.14 and len(files) > 1:
        other = draw.choice([file for file in files if file != path])
        first, second = path.read_bytes(), other.read_bytes()
        path.write_bytes(second)
        other.write_bytes(first)
        return f"{name} and {other.relative_to(folder)}: swapped"
    content = path.read_bytes()
    if not content:
        path.write_bytes(draw.randbytes(9))
        return f"{name}: filled"
    change = draw.choice(CONTENT)
    path.write_bytes(change(content, draw))
    return f"{name}: {change.__name__}"


# ------------------------------------------------------------------------------------------------------------ subjects


def digest(*tensors: Any) -> str:
    found = hashlib.sha256()
    for value in tensors:
        if isinstance(value, dict):
            value = [item for name in sorted(value) for item in (name, value[name])]
        if isinstance(value, list | tuple):
            found.update(digest(*value).encode())
        elif isinstance(value, torch.Tensor):
            found.update(np.ascontiguousarray(value.detach().numpy()).tobytes())
        else:
            found.update(repr(value).encode())
    return found.hexdigest()


def _node(path: Path) -> Any:
    found = data.read_node_file(path)
    return digest(found.x.to_dense(), found.edge_index, found.y, found.train_idx, found.val_idx, found.test_idx)


def _graphs(found: data.GraphsDataset) -> str:
    return digest(found.edge_index, found.ptr, found.y, found.node_labels, found.node_attr, found.edge_weight)


def _run(folder: Path) -> Any:
    run = training.Run.open(folder)
    run.require_complete()
    trials = [vars(trial) for trial in run.trials()]
    described = vars(training.Description.read(run)) if run.config.kind == "graphs" else None
    return digest(run.metrics(), run.weights(), trials, run.config.to_json(), described)


def _predicted(folder: Path) -> Any:
    return training.predict(training.Run.open(folder)).to_csv()


def _records(store: Path) -> Any:
    with Store(store, must_exist=True) as opened:
        return sorted(repr(record) for record in opened.select())


def _tables(folder: Path) -> Any:
    from armagnn_paper.restore import restore

    return [repr(record) for record in restore(folder / "node-classification.csv").records]


def _page(folder: Path) -> Any:
    from armagnn_paper.page import results_page

    return results_page(folder)


def _catalogue(folder: Path) -> Any:
    os.environ["ARMAGNN_DATA"] = str(folder)
    own = {name: entry for name, entry in data.all_entries().items() if name in ("papers", "rings")}
    found = data.load("papers")
    checks = {check.name: check for check in data.verify(["papers", "rings"])}
    said = repr((own, checks)).replace(str(folder), "")
    return digest(found.x.to_dense(), found.y, found.edge_index, _graphs(data.load_graphs("rings"))), said


def _spectrum(folder: Path) -> Any:
    from armagnn.spectral import spectrum

    ring = torch.stack([torch.arange(520), torch.arange(1, 521) % 520])  # smaller graphs are not kept
    op = GraphOperator.from_edge_index(torch.cat([ring, ring.flip(0)], 1))
    return digest(*spectrum(op, cache=folder))


def _checkpoint(folder: Path) -> Any:
    state = Checkpoint(folder, "trial").load()
    if state is None:
        raise RunError("there is none")  # a folder without a manifest has no checkpoint: training begins anew
    return digest(state)


def _resumed(folder: Path, *, config: Any) -> Any:
    """Train on in a run that was interrupted."""
    run = training.train(config, folder, resume=True)
    trials = [vars(trial) | {"seconds": 0} for trial in run.trials()]
    return digest(run.weights(), trials)


class _Stop(Exception):
    pass


def _interrupted(config: Any, folder: Path) -> None:
    """A run whose first trials are finished, and that has a checkpoint."""
    from armagnn.training import trainer

    every, trainer.EVERY = trainer.EVERY, 0.0

    class Stopping(training.Observer):
        def epochs(self, epoch: int, running: int, val_loss: float, val_accuracy: float) -> None:
            if epoch >= 20:
                raise _Stop

    try:
        training.train(config, folder, observer=Stopping())
    except _Stop:
        pass
    finally:
        trainer.EVERY = every


def prepare(tables: bool = True) -> dict[str, tuple[Path, Answer]]:
    """Make all folders in the current one; return each with how it is read. Tables take long."""
    here = Path.cwd()
    found: dict[str, tuple[Path, Answer]] = {}

    def folder(name: str, answer: Answer) -> Path:
        path = here / "whole" / name
        path.mkdir(parents=True)
        found[name] = path, answer
        return path

    node_file(folder("node-file", lambda at: _node(at / "own.npz")) / "own.npz")
    graphs_file(folder("graphs-file", lambda at: _graphs(data.read_graphs_file(at / "g.npz"))) / "g.npz", rings())
    own, tu = node_file(here / "own.npz"), here / "tu"
    tu.mkdir()
    write(rings(), tu)
    quick = training.NodesConfig(dataset=str(own), hidden=4, epochs=40, patience=40, seeds=3)
    graphs = training.GraphsConfig(data=str(tu), hidden=4, depth=1, epochs=4, patience=4, seeds=2, batch=8)
    for name, config in (("run", quick), ("graphs-run", graphs)):
        path = here / "whole" / name
        training.train(config, path)
        found[name] = path, _run
    found["predict"] = found["run"][0], _predicted
    _interrupted(quick, here / "whole" / "resume")
    found["resume"] = here / "whole" / "resume", functools.partial(_resumed, config=quick)
    Checkpoint(folder("checkpoint", _checkpoint), "trial").save({"a": torch.rand(50), "b": [1, 2.5, "x", None, True]})
    from toy_trials import ToyJob, record

    with Store(folder("store", lambda at: _records(at / "store.sqlite")) / "store.sqlite") as store:
        store.add([record(ToyJob("arma", (seed,)), seed) for seed in range(30)])
    registered = folder("catalogue", _catalogue)
    os.environ["ARMAGNN_DATA"] = str(registered)
    data.add(own, "papers")
    data.add(graphs_file(here / "graphs.npz", rings()), "rings")
    _spectrum(folder("spectrum", _spectrum))
    if not tables:
        return found
    results = CHECKOUT / "results"
    shutil.copytree(results, here / "whole" / "page")
    found["page"] = here / "whole" / "page", _page
    _cora_table(folder("table", _tables))
    return found


def _cora_table(folder: Path) -> None:
    """A few rows of the committed table, exported again."""
    from armagnn.sealed import write_sealed
    from armagnn_paper.restore import restore

    records = restore(CHECKOUT / "results" / "node-classification.csv").records
    few = [record for record in records if record.dataset == "cora"][:40]
    write_sealed(folder / "node-classification.csv", to_csv(few))


def calls(tables: bool = True) -> Iterator[Call]:
    """A call for each folder, whose argument is the seed of the damage."""
    for name, (whole, answer) in prepare(tables).items():
        with tempfile.TemporaryDirectory() as copy:
            truth = answer(Path(shutil.copytree(whole, Path(copy, "at"))))

        def attacked(seed: int, whole: Path = whole, answer: Answer = answer, truth: Any = truth) -> None:
            with tempfile.TemporaryDirectory(dir=Path.cwd()) as copy:
                at = Path(shutil.copytree(whole, Path(copy, "at")))
                what = damage(at, seed)
                if answer(at) != truth:
                    raise Wrong(what)

        yield Call(f"damage.{name.replace('-', '_')}", attacked, {"seed": 0})


def draw(found: list[Call], count: int, seed: int) -> list[bad_inputs.Input]:
    """Tries, the same number of each folder; every one has a seed."""
    return [bad_inputs.Input(number % len(found), (("seed", f"={seed * 10**6 + number}"),)) for number in range(count)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--replay", help="one try, as it stands in a report")
    parser.add_argument("--json", type=Path, help="where to write what should not be")
    options = parser.parse_args()
    path = options.json and options.json.resolve()
    with bad_inputs.workplace():
        found = list(calls())
        if options.replay:
            return bad_inputs.replay(found, bad_inputs.parse(options.replay, found))
        findings = bad_inputs.run_all(found, draw(found, options.count, options.seed))
    names = sorted({call.name for call in found})
    return bad_inputs.finish(findings, names, path, options.seed)


if __name__ == "__main__":
    sys.exit(main())
