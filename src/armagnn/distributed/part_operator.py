"""The operator of a kind from a rank's rows of the adjacency: degrees are those of the whole graph, so it is exact."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from armagnn.distributed.collectives import group_of
from armagnn.distributed.part_folder import GraphPart, shares
from armagnn.distributed.partitioned_operator import PartitionedOperator
from armagnn.distributed.rank_groups import any_rank
from armagnn.operators import entries
from armagnn.operators.building import Options, _inverse_sqrt, needs_diagonal


def load_part(folder: str, group: dist.ProcessGroup) -> GraphPart:
    """Read what this rank holds of a partition: a part, or several where there are fewer ranks than parts."""
    from armagnn.distributed.part_folder import facts_of

    group = group_of(group, "load_part")
    parts = facts_of(folder).parts
    return GraphPart.load(folder, shares(parts, dist.get_world_size(group))[dist.get_rank(group)])


def part_operator(
    part: GraphPart,
    mesh: DeviceMesh | dist.ProcessGroup,
    kind: str = "arma",
    *,
    gamma: float = 1.0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> PartitionedOperator:
    r"""Build the operator of a partition, as `GraphOperator.from_edge_index` builds it of all edges.

    A rank adds up the weights of its own rows; the degrees of its halo come from their owners. So
    :math:`L_{ij} = a_{ij} / \sqrt{d_i d_j}` has the degrees of the whole graph. All ranks call this together.

    Args:
        part: of this rank: with R ranks for P parts, rank r holds those that ``shares(P, R)[r]`` names.
        mesh: a `DeviceMesh` of one axis, or a process group.
        kind: "arma", "gcn", "laplacian" or "adjacency"; see `GraphOperator`.
        gamma: weight of the self-loops of ``gcn``.
        dtype: of the values.
        device: where the rows go.

    Example:
        >>> import tempfile
        >>> from armagnn.data import load
        >>> from armagnn.distributed import partition_dataset
        >>> from armagnn.distributed.rank_groups import ranks
        >>> folder = tempfile.mkdtemp()
        >>> _ = partition_dataset(load("cora"), folder, 2)
        >>> with ranks() as group:  # one, without torchrun
        ...     part_operator(load_part(folder, group), group)
        PartitionedOperator('arma', nodes 0 to 2707 of 2708, nnz=10556, halo=0, float32, symmetric)
    """
    options = Options(kind, gamma=gamma)
    group = group_of(mesh, "part_operator")
    facts, starts = part.facts, part_starts(part.facts.starts, dist.get_world_size(group))
    rowptr, col, node = (torch.from_numpy(part.arrays[name]).to(device) for name in ("rowptr", "col", "node"))
    weight = part.tensor("weight")
    value = torch.ones(col.shape[0], dtype=dtype) if weight is None else weight.to(dtype)
    value = value.to(device)
    nodes = node.shape[0]
    row = torch.repeat_interleave(torch.arange(nodes, device=device), rowptr.diff())
    loops = bool((row + part.first == col).any())
    if needs_diagonal(kind, gamma, 0.0):
        own = torch.arange(nodes, device=device)
        loop = torch.full((nodes,), gamma if kind == "gcn" else 0.0, dtype=dtype, device=device)
        row, col, value = torch.cat([row, own]), torch.cat([col.long(), own + part.first]), torch.cat([value, loop])
        rowptr, col, value = entries.assemble(row, col, value, (nodes, facts.nodes))
        row = torch.repeat_interleave(own, rowptr.diff())
    index = torch.int32 if max(facts.nodes, col.shape[0]) < 2**31 else torch.int64
    plain = PartitionedOperator.from_rows(rowptr.to(index), col.to(index), value, group, starts)
    if kind != "adjacency":
        wide = value.to(torch.float64)
        degree = torch.zeros(nodes, dtype=torch.float64, device=device).index_add_(0, row, wide)
        scale = _inverse_sqrt(degree, dtype)
        halo = plain.halo.launch(scale[plain.halo.sent].unsqueeze(1), back=False).wait().squeeze(1)
        value = value * (scale[row] * torch.cat([scale, halo])[plain.col.long()])
        if kind == "laplacian":
            value = (row == plain.col).to(dtype) - value
    unit = options.kind == "laplacian" and not any_rank(loops, group)
    return PartitionedOperator(
        plain.rowptr, plain.col, value, plain.halo, kind=kind, symmetric=facts.symmetric, unit_diagonal=unit
    )


def part_starts(starts: Sequence[int], ranks: int) -> list[int]:
    """Return the first node of each rank (and N), where ranks hold parts that follow each other.

    Example:
        >>> part_starts((0, 3, 5, 9), 2)
        [0, 5, 9]
    """
    return [*(starts[share.start] for share in shares(len(starts) - 1, ranks)), starts[-1]]


def own_rows(x: Tensor, part: PartitionedOperator) -> Tensor:
    """Return a rank's rows of what all ranks hold whole, (..., N, F)."""
    return x[..., part.first_node : part.first_node + part.num_nodes, :]
