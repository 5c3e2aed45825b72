"""The harness itself: it leaves out no public name, and it sees what it is there to see."""

from __future__ import annotations

import ctypes
import importlib
import inspect
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from armagnn.errors import ParameterError
from attack.bad_inputs import Input, all_calls, attempt, draw, parse, run_batch, workplace
from attack.report import ODD, explained
from attack.rooms import PUBLIC, ROOMS
from attack.subjects import Call

# what sessions and launchers use, or a class that only its subclasses' calls can reach
ELSEWHERE = {
    "training.Observer",
    "training.Config",
    "training.SignalsConfig",
    "training.SignalsPrediction",
    "kernels.Settings",
    "nn.Conv",
    "filters.Filter",
    "distributed.ranks",
}
INSIDE = {  # they take the kernels' own records, built by the layers
    "kernels.arma_layer", "kernels.cut_rows",
    "kernels.keep_rows_whole", "kernels.compiled_assembly", "kernels.column_dots", "kernels.StateUpdate",
    # what our layers ask of an operator, on one rank or on several
    *(f"operators.GraphOperator.{name}" for name in ("dropout", "entry_dropout", "most", "step", "total")),
    "distributed.PartitionedOperator",
}  # fmt: skip


OWN_METHODS: dict[str, tuple[type, ...]] = {"PartitionedOperator": ()}
"""Classes of which only what they define themselves is attacked by their name: they inherit the rest from a class that
is attacked, too."""


def _parameters(function: Any) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def _methods(cls: type) -> list[str]:
    """The public methods with arguments that a class of ours adds to what it inherits from others."""
    found = []
    for owner in cls.__mro__:
        if owner.__module__.startswith("armagnn"):
            for name, member in (
                vars(owner).items() if owner in (cls, *OWN_METHODS.get(cls.__name__, cls.__mro__)) else ()
            ):
                function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
                ours = inspect.isfunction(function) and "/armagnn/" in function.__code__.co_filename
                own = 0 if isinstance(member, staticmethod) else 1  # self, whatever it is called
                if ours and not name.startswith("_") and _parameters(function)[own:]:
                    found.append(name)
    return found


def _public(room: str) -> set[str]:
    module = importlib.import_module(f"armagnn.{room}")
    names = set()
    for name in module.__all__:
        member = getattr(module, name)
        if inspect.isclass(member):
            names.add(f"{room}.{name}")
            names |= {f"{room}.{name}.{method}" for method in _methods(member)}
        elif callable(member) and _parameters(member):
            names.add(f"{room}.{name}")
    return names


@pytest.mark.parametrize("room", list(ROOMS))
def test_every_public_name_is_attacked(room: str) -> None:
    with workplace():
        covered = {call.name for call in ROOMS[room]()}
    left_out = INSIDE | ELSEWHERE
    missing = {name for name in _public(room) - covered if not {name, name.rpartition(".")[0]} & left_out}
    assert not missing, "add a Call for each to tests/attack: bad inputs of users must be refused by a typed error"


def _plant(run: Callable[..., Any]) -> list[Call]:
    return [Call("planted.call", run, {"x": 1.0})]


def _crash(x: float) -> None:
    ctypes.string_at(0)


def _spin(x: float) -> None:
    end = time.process_time() + 60
    while time.process_time() < end:
        pass


def _refuse(x: float) -> None:
    raise ParameterError("no")


@pytest.mark.parametrize(
    ("run", "outcome"),
    [
        (lambda x: x, "valid"), (_refuse, "typed"), (lambda x: x.nothing, "raw"), (_crash, "crash"),
        (lambda x: torch.tensor(float("nan")), "nan"), (_spin, "hang"),
        (lambda x: [torch.ones(2**33).sum()], "raw"),  # more memory than a child may take
    ],
)  # fmt: skip
def test_what_is_planted_is_found(run: Callable[..., Any], outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attack.bad_inputs.LIMIT", 0.5)
    items = [Input(0, (("x", "@half"),)), Input(0, (("x", "@one"),))][: 1 if outcome == "hang" else 2]
    assert [finding.outcome for finding in run_batch(_plant(run), items)] == [outcome] * len(items)


def test_a_nan_that_was_given_may_come_back() -> None:
    finding = attempt(_plant(lambda x: x), Input(0, (("x", "@nan"),)))
    assert finding.outcome == "valid"


def test_an_input_is_written_down_and_read_again() -> None:
    calls = [*_plant(abs), *_plant(abs), Call("planted.other", abs, {"x": 1.0, "y": "z"})]
    items = draw(calls, 300, seed=0)
    assert len(set(items)) == 300
    assert [parse(item.text(calls), calls) for item in items] == items
    assert draw(calls, 300, seed=0) == items != draw(calls, 300, seed=1)


FOUND = (
    "nn.ChebConv(lambda_max=@tiny)", "nn.CayleyConv(zoom=@1e300)", "nn.GCNConv.forward#1(edge_index=@mkldnn)",
    "spectral.band_response(mu=~complexes)", "operators.GraphBatches.to(device=@meta)",
    "operators.coarsen(restarts=@10^6)", "operators.CSR.from_dense(matrix=~huge_rows)",
    "tasks.SignalTask.loss(batch=~tensor)", "nn.ARMAConv.step(state=~nested)", "operators.GraphBatches(ptr=~sparse)",
    "data.make_bench_hard(per_class=~million)", "filters.CayleyFilter(zoom=@2^31)",
    "operators.GraphBatch(nodes=~first)", "filters.SpectralFilter.plot(mu=@cube)",
    "data.node_features(vocabulary=@range)", "tasks.GraphTask(dtype=@bits)", "operators.GraphBatches(ptr=~meta)",
    "spectral.Density(mu=~strided, moments=~none_left)",
    "filters.ARMAFilter.check_method(options=@mkldnn)", "filters.GCNFilter.on_regular(degree=@1e300)",
    "operators.Coarsening.arrange(x=@uint16s)", "data.NodeDataset.from_networkx(seed=@np_scalar)",
)  # fmt: skip
"""What long runs have found, and was mended."""


def test_a_small_part_of_the_whole_run() -> None:
    """Seeded; ``python -m attack.bad_inputs`` is the whole run. What is not explained in `allowed` is a defect."""
    with workplace():
        calls = all_calls(list(PUBLIC))
        items = draw(calls, 400, seed=24) + [parse(text, calls) for text in FOUND]
        findings = explained(list(run_batch(calls, items)))
    assert len(findings) == 400 + len(FOUND)
    assert [finding for finding in findings if finding.outcome in ODD] == []
