"""Batches taken in one launch on a GPU against torch's operations."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from armagnn.kernels import blocks as plain
from armagnn.kernels.blocks import Blocks

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
DEVICE = "cuda"


def blocks(sizes: list[tuple[int, int]], transposed: bool, dtype: torch.dtype, index: torch.dtype) -> Blocks:
    """Blocks of so many rows and nonzeros, whatever the nonzeros are: nothing here computes with them."""
    generator = torch.Generator().manual_seed(0)
    starts = torch.nn.functional.pad(torch.tensor(sizes).t().cumsum(1), (1, 0))

    def structure() -> tuple[Tensor, Tensor]:
        pointers, columns = [torch.zeros(1, dtype=torch.int64)], []
        for (rows, nonzeros), (first, before) in zip(sizes, starts.t()[:-1].tolist(), strict=True):
            places = torch.randint(0, max(rows, 1), (nonzeros,), generator=generator)
            pointers.append(before + torch.bincount(places, minlength=rows)[:rows].cumsum(0))
            columns.append(first + torch.randint(0, max(rows, 1), (nonzeros,), generator=generator))
        return torch.cat(pointers).to(index), torch.cat(columns).to(index)

    orders = [torch.randperm(nonzeros, generator=generator) for _, nonzeros in sizes]
    perm = torch.cat([before + order for before, order in zip(starts[1, :-1], orders, strict=True)])
    value = torch.randn(int(starts[1, -1]), generator=generator).to(dtype)
    found = Blocks(starts, *structure(), value, (*structure(), perm.to(index)) if transposed else None)
    return Blocks(*(moved(part) for part in found))  # type: ignore[arg-type]


def moved(part: Tensor | tuple[Tensor, ...] | None) -> Tensor | tuple[Tensor, ...] | None:
    if isinstance(part, tuple):
        return tuple(tensor.to(DEVICE) for tensor in part)
    return None if part is None else part.to(DEVICE)


SIZES = [(4, 7), (1, 0), (130, 300), (0, 0), (2, 1), (5, 25)]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("dtype", "index"), [(torch.float32, torch.int32), (torch.float64, torch.int64), (torch.bfloat16, torch.int32)]
)
@pytest.mark.parametrize("picks", [[0], [1, 6, 3], [2, 2, 4, 0, 5], [3, 1, 0] * 9, [6, 6, 1]])
@pytest.mark.parametrize("room", [(0, 0), (1, 3), (200, 70)])
def test_one_launch_is_all_operations(
    transposed: bool, dtype: torch.dtype, index: torch.dtype, picks: list[int], room: tuple[int, int]
) -> None:
    from armagnn.kernels import gpu_blocks

    source = blocks(SIZES, transposed, dtype, index)
    needed = [sum([*SIZES, (0, 0)][pick][which] for pick in picks) for which in (0, 1)]
    rows, nonzeros = needed[0] + room[0], needed[1] + room[1]
    padded = torch.nn.functional.pad(source.starts, (0, 1), mode="replicate")
    given = source, padded, torch.tensor(picks, device=DEVICE), rows, nonzeros, index
    found, truth = gpu_blocks.take_padded(*given), plain._take_padded(*given)
    assert found is not None
    for one, two in zip([*found.blocks[:4], *found[1:]], [*truth.blocks[:4], *truth[1:]], strict=True):
        assert one.dtype == two.dtype
        assert torch.equal(one, two)
    assert (found.blocks.transposed is None) == (not transposed)
    for one, two in zip(found.blocks.transposed or (), truth.blocks.transposed or (), strict=True):
        assert one.dtype == two.dtype
        assert torch.equal(one, two)


def test_what_one_launch_cannot_do_is_left_to_torch() -> None:
    from armagnn.kernels import gpu_blocks

    source = blocks(SIZES, False, torch.float32, torch.int32)
    padded = torch.nn.functional.pad(source.starts, (0, 1), mode="replicate")
    many = torch.zeros(gpu_blocks.MOST_BLOCKS + 1, dtype=torch.int64, device=DEVICE)
    assert gpu_blocks.take_padded(source, padded, many, 2000, 2000, torch.int32) is None
    trained = source._replace(value=source.value.clone().requires_grad_())
    assert gpu_blocks.take_padded(trained, padded, many[:2], 20, 20, torch.int32) is None
