"""What runs on every rank: ARMA layers as one operation on a part, compared with those of one process."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[1]))

from partition_ranks import NODES, OUT, check_layer, everything, layouts, mine, operators, run

from armagnn import CSR
from armagnn.distributed import PartitionedOperator
from armagnn.distributed.halo import Halo
from armagnn.distributed.part_layer import PartPlan
from armagnn.nn import ARMAConv
from oracles import assert_near, numbers

CASES: list[dict[str, Any]] = [
    {"num_stacks": 2, "num_layers": 3},
    {"num_stacks": 2, "num_layers": 3, "shared_weights": False, "act": "elu"},
    {"num_stacks": 2, "num_layers": 2, "init": "tied", "act": "tanh"},
    {"num_stacks": 2, "num_layers": 2, "init": "tied", "shared_weights": False, "bias": False},
    {"num_stacks": 3, "num_layers": 2, "init": "zero", "act": "leaky_relu"},
    {"num_stacks": 2, "num_layers": 3, "checkpoint": True},
    {"num_stacks": 1, "num_layers": 1, "act": None},
]
NARROW, WIDE = 3, 24  # X is propagated before W0, or after it


def named(*calls: tuple[type, str]) -> Any:
    """Count the calls of these methods."""

    @contextmanager
    def watch() -> Iterator[list[str]]:
        seen: list[str] = []
        before = [getattr(kind, name) for kind, name in calls]

        def counting(name: str, given: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                seen.append(name)
                return given(*args, **kwargs)

            return call

        for (kind, name), given in zip(calls, before, strict=True):
            setattr(kind, name, counting(name, given))
        try:
            yield seen
        finally:
            for (kind, name), given in zip(calls, before, strict=True):
                setattr(kind, name, given)

    return watch()


def fused() -> Any:
    return named((PartPlan, "forward"), (PartPlan, "backward"))


def parts(directed: bool = False) -> Iterator[tuple[Any, PartitionedOperator]]:
    op = operators("arma", directed)
    for starts in layouts(op)[:2]:
        yield op, PartitionedOperator.from_operator(op, dist.group.WORLD, starts)


def check_cases() -> None:
    """Values and gradients, of X too; a layer of one operation is what runs, unless some rank has no node."""
    sparse = CSR.from_dense(numbers(NODES, WIDE, seed=4) * (numbers(NODES, WIDE, seed=5) > 0))
    for options, dropout, directed in itertools.product(CASES, (0.0, 0.4), (False, True)):
        for x in (numbers(NODES, NARROW, seed=4), numbers(NODES, WIDE, seed=4), numbers(2, NODES, 3, seed=4), sparse):
            torch.manual_seed(1)
            conv = ARMAConv(x.shape[-1], OUT, dropout=dropout, **options).double()
            for op, part in parts(directed):
                with fused() as seen:
                    check_layer(conv, op, part, x if isinstance(x, CSR) else x.clone())
                passes = ["forward", "forward", "backward"] if conv.checkpoint else ["forward", "backward"]
                assert seen == ([] if part.halo.some_empty else passes), (options, seen)


def check_weights_alone() -> None:
    """X without a gradient is propagated first where it is narrow; a rank sends as much as `bytes_sent` says."""
    for width, dropout, kept in itertools.product((NARROW, WIDE), (0.0, 0.4), (False, True)):
        torch.manual_seed(1)
        conv = ARMAConv(width, OUT, num_stacks=2, num_layers=3, dropout=dropout).double()
        x = numbers(NODES, width, seed=4)
        for op, part in parts():
            sent: list[tuple[bool, int]] = []
            launch = Halo.launch

            def counting(halo: Halo, rows: Tensor, *, back: bool, to: Any = sent, given: Any = launch) -> Any:
                to.append((back, rows.nbytes))
                return given(halo, rows, back=back)

            torch.manual_seed(7)
            truth = conv(x, op)
            torch.manual_seed(7)
            Halo.launch = counting  # type: ignore[method-assign]
            try:
                ours = conv(mine(part, x), part)
                direction = numbers(NODES, OUT, seed=9)
                loss, expected = (ours * mine(part, direction)).sum(), (truth * direction).sum()
                found = torch.autograd.grad(loss, list(conv.parameters()), retain_graph=kept)
                volume = list(sent)
                again = torch.autograd.grad(loss, list(conv.parameters())) if kept else found
            finally:
                Halo.launch = launch  # type: ignore[method-assign]
            assert_near(ours, mine(part, truth), 1e-10)
            for a, b, c in zip(found, again, torch.autograd.grad(expected, list(conv.parameters())), strict=True):
                assert torch.equal(a, b)
                whole = a.clone()
                dist.all_reduce(whole)
                assert_near(whole, c, 1e-10)
            widths = [width if width == NARROW else 2 * OUT, 2 * OUT, 2 * OUT]
            assert [size for back, size in volume if not back] == [
                part.halo.bytes_sent(w, torch.float64) for w in widths
            ]
            back = [len(part.halo.wanted) * 2 * OUT * 8] * (2 if width == NARROW else 3)
            assert [size for way, size in volume if way] == back


def check_composition() -> None:
    """Derivatives of gradients, learned edge values, activations of one's own, autocast and empty ranks."""
    op = operators("arma")
    part = PartitionedOperator.from_operator(op, dist.group.WORLD)
    x = numbers(NODES, NARROW, seed=4)
    torch.manual_seed(1)
    conv = ARMAConv(NARROW, OUT, num_stacks=2, num_layers=2, act="tanh", dropout=0.4).double()
    results = []
    for which, rows in ((op, x.clone()), (part, mine(part, x).clone())):
        rows.requires_grad_()
        torch.manual_seed(7)
        with fused() as seen:
            loss = which.total(conv(rows, which).square().sum())
            (g,) = torch.autograd.grad(loss, rows, create_graph=True)
            (second,) = torch.autograd.grad(which.total(g.square().sum()), rows)
        # the gradient is the composition's; the loss is a square, so its derivative goes through the output once more
        assert seen == (["forward", "backward"] if which is part else [])
        results.append((g, second))
    for ours, truth in zip(results[1], results[0], strict=True):
        assert_near(ours, mine(part, truth), 1e-10)

    with fused() as seen:
        value = part.value.clone().requires_grad_()
        learned = part.with_value(value)
        torch.manual_seed(7)
        out = conv(mine(part, x), learned)
        torch.manual_seed(7)
        assert_near(everything(part, out), conv(x, op), 1e-10)
        (g,) = torch.autograd.grad(learned.total(out.square().sum()), value)
        assert value.numel() == 0 or g.abs().max() > 0
        own = ARMAConv(NARROW, OUT, act=nn.Softplus()).double()
        assert_near(own(mine(part, x), part), mine(part, own(x, op)), 1e-10)
        empty = PartitionedOperator.from_operator(op, dist.group.WORLD, [0] + [NODES] * dist.get_world_size())
        if dist.get_world_size() > 1:
            conv(mine(empty, x), empty).sum().backward()
        narrow = ARMAConv(NARROW, OUT, num_stacks=2, num_layers=2)
        with torch.autocast("cpu"):
            narrow(mine(part, x).float(), part.to(torch.float32)).sum().backward()
    assert seen == []
    small, whole = part.to(torch.bfloat16), op.to(torch.bfloat16)
    for dropout in (0.0, 0.4):
        torch.manual_seed(1)
        low = ARMAConv(NARROW, OUT, num_stacks=2, num_layers=3, dropout=dropout).bfloat16()
        outs = []
        for each, rows in ((whole, x.bfloat16()), (small, mine(part, x).bfloat16())):
            torch.manual_seed(7)
            with fused() as seen:
                out = low(rows, each)
                out.float().sum().backward()
            assert seen == (["forward", "backward"] if each is small else [])
            outs.append(out)
        assert_near(outs[1], mine(part, outs[0]), 0.05)


CHECKS = {"cases": check_cases, "weights alone": check_weights_alone, "composition": check_composition}


if __name__ == "__main__":
    run(CHECKS, 200)
