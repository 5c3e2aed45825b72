"""`GraphOperator`: the one sparse matrix that filters, layers, solvers and analyses are written against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import torch
from torch import Tensor

from armagnn import kernels
from armagnn.errors import DTypeError, GraphError, ShapeError, SymmetryError
from armagnn.kernels.backends import Matrix, Plan
from armagnn.operators import entries
from armagnn.operators.all_rows import AllRows
from armagnn.operators.building import (
    NEEDS_SYMMETRY,
    Kind,
    Options,
    check_fields,
    join,
    of_matrix,
    off_diagonal,
    operator_of,
    without_shift,
)
from armagnn.operators.csr import CSR, register
from armagnn.operators.kept import once_per_operator
from armagnn.operators.reordering import NodeOrder, reordered
from armagnn.torch_private import normal_mode, traced

if TYPE_CHECKING:
    from armagnn.operators.spectra import BlockSpectrum


class GraphOperator(AllRows, CSR):
    r"""A graph as a linear operator, :math:`M = \frac{1}{2}(\lambda_{max} - \lambda_{min}) I - L` (Eq. 9) by default.

    Row i of the operator says what node i receives: ``(op @ x)[i] = sum_j op[i, j] x[j]``. An edge (source, target) of
    an ``edge_index`` therefore becomes the entry [target, source], as in PyTorch Geometric, and degrees are in-degrees;
    a matrix (scipy, torch.sparse, dense) is taken as it stands.

    =============  ====================================================================  ==============================
    kind           operator                                                              a node without edges
    =============  ====================================================================  ==============================
    ``arma``       :math:`D^{-1/2} A D^{-1/2}` (Eq. 9 with λmin = 0, λmax = 2)           a zero row
    ``gcn``        :math:`\tilde D^{-1/2} (A + \gamma I) \tilde D^{-1/2}` (Eq. 5)        1 on the diagonal if γ > 0
    ``laplacian``  :math:`I - D^{-1/2} A D^{-1/2}`                                       1 on the diagonal
    ``adjacency``  :math:`A`                                                             a zero row
    =============  ====================================================================  ==============================

    Parallel edges are added up, a self-loop counts once in its node's degree, weights may be anything finite for
    ``adjacency`` and must not be negative for the other kinds. The operator is immutable, checked and normalised once,
    when it is built. See `CSR` for what ``op @ x`` can do.

    Options of the builders:

    - ``gamma`` (γ ≥ 0): the weight of the self-loops that ``gcn`` adds to every node.
    - ``lambda_min``, ``lambda_max``: numbers, or ``"computed"`` from the graph; for ``arma``.
    - ``symmetrize``: ``"max"`` or ``"mean"`` of A and its transpose, where a directed graph must become undirected.
    - ``allow_isolated``: take more than ten million nodes, and more than a hundred for each edge. Without it they are
      refused, because one id that was never renumbered would ask for all memory.
    - ``dtype``: of the values. By default that of floating-point torch weights, else torch's default. Weights of a
      wider type are checked, and normalised where the narrow type cannot hold them, in their own.

    Example:
        >>> import torch
        >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> op = GraphOperator.from_edge_index(path, num_nodes=4)
        >>> op
        GraphOperator('arma', 4 nodes, nnz=4, float32, symmetric)
        >>> (op @ torch.ones(4, 1)).squeeze()
        tensor([0.7071, 1.4142, 0.7071, 0.0000])
    """

    kind: str
    unit_diagonal: bool
    """Every diagonal entry is one, whatever the weights: a ``laplacian`` without stored self-loops. False where it is
    not known, as after `with_value` or within compiled code. The padding of a batch, all zeros, does not count."""
    shift: float | None
    r"""s of :math:`M = (1 + s) I - L`, which is :math:`(\lambda_{max} - \lambda_{min}) / 2 - 1` for ``arma`` (0 by
    default) and 0 for the other kinds. None where it is not one number, as of graphs joined that have several."""
    for_one_call: bool = False
    """Built from edges for a single call of a layer: what is worked out for it will not be asked for again."""
    blocks: BlockSpectrum | None = None
    """The frequencies and vectors of each graph of a batch, where they are known; see `GraphBatches.find_spectra`."""

    def __init__(
        self,
        rowptr: Tensor,
        col: Tensor,
        value: Tensor,
        shape: tuple[int, int],
        *,
        kind: str = "adjacency",
        transposed: tuple[Tensor, Tensor, Tensor] | None = None,
        symmetric: bool = False,
        unit_diagonal: bool = False,
        shift: float | None = 0.0,
        check_invariants: bool = True,
    ) -> None:
        super().__init__(
            rowptr, col, value, shape, transposed=transposed, symmetric=symmetric, check_invariants=check_invariants
        )
        if check_invariants and not traced():
            check_fields(self.shape, kind, shift)
        self.kind, self.unit_diagonal, self.shift = kind, unit_diagonal, shift

    # ------------------------------------------------------------------------------------------------------- builders

    @classmethod
    def from_edge_index(
        cls,
        edge_index: Tensor,
        num_nodes: int | None = None,
        edge_weight: Tensor | None = None,
        kind: Kind = "arma",
        *,
        gamma: float = 1.0,
        lambda_min: float | Literal["computed"] = 0.0,
        lambda_max: float | Literal["computed"] = 2.0,
        symmetrize: Literal["max", "mean"] | None = None,
        allow_isolated: bool = False,
        dtype: torch.dtype | None = None,
    ) -> GraphOperator:
        """Build from edges (source, target), shape (2, E), and optional weights, shape (E)."""
        if hasattr(edge_index, "as_tensor"):  # PyG's EdgeIndex is a tensor that also knows its size
            size = edge_index.sparse_size()  # type: ignore[attr-defined]
            num_nodes = max(size[0] or 0, size[1] or 0) or None if num_nodes is None else num_nodes
            edge_index = edge_index.as_tensor()
        edge_index, num_nodes = entries.edge_index(edge_index, num_nodes, allow_isolated)
        weight, wanted = entries.given_weight(edge_weight, edge_index, dtype)
        options = Options(kind, gamma, lambda_min, lambda_max, symmetrize)
        return GraphOperator(**operator_of(options, edge_index[1], edge_index[0], weight, num_nodes, wanted))

    @classmethod
    def from_scipy(  # type: ignore[override]
        cls, matrix: Any, kind: Kind = "arma", dtype: torch.dtype | None = None, **options: Any
    ) -> GraphOperator:
        """Build from a square scipy.sparse adjacency."""
        return GraphOperator(**of_matrix(entries.from_scipy(matrix, dtype), kind, options))

    @classmethod
    def from_torch_sparse(  # type: ignore[override]
        cls, matrix: Tensor, kind: Kind = "arma", dtype: torch.dtype | None = None, **options: Any
    ) -> GraphOperator:
        """Build from a square torch.sparse adjacency of any layout (PyG's ``adj_t``: rows receive)."""
        return GraphOperator(**of_matrix(entries.from_torch_sparse(matrix, dtype), kind, options))

    @classmethod
    def from_dense(  # type: ignore[override]
        cls, matrix: Any, kind: Kind = "arma", dtype: torch.dtype | None = None, **options: Any
    ) -> GraphOperator:
        """Build from a square dense adjacency, a tensor or an array."""
        return GraphOperator(**of_matrix(entries.from_dense(matrix, dtype), kind, options))

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        kind: Kind = "arma",
        weight: str | None = "weight",
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> GraphOperator:
        """Build from a networkx graph in its node order; an edge u -> v of a directed graph lets v receive from u."""
        import networkx

        if not isinstance(graph, networkx.Graph):
            raise DTypeError(f"expected a networkx graph, got {type(graph).__name__}.")
        if graph.number_of_nodes() == 0:
            return cls.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 0, kind=kind, dtype=dtype, **options)
        try:
            matrix = networkx.to_scipy_sparse_array(graph, weight=weight, dtype=float, format="coo")
        except (TypeError, ValueError) as error:
            raise GraphError(f"the edge attribute weight={weight!r} must hold real numbers: {error}.") from error
        return cls.from_scipy(matrix.T, kind, dtype, **options)

    @classmethod
    def from_data(cls, data: Any, kind: Kind = "arma", **options: Any) -> GraphOperator:
        """Build from a PyG ``Data`` or ``Batch``: its ``edge_index`` and ``edge_weight``, or its ``adj_t``."""
        adjacency = getattr(data, "adj_t", None)
        if adjacency is not None:
            return cls.from_graph(adjacency, data.num_nodes, kind=kind, **options)
        if getattr(data, "edge_index", None) is None:
            raise GraphError(f"{type(data).__name__} has neither edge_index nor adj_t: set one of them.")
        weight = getattr(data, "edge_weight", None)
        return cls.from_edge_index(data.edge_index, data.num_nodes, weight, kind, **options)

    @classmethod
    def from_graph(
        cls,
        graph: Any,
        num_nodes: int | None = None,
        edge_weight: Tensor | None = None,
        kind: Kind = "arma",
        **options: Any,
    ) -> GraphOperator:
        """Build from whatever a graph came as: the type decides which of the other builders reads it."""
        if isinstance(graph, GraphOperator):
            return graph
        if isinstance(graph, tuple) and len(graph) == 2 and edge_weight is None:  # what `knn_graph` returns
            graph, edge_weight = graph
        if isinstance(graph, Tensor) and graph.layout is torch.strided:
            return cls.from_edge_index(graph, num_nodes, edge_weight, kind, **options)
        if edge_weight is not None:
            raise GraphError("edge_weight goes with an edge_index; a matrix holds its weights itself.")
        if isinstance(graph, Tensor):
            op = cls.from_torch_sparse(graph, kind, **options)
        elif type(graph).__name__ == "SparseTensor" and hasattr(graph, "to_torch_sparse_coo_tensor"):
            op = cls.from_torch_sparse(graph.to_torch_sparse_coo_tensor(), kind, **options)
        elif hasattr(graph, "edge_index") or hasattr(graph, "adj_t"):
            op = cls.from_data(graph, kind, **options)
        elif hasattr(graph, "tocoo"):
            op = cls.from_scipy(graph, kind, **options)
        elif hasattr(graph, "adjacency") and hasattr(graph, "number_of_nodes"):
            op = cls.from_networkx(graph, kind, **options)
        else:
            raise DTypeError(
                f"cannot read a graph from {type(graph).__name__}: pass a GraphOperator, an edge_index of shape "
                "(2, E), perhaps with its weights, a sparse matrix (scipy or torch), a PyG Data or a networkx graph."
            )
        if num_nodes is not None and op.num_nodes != num_nodes:
            raise ShapeError(f"the graph has {op.num_nodes} nodes, but {num_nodes} are expected.")
        return op

    @classmethod
    def block_diagonal(cls, operators: Sequence[GraphOperator]) -> GraphOperator:
        """Join disjoint graphs into one operator, node ids one after the other: a batch.

        Example:
            >>> import torch
            >>> one = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]))
            >>> GraphOperator.block_diagonal([one, one])
            GraphOperator('arma', 4 nodes, nnz=4, float32, symmetric)
        """
        if not isinstance(operators, Iterable) or hasattr(operators, "dtype"):  # tensors and arrays
            raise DTypeError(f"block_diagonal joins a sequence of GraphOperators, got {type(operators).__name__}.")
        operators = list(operators)
        if not operators:
            raise GraphError("block_diagonal needs at least one operator.")
        for op in operators:
            if not isinstance(op, GraphOperator):
                raise DTypeError(f"block_diagonal joins GraphOperators, got {type(op).__name__}.")
        with normal_mode():
            rowptr, col, value, transposed = join(operators)
        nodes = sum(op.num_nodes for op in operators)
        shifts = {op.shift for op in operators}
        return GraphOperator(
            rowptr,
            col,
            value,
            (nodes, nodes),
            kind=operators[0].kind,
            transposed=transposed,
            symmetric=all(op.symmetric for op in operators),
            unit_diagonal=all(op.unit_diagonal for op in operators),
            shift=shifts.pop() if len(shifts) == 1 else None,
            check_invariants=False,
        )

    # ----------------------------------------------------------------------------------------------------- properties

    @property
    def num_nodes(self) -> int:
        """The number of nodes N."""
        return self.shape[0]

    def require_symmetric(self, purpose: str) -> Self:
        """Return the operator itself, or raise with advice where it is directed."""
        if not self.symmetric:
            raise SymmetryError(NEEDS_SYMMETRY.format(purpose))
        return self

    def reordered(self, order: Tensor | None = None) -> tuple[GraphOperator, NodeOrder]:
        """Return the same graph with its nodes in another order, and that order, which takes features there and back.

        Products with a large graph are faster where the numbers of neighbours are near each other. ``order`` names the
        nodes as they shall come, shape (N), for example by METIS; by default it is reverse Cuthill-McKee's.

        Example:
            >>> import torch
            >>> op, x = GraphOperator.from_edge_index(torch.tensor([[0, 9], [9, 0]]), 10), torch.randn(10, 3)
            >>> near, order = op.reordered()
            >>> assert torch.equal(order.restore(near @ order.permute(x)), op @ x)
        """
        return reordered(self, order)

    # ------------------------------------------------------------------------------------------------------- diagonal

    def diagonal(self) -> Tensor:
        """Return the diagonal, shape (N), differentiable in the values.

        Example:
            >>> import torch
            >>> GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), kind="laplacian").diagonal()
            tensor([1., 1.])
        """
        row = self._rows()
        zeros = torch.zeros(self.num_nodes, dtype=self.dtype, device=self.device)
        return zeros.index_add(0, row, self.value * (row == self.col))

    def off_diagonal(self) -> GraphOperator:
        """Return the operator with zeros on its diagonal, on the same pattern, differentiable in the values.

        No device is waited for; fixed values are looked through once.

        Example:
            >>> import torch
            >>> loop = GraphOperator.from_edge_index(torch.tensor([[0, 1, 1], [1, 0, 1]]), kind="adjacency")
            >>> loop.off_diagonal().to_dense()
            tensor([[0., 1.],
                    [1., 0.]])
        """
        return off_diagonal(self) if traced() else _kept_off_diagonal(self)

    def known_shift(self) -> float:
        """Return s of :math:`M = (1 + s) I - L`, or raise with advice where there is no single one."""
        if self.shift is None:
            raise GraphError(
                "the frequencies lambda of this operator are not known: it joins graphs with several lambda_min and "
                "lambda_max, or is a part of one. Build the graphs with one pair of numbers, or filter them one by one."
            )
        return self.shift

    def without_shift(self) -> GraphOperator:
        r"""Return :math:`I - L`, whatever ``lambda_min`` and ``lambda_max`` made of the diagonal.

        Filters in lambda act on it, so that they are functions of the Laplacian of the graph.

        Example:
            >>> import torch
            >>> op = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), lambda_max=1.5)
            >>> op.to_dense(), op.without_shift().to_dense()
            (tensor([[-0.2500,  1.0000],
                    [ 1.0000, -0.2500]]), tensor([[0., 1.],
                    [1., 0.]]))
        """
        shift = self.known_shift()
        if shift == 0.0:
            return self
        return without_shift(self) if traced() else _kept_without_shift(self)

    # --------------------------------------------------------------------------------------------------- for layers

    def _for_layer(self) -> tuple[Matrix, Plan | None] | None:
        """Return the operator as `kernels.arma_layer` takes it and the plan it needs; None for the composition."""
        return self._arguments(), None

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
        """Return a GCS step (Eq. 14), σ(L h + dropout(skip) + bias), of h and skip of shape (N, F)."""
        return kernels.gcs(*self._arguments(), h, skip, bias, seed, p, t, act, slope)

    def _dropout(self, x: Tensor, seed: Tensor, p: float | Tensor, step: int) -> Tensor:
        """Return features with each entry zeroed with probability p, the mask a function of the seed and the step."""
        return kernels.dropout(x, seed, p, step)

    def _entry_dropout(self, value: Tensor, seed: Tensor, p: float | Tensor) -> Tensor:
        """Return the stored entries of sparse features of these nodes, each zeroed with probability p."""
        return kernels.dropout(value, seed, p, 0)

    def _fields(self, same_entries: bool) -> dict[str, Any]:
        return {"kind": self.kind, "shift": self.shift, "unit_diagonal": same_entries and self.unit_diagonal}

    def _context(self) -> list[Any]:
        return [*super()._context(), self.kind, self.unit_diagonal, self.shift]

    def _restore(self, context: list[Any]) -> None:
        *plain, self.kind, self.unit_diagonal, self.shift = context
        super()._restore(plain)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "blocks"}  # they are of a whole set

    def __repr__(self) -> str:
        direction = "symmetric" if self.symmetric else "directed"
        return f"GraphOperator({self.kind!r}, {self.num_nodes} nodes, {self._describe()}, {direction})"


register(GraphOperator)


_kept_off_diagonal, _kept_without_shift = once_per_operator(off_diagonal), once_per_operator(without_shift)
