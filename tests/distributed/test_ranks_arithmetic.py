"""The arithmetic of `benchmarks/ranks_arithmetic.py` against what a rank holds, keeps and sends."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

from armagnn.distributed import PartitionedOperator
from armagnn.distributed.halo import Halo
from armagnn.nn import ARMAConv

pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="this build of torch has no gloo")
ROOT = Path(__file__).parents[2]
FILE = ROOT / "benchmarks" / "ranks_arithmetic.py"


@pytest.fixture(scope="module")
def arithmetic() -> Any:
    spec = importlib.util.spec_from_file_location("ranks_arithmetic", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", autouse=True)
def _group() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def part_of(nodes: int, halo: int, entries: int, sent: int) -> PartitionedOperator:
    """The first of two ranks, which is alone here: nothing is exchanged."""
    counts = torch.full((nodes,), entries // nodes)
    counts[0] += entries - int(counts.sum())
    rowptr = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)]).int()
    col = (torch.arange(entries) % (nodes + halo)).int()
    lists = torch.arange(halo) + nodes, torch.arange(sent) % nodes
    both = Halo(dist.group.WORLD, (0, nodes, nodes + halo), *lists, [sent], [halo])  # type: ignore[arg-type]
    value = torch.full((entries,), 0.1)
    return PartitionedOperator(rowptr, col, value, both, kind="arma", symmetric=True, check_invariants=False)


def stored(part: PartitionedOperator) -> int:
    """Bytes of all tensors that a part holds, each storage once."""
    matrices = [part, part._own, part._other]
    tensors = [t for m in matrices for t in (m.rowptr, m.col, m.value)] + [part.halo.wanted, part.halo.sent]
    return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors if t.numel()}.values())


@given(st.integers(1, 30), st.integers(0, 20), st.integers(0, 90), st.integers(0, 25), st.sampled_from([1, 16, 64]))
def test_bytes_are_those_that_a_part_counts(
    arithmetic: Any, nodes: int, halo: int, more: int, sent: int, width: int
) -> None:
    entries = 2 * (nodes + halo) + more  # both parts have some
    part, share = part_of(nodes, halo, entries, sent), arithmetic.Share(nodes, entries, halo, sent)
    assert share.bytes_sent(width) == part.halo.bytes_sent(width, torch.float32)
    assert 0 <= share.operator_bytes - stored(part) <= nodes * share.id_bytes  # rows that do not reach the halo


@pytest.mark.parametrize("steps", [2, 3, 4])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_states_are_those_that_a_layer_keeps(arithmetic: Any, steps: int, checkpoint: bool) -> None:
    """But for the weights, and a few bytes of bias."""
    nodes, width, stacks = 500, 16, 2
    part = part_of(nodes, 0, 4 * nodes, 0)
    conv, x = ARMAConv(width, width, stacks, steps, checkpoint=checkpoint), torch.randn(nodes, width)
    given = {t.untyped_storage().data_ptr() for m in (part, part._own) for t in (m.rowptr, m.col, m.value)}
    given |= {p.untyped_storage().data_ptr() for p in conv.parameters()}
    kept = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes()}

    def pack(t: torch.Tensor) -> torch.Tensor:
        if t.untyped_storage().data_ptr() not in given:
            kept[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        out = conv(x, part)
    assert out.shape == (nodes, width)
    network = arithmetic.Network(1, width, stacks, steps)
    share = arithmetic.Share(nodes, part.nnz, 0, 0)
    expected = nodes * width * 4 if checkpoint else network.state_bytes(share)
    assert abs(sum(kept.values()) - expected) < 0.06 * expected


def test_the_page_has_the_table(arithmetic: Any) -> None:
    assert arithmetic.table() in (ROOT / "docs" / "guides" / "ranks-arithmetic.md").read_text()
