"""`PartitionedOperator`: an operator whose rows lie on the ranks of a process group, exact in values and gradients."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final, Self

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh

from armagnn import checks
from armagnn.distributed.collectives import group_of, summed
from armagnn.distributed.halo import Halo
from armagnn.distributed.part_layer import PartPlan
from armagnn.distributed.stack_masks import keep_columns
from armagnn.errors import DTypeError, GraphError, ParameterError, ShapeError, UnsupportedError, shown
from armagnn.kernels.backends import Matrix
from armagnn.nn.activations import applied
from armagnn.operators import CSR, GraphOperator, entries
from armagnn.operators.building import check_fields
from armagnn.operators.csr import fold, unfold
from armagnn.torch_private import learned, normal_mode, transforms_active

NOT_WHOLE: Final = (
    "this needs the whole operator, and a PartitionedOperator holds the rows of one rank: use ARMAConv, GCNConv, "
    "ChebConv, RationalConv, CayleyConv (without self-loops) or filters, or one process."
)


class PartitionedOperator(GraphOperator):
    r"""The rows of an operator that one rank owns: ``part @ x`` with each rank's own rows of x.

    With the rows of a rank split into those columns that it owns and its halo,

    .. math::
        (L X)_r = L_{rr} X_r + \sum_{s \ne r} L_{rs} X_s,

    the rank sends the rows of :math:`X_r` that others need, multiplies by :math:`L_{rr}` in the meantime, and adds the
    rest when the halo is here. The gradient is the exchange the other way. Layers and filters take it as any operator,
    with this rank's features ``(..., n, F)``, where n is `num_nodes`; all ranks call them together. Values, gradients
    and dropout masks are those of one process.

    Attributes:
        halo: what is exchanged with whom.
        total_nodes: N, of the whole graph.

    Example:
        >>> import torch
        >>> import torch.distributed as dist
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # torchrun does it for many
        >>> op = GraphOperator.from_edge_index(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> part = PartitionedOperator.from_operator(op, dist.group.WORLD)
        >>> part
        PartitionedOperator('arma', nodes 0 to 2 of 3, nnz=4, halo=0, float32, symmetric)
        >>> torch.equal(part @ torch.eye(3), op @ torch.eye(3))
        True
        >>> dist.destroy_process_group()
    """

    whole = False

    def __init__(
        self, rowptr: Tensor, col: Tensor, value: Tensor, halo: Halo, *,
        kind: str = "adjacency", symmetric: bool = False, unit_diagonal: bool = False, shift: float | None = 0.0,
        check_invariants: bool = True,
    ) -> None:  # fmt: skip
        """Hold a rank's rows; columns 0 .. n-1 are its own nodes, n .. n+H-1 those of the halo."""
        if check_invariants:
            checks.instance("halo", halo, Halo, "a Halo, as Halo.agree makes it")
            entries.check_compressed(rowptr, col, value, (halo.owned, halo.owned + len(halo.wanted)))
            check_fields((halo.owned, halo.owned), kind, shift)
            symmetric = checks.flag("symmetric", symmetric)
            unit_diagonal = checks.flag("unit_diagonal", unit_diagonal)
        # CSR's own __init__ would look for a transpose, which lies on all ranks
        self.rowptr, self.col, self.value, self.halo = rowptr, col, value, halo
        self.shape, self.symmetric = (halo.owned, halo.owned), symmetric
        self._transposed = self._t_value = None
        self.kind, self.unit_diagonal, self.shift = kind, unit_diagonal, shift
        self._own, self._border, self._other = self._split()
        self._plan: PartPlan | None = None

    # ------------------------------------------------------------------------------------------------------- builders

    @classmethod
    def from_operator(
        cls, op: GraphOperator, mesh: DeviceMesh | dist.ProcessGroup, starts: Sequence[int] | None = None
    ) -> PartitionedOperator:
        """Keep this rank's rows of an operator that every rank holds whole, for graphs that fit.

        Args:
            op: the whole operator, the same on all ranks.
            mesh: a `DeviceMesh` of one axis, or a process group.
            starts: the first node of each rank, and N: ``[0, 100, 250]`` gives two ranks 100 and 150 nodes. By default
                runs of nodes with nearly equal numbers of nonzeros.
        """
        if not isinstance(op, GraphOperator) or not op.whole:
            raise DTypeError(f"from_operator takes a whole GraphOperator, got {type(op).__name__}.")
        group = group_of(mesh, "a PartitionedOperator")
        ranks, rank = dist.get_world_size(group), dist.get_rank(group)
        bounds = balanced(op.rowptr, ranks) if starts is None else checked_starts(starts, ranks)
        if bounds[-1] != op.num_nodes:
            raise GraphError(f"starts must end with N = {op.num_nodes}, the nodes of the operator, got {bounds[-1]}.")
        first, stop = bounds[rank], bounds[rank + 1]
        low, high = int(op.rowptr[first]), int(op.rowptr[stop])
        rowptr = op.rowptr[first : stop + 1] - low
        return cls.from_rows(
            rowptr, op.col[low:high], op.value[low:high], group, bounds,
            kind=op.kind, symmetric=op.symmetric, unit_diagonal=op.unit_diagonal, shift=op.shift,
        )  # fmt: skip

    @classmethod
    def from_rows(
        cls, rowptr: Tensor, col: Tensor, value: Tensor, group: DeviceMesh | dist.ProcessGroup, starts: Sequence[int],
        *, kind: str = "adjacency", symmetric: bool = False, unit_diagonal: bool = False, shift: float | None = 0.0,
    ) -> PartitionedOperator:  # fmt: skip
        """Make the operator of a rank's rows, so that no rank ever holds the whole graph.

        Args:
            rowptr: where each of this rank's n rows starts, shape (n + 1).
            col: the column of each nonzero, shape (nnz), numbered in the whole graph.
            value: the nonzeros, shape (nnz).
            group: a `DeviceMesh` of one axis, or a process group.
            starts: the first node of each rank, and N.
            kind: what the whole operator is, as in `GraphOperator`.
            symmetric: the whole operator equals its transpose. Nothing checks that.
            unit_diagonal: every diagonal entry is stored and is one.
            shift: see `GraphOperator.shift`.
        """
        group = group_of(group, "a PartitionedOperator")
        rank, ranks = dist.get_rank(group), dist.get_world_size(group)
        starts = checked_starts(starts, ranks)
        entries.check_compressed(rowptr, col, value, (starts[rank + 1] - starts[rank], starts[-1]))
        first, stop = starts[rank], starts[rank + 1]
        own = (col >= first) & (col < stop)
        wanted, place = torch.unique(col[~own].long(), return_inverse=True)
        local = col.clone()
        local[own] = col[own] - first
        local[~own] = (place + (stop - first)).to(col.dtype)
        halo = Halo.agree(group, starts, wanted)
        return cls(rowptr, local, value, halo, kind=kind, symmetric=symmetric, unit_diagonal=unit_diagonal, shift=shift)

    def _split(self) -> tuple[CSR, Tensor, CSR]:
        """Return the rows over own columns; which of them reach into the halo; and these over the halo."""
        nodes, halo = self.shape[0], int(self.halo.wanted.shape[0])
        own, rows = self.col < nodes, self._rows()
        border, place = torch.unique_consecutive(rows[~own], return_inverse=True)
        symmetric = self.symmetric and not learned(self.value)  # then so is the block of own rows and columns
        parts = []
        for kept, row, shape, first, same in (
            (own, rows[own], (nodes, nodes), 0, symmetric),
            (~own, place, (border.shape[0], halo), nodes, False),
        ):
            counts = torch.bincount(row, minlength=shape[0])
            rowptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)]).to(self.rowptr.dtype)
            col, value = self.col[kept] - first, self.value[kept]
            parts.append(CSR(rowptr, col, value, shape, symmetric=same, check_invariants=False))
        return parts[0], border.long(), parts[1]

    # ----------------------------------------------------------------------------------------------------- properties

    @property
    def total_nodes(self) -> int:
        """N, the nodes of the whole graph; ``num_nodes`` are those of this rank."""
        return self.halo.total

    @property
    def first_node(self) -> int:
        """The number of this rank's first node in the whole graph."""
        return self.halo.first

    @property
    def T(self) -> Self:
        """The transpose, which a symmetric operator is itself."""
        if self.symmetric and not learned(self.value):
            return self
        raise UnsupportedError("the transpose of a directed PartitionedOperator lies on other ranks: " + NOT_WHOLE)

    def with_value(self, value: Tensor) -> Self:
        """Return the operator with other values of this rank's nonzeros, shape (nnz), differentiable in them."""
        value = checks.real_tensor("value", value, f"({self.nnz},)")
        if value.shape != self.value.shape:
            raise ShapeError(f"value must have shape ({self.nnz},), one number per nonzero, got {tuple(value.shape)}.")
        return self._new(self.rowptr, self.col, value, self.shape, None, False)

    def _new(
        self,
        rowptr: Tensor,
        col: Tensor,
        value: Tensor,
        shape: tuple[int, int],
        transposed: tuple[Tensor, Tensor, Tensor] | None,
        symmetric: bool,
        same_entries: bool = False,
    ) -> Self:
        own = self._fields(same_entries)
        halo = self.halo.to(value.device)
        return type(self)(rowptr, col, value, halo, symmetric=symmetric, check_invariants=False, **own)

    def require_whole(self) -> Self:
        """Raise: this is a part of an operator."""
        raise UnsupportedError(NOT_WHOLE)

    def _structure(self) -> tuple[Tensor, Tensor, Tensor]:
        raise UnsupportedError(NOT_WHOLE)

    def _arguments(self, with_perm: bool = False) -> Any:
        raise UnsupportedError(NOT_WHOLE)

    def to_dense(self) -> Tensor:
        """Raise: no rank has the whole matrix. See `dense_rows`."""
        raise UnsupportedError(NOT_WHOLE)

    def to_scipy(self) -> Any:
        """Raise: no rank has the whole matrix."""
        raise UnsupportedError(NOT_WHOLE)

    def dense_rows(self) -> Tensor:
        """Return this rank's rows of the dense matrix, shape (n, N); differentiable in the values."""
        columns = torch.cat([torch.arange(self.shape[0], device=self.device) + self.halo.first, self.halo.wanted])
        place = self._rows() * self.total_nodes + columns[self.col.long()]
        flat = torch.zeros(self.shape[0] * self.total_nodes, dtype=self.dtype, device=self.device)
        return flat.index_add(0, place, self.value).view(self.shape[0], self.total_nodes)

    # -------------------------------------------------------------------------------------------------------- products

    def _product(self, x: Tensor) -> Tensor:
        self.check_operand(x)
        if transforms_active():
            raise UnsupportedError("a PartitionedOperator works under no vmap and no other transform of torch.func.")
        if torch.is_autocast_enabled(x.device.type) and x.dtype != torch.float64:
            x = x.to(torch.get_autocast_dtype(x.device.type))
        flat = fold(x)
        if self.halo.some_empty:  # a rank without nodes may not see from x how wide the others' rows are
            width = torch.tensor(flat.shape[1], device=x.device)
            dist.all_reduce(width, dist.ReduceOp.MAX, self.halo.group)
            flat = flat if flat.shape[0] else flat.reshape(0, int(width))
        rows, pending = self.halo.begin(flat)
        out = self._own @ flat
        out.index_add_(0, self._border, self._other @ self.halo.end(rows, pending))
        return unfold(out, x.shape) if out.shape[0] else out.reshape(x.shape)

    def _for_layer(self) -> tuple[Matrix, PartPlan] | None:
        """Return the own block and the plan of an ARMA layer; None if values are learned or some rank has no node.

        All ranks must return the same here, so this asks nothing about the nodes of this rank.
        """
        if self.halo.some_empty or learned(self.value):
            return None
        if self._plan is None:
            with normal_mode():
                self._plan = PartPlan(self._own, self._border, self._other, self.halo)
        return self._plan.own, self._plan

    def _step(
        self,
        h: Tensor,
        skip: Tensor,
        bias: Tensor | None,
        seed: Tensor | None,
        p: float | Tensor,
        t: int,
        act: str,
        slope: float,
    ) -> Tensor:
        """Return a GCS step (Eq. 14), σ(L h + dropout(skip) + bias), in the parts that a fused kernel does at once."""
        out = self @ h + (skip if seed is None else self._dropout(skip, seed, p, t))
        return applied(act, slope, out if bias is None else out + bias)

    def _dropout(self, x: Tensor, seed: Tensor, p: float | Tensor, step: int) -> Tensor:
        """Return rows x of this rank's nodes, (n * batch, F) node-major or (..., n, F), each entry dropped with rate p.

        An entry is dropped by its number in the whole graph, so that the masks are those of one process.
        """
        if x.numel() == 0:
            return x
        nodes, width = self.num_nodes, x.shape[-1]
        signals = 1
        if x.dim() == 2:  # the batch is a part of the row
            width *= x.shape[0] // nodes
        else:
            signals = x[..., 0, 0].numel()
        columns = slice(self.halo.first * width, (self.halo.first + self.num_nodes) * width)
        return self._numbered(x, seed, p, step, (signals, self.total_nodes * width), columns)

    def _numbered(
        self, x: Tensor, seed: Tensor, p: float | Tensor, step: int, shape: tuple[int, int], columns: slice
    ) -> Tensor:
        if x.numel() == 0:
            return x
        rate = checks.probability("a drop rate", float(p))
        keep = keep_columns(seed, rate, step, shape, columns).view(x.shape)
        return torch.where(keep, x * (1.0 / (1.0 - rate)), x.new_zeros(()))

    def _entry_dropout(self, value: Tensor, seed: Tensor, p: float | Tensor) -> Tensor:
        """Return the stored entries of sparse features of this rank's nodes, dropped by their numbers in the whole."""
        counts = torch.zeros(dist.get_world_size(self.halo.group), dtype=torch.int64, device=value.device)
        counts[dist.get_rank(self.halo.group)] = len(value)
        dist.all_reduce(counts, group=self.halo.group)
        first = int(counts[: dist.get_rank(self.halo.group)].sum())
        return self._numbered(value, seed, p, 0, (1, int(counts.sum())), slice(first, first + len(value)))

    # --------------------------------------------------------------------------------------------- all ranks at once

    def total(self, x: Tensor) -> Tensor:
        """Return the sum of x over the ranks, for a loss: every rank gets it, and the gradient of its own part."""
        return summed(checks.dense("x", x, "(...)"), self.halo.group)

    def most(self, x: Tensor) -> Tensor:
        """Return the maximum of x over the ranks."""
        out = checks.dense("x", x, "(...)").clone()
        dist.all_reduce(out, dist.ReduceOp.MAX, self.halo.group)
        return out

    def shared(self, module: nn.Module) -> nn.Module:
        """Let every rank have the whole gradient of a module's parameters, which all ranks hold alike.

        Returns the module. Its parameters become those of the first rank.
        """
        for parameter in checks.instance("module", module, nn.Module, "a module of torch.nn").parameters():
            dist.broadcast(parameter.data, group=self.halo.group, group_src=0)
            if parameter.requires_grad:
                parameter.register_hook(lambda g: summed(g, self.halo.group))
        return module

    def _describe(self) -> str:
        return f"nnz={self.nnz}, halo={self.halo.wanted.shape[0]}, {str(self.dtype).removeprefix('torch.')}"

    def __repr__(self) -> str:
        direction = "symmetric" if self.symmetric else "directed"
        first, last = self.halo.first, self.halo.first + self.num_nodes - 1
        nodes = f"nodes {first} to {last} of {self.total_nodes}" if self.num_nodes else f"no node of {self.total_nodes}"
        return f"PartitionedOperator({self.kind!r}, {nodes}, {self._describe()}, {direction})"


def balanced(rowptr: Tensor, ranks: int) -> tuple[int, ...]:
    """Return where the runs of nodes begin (and N) that share out the nonzeros, and an entry a node, evenly.

    Example:
        >>> balanced(torch.tensor([0, 6, 7, 8, 9]), 2)
        (0, 1, 4)
    """
    nodes = rowptr.shape[0] - 1
    load = rowptr.long() + torch.arange(nodes + 1, device=rowptr.device)
    goals = load[-1] * torch.arange(1, ranks, device=rowptr.device) // ranks
    after = torch.searchsorted(load, goals).clamp(max=nodes)
    before = (after - 1).clamp(min=0)
    nearest = torch.where(goals - load[before] <= load[after] - goals, before, after)
    return 0, *nearest.cummax(0).values.tolist(), nodes


def checked_starts(starts: Any, ranks: int) -> tuple[int, ...]:
    """Return the runs of nodes that a caller gave, if there is one a rank and they are in order."""
    try:
        given = tuple(checks.integer("a start", start, 0) for start in starts)
    except TypeError as error:
        raise ParameterError("starts must be a list of the first node of each rank, and N.") from error
    if len(given) != ranks + 1 or given[0] != 0 or any(a > b for a, b in itertools.pairwise(given)):
        raise GraphError(f"starts must rise from 0 to N in {ranks + 1} numbers, one a rank and N, got {shown(given)}.")
    return given
