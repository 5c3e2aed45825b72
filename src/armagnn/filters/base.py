"""What every filter is: a response h(mu), and the linear map h(M) that it makes of an operator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, ClassVar, Final, Literal, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from armagnn.arguments import checked
from armagnn.checks import choice, dense, instance, integer, real, real_tensor
from armagnn.errors import DTypeError, GraphError, ParameterError, ShapeError, shown
from armagnn.filters.drawing import draw, small_curve
from armagnn.notebook_cards import card
from armagnn.operators import GraphOperator
from armagnn.operators.csr import fold, unfold
from armagnn.solvers.eigen import eigh
from armagnn.torch_private import forward_mode, learned

Array = npt.NDArray[np.floating[Any]]
Spectrum = tuple[Tensor, Tensor]
Variable = Literal["mu", "lambda"]
VARIABLES: Final = ("mu", "lambda")
MU: Final = ("arma", "gcn")
"""The kinds whose eigenvalues are mu in [-1, 1]."""

ADVICE: Final = {
    "laplacian": "a Laplacian has the eigenvalues lambda = 1 - mu in [0, 2], so the filter would act on the wrong "
    "frequencies: build the operator with kind='arma'",
    "adjacency": "the eigenvalues of a plain adjacency may lie anywhere, not in [-1, 1]: build it with kind='arma'",
    "gcn": "self-loops change the degrees and with them the eigenvectors: build the operator with kind='arma'",
    "arma": "it has no self-loops: build the operator with kind='gcn' and the filter's gamma",
}


class Filter(ABC):
    r"""A linear graph filter :math:`\bar X = h(M) X = U \, \mathrm{diag}[h(\mu_1), \dots, h(\mu_N)] \, U^T X` (Eq. 1).

    M is the operator of kind ``arma`` (or ``gcn``), symmetric, with frequencies ``mu`` in [-1, 1]; those of the
    Laplacian are ``lambda = 1 - mu``, so that ``mu = 1`` is the *lowest* frequency.

    An operator built with ``lambda_min`` or ``lambda_max`` is :math:`M = (1 + s) I - L` and has the frequencies
    ``mu = 1 + s - lambda``. A filter given in mu (``f.variable == "mu"``) is h(M) there, too. One given in lambda, or
    by the name of a response, is the same function of the Laplacian for every operator: it acts on :math:`I - L`.

    Every filter can do this:

    - ``f.response(mu)`` or ``f(mu)``: h, of tensors (differentiable), arrays or numbers;
    - ``f.filter(op, x, method=...)``: :math:`h(M) X` for x of shape (..., N, F), or (N) for one signal;
    - ``f.bind(op) @ x``: the same with the graph fixed, as a linear operator, which knows the response at the
      eigenvalues of its operator;
    - ``f.plot()``: the response as a picture; ``f + g``, ``f - g``, ``2 * f``: filters again.

    ``method="exact"`` uses products with M only, ``method="eigen"`` an eigendecomposition (up to 10,000 nodes; pass
    ``spectrum=(mu, U)`` to use one that you have). Coefficients may be tensors that need gradients.
    """

    kinds: ClassVar[tuple[str, ...]] = MU
    methods: ClassVar[dict[str, tuple[str, ...]]] = {"exact": (), "eigen": ("spectrum",)}
    """The ways to apply the filter, each with the names of its options."""
    variable: Variable = "mu"
    """What the filter is a function of: of the operator's eigenvalues, ``mu``, or of the Laplacian's, ``lambda``."""

    # ------------------------------------------------------------------------------------------------------- response

    @abstractmethod
    def _response(self, mu: Tensor) -> Tensor:
        """Return h at ``mu``, of any shape, differentiable."""

    @overload
    def response(self, mu: Tensor) -> Tensor: ...
    @overload
    def response(self, mu: Array | list[float] | float) -> Array: ...
    def response(self, mu: Tensor | Array | list[float] | float) -> Tensor | Array:
        """Return h(mu), one number per frequency: a tensor for a tensor, else an array; mu in [-1, 1].

        For a filter in lambda mu means 1 - lambda. The response at the eigenvalues of an operator that was built with
        ``lambda_min`` or ``lambda_max`` is ``f.bind(op).response(mu)``.
        """
        return evaluate(self._response, mu)

    __call__ = response

    # ------------------------------------------------------------------------------------------------------ filtering

    @abstractmethod
    def _apply(self, op: GraphOperator, x: Tensor, method: str, **options: Any) -> Tensor:
        """Return h(M) x for ``x`` of shape (N, C) by any method but ``eigen``."""

    @overload
    def filter(self, op: Any, x: Tensor, method: str = "exact", **options: Any) -> Tensor: ...
    @overload
    def filter(self, op: Any, x: Array, method: str = "exact", **options: Any) -> Array: ...
    def filter(self, op: Any, x: Tensor | Array, method: str = "exact", **options: Any) -> Tensor | Array:
        """Return h(M) x, of the shape (..., N, F) or (N) of ``x``, differentiable in it and in the coefficients.

        Args:
            op: a symmetric operator of a kind that fits; or a graph in any form that `GraphOperator.from_graph` reads
                (scipy, networkx, an edge index), of which an operator is built for this call.
            x: the signals, of the operator's type, on its device; or an array, for which an array is returned.
            method: one of ``f.methods``.
            options: of the method, as ``f.methods`` names them: ``spectrum=(mu, U)`` for ``eigen``; for solvers
                ``tol``, ``max_iter``, and ``statistics``, a list to which they append how they got there.
        """
        if isinstance(x, np.ndarray):
            signal = checked_array("x", x)
            op = op if isinstance(op, GraphOperator) else self._operator_for(op, signal)
            return self.filter(op, signal.to(op.device, op.dtype), method, **options).detach().cpu().numpy()
        op = op if isinstance(op, GraphOperator) else self._operator_for(op, x)
        self.check_operator(op)
        self.check_method(method, options)
        flat, shape = _columns(op, x)
        if method == "eigen":
            out = self._eigen(op, flat, **options)
        else:
            out = self._apply(self.meant(op), flat, method, **options)
        return out.view(shape) if len(shape) == 1 else unfold(out, shape)

    def _operator_for(self, graph: Any, x: Tensor) -> GraphOperator:
        """Return the operator of a graph in another form, of the type of a signal."""
        if "arma" not in self.kinds:
            raise GraphError(f"{type(self).__name__} needs an operator of kind {self.kinds[0]!r}: build it first.")
        return GraphOperator.from_graph(graph, rows_of(x), dtype=x.dtype).to(x.device)

    def check_operator(self, op: GraphOperator) -> None:
        """Raise a typed error unless the filter is defined on this operator."""
        if not isinstance(op, GraphOperator):
            raise DTypeError(f"op must be a GraphOperator, got {type(op).__name__}: use GraphOperator.from_graph.")
        if op.kind not in self.kinds:
            raise GraphError(f"{type(self).__name__} cannot act on an operator of kind {op.kind!r}: {ADVICE[op.kind]}.")
        if op.total_nodes == 0:
            raise GraphError("the graph has no nodes, so there is nothing to filter.")
        op.require_symmetric("a graph filter")

    @checked
    def check_method(self, method: str, options: Iterable[str]) -> None:
        """Raise unless there is such a method, with such options."""
        choice(f"method of {type(self).__name__}", method, self.methods)
        for name in instance("options", options, (Mapping, Sequence, Set), "names of options"):
            choice(f"option of method {method!r}", name, self.methods[method])

    @checked
    def meant(self, op: GraphOperator) -> GraphOperator:
        """Return the operator whose function the filter is: that given, or I - L for a filter in lambda."""
        return op.without_shift() if self.variable == "lambda" else op

    def _eigen(self, op: GraphOperator, x: Tensor, spectrum: Spectrum | None = None) -> Tensor:
        refuse_learned(op)
        mu, vectors = eigh(op) if spectrum is None else _pair(spectrum)
        if mu.shape != (op.num_nodes,) or vectors.shape != op.shape:
            raise ShapeError(
                f"spectrum=(mu, U) must have the shapes ({op.num_nodes},) and {op.shape} of this graph, "
                f"got {tuple(mu.shape)} and {tuple(vectors.shape)}."
            )
        response = self._on_spectrum(op, mu)
        return (vectors @ (response.unsqueeze(1) * (vectors.T @ x.to(vectors.dtype)))).to(x.dtype)

    def _on_spectrum(self, op: GraphOperator, eigenvalues: Tensor) -> Tensor:
        """Return h at the operator's eigenvalues."""
        return self._response(self._argument(op, eigenvalues))

    def _argument(self, op: GraphOperator, eigenvalues: Tensor) -> Tensor:
        """Return what `_response` takes for eigenvalues of the operator, which are lambda where it is a Laplacian."""
        if op.kind == "laplacian":
            return 1 - eigenvalues
        return eigenvalues - op.known_shift() if self.variable == "lambda" else eigenvalues

    def bind(self, op: GraphOperator, method: str = "exact", **options: Any) -> BoundFilter:
        """Return the filter on this graph as a linear operator: ``f.bind(op) @ x`` is ``f.filter(op, x, ...)``."""
        return BoundFilter(self, op, method, **options)

    # --------------------------------------------------------------------------------------------------------- picture

    def plot(
        self,
        ax: Any = None,
        mu: Tensor | Array | None = None,
        *,
        target: Any = None,
        label: str | None = None,
        **style: Any,
    ) -> Any:
        """Draw h over lambda = 1 - mu, low frequencies on the left, and return the matplotlib axes.

        `BoundFilter.plot` draws it over the frequencies of another operator.

        Args:
            ax: where to draw; a new figure if not given.
            mu: eigenvalues of a graph, marked on the curve.
            target: a response to draw behind it, as `ARMAFilter.design` takes it.
            label: of the curve. With a label or a target there is a legend.
            style: passed on to matplotlib's ``plot``, e.g. ``color``.
        """
        return draw(self.response, ax=ax, marks=mu, target=target, label=label, **style)

    def _repr_html_(self) -> str:
        name, _, shown_as = repr(self).partition("(")
        plain = name.isidentifier()  # a sum of filters is not
        rows = {"coefficients": shown_as.removesuffix(")")} if plain else {"filter": repr(self)}
        return card(name if plain else type(self).__name__, rows, small_curve(self.response))

    # --------------------------------------------------------------------------------------------------------- algebra

    def __add__(self, other: Filter) -> Filter:
        from armagnn.filters.combination import combine

        return combine((1.0, self), (1.0, other)) if isinstance(other, Filter) else NotImplemented

    def __radd__(self, other: object) -> Filter:
        return self if isinstance(other, int) and other == 0 else NotImplemented  # sum([f, g]) begins with 0

    def __sub__(self, other: Filter) -> Filter:
        from armagnn.filters.combination import combine

        return combine((1.0, self), (-1.0, other)) if isinstance(other, Filter) else NotImplemented

    def __mul__(self, factor: float | Tensor) -> Filter:
        from armagnn.filters.combination import combine

        return combine((factor, self)) if is_scalar(factor) else NotImplemented

    __rmul__ = __mul__

    def __neg__(self) -> Filter:
        return -1.0 * self


class BoundFilter:
    """A filter on one graph, a symmetric linear operator: ``bound @ x`` filters.

    Example:
        >>> import torch
        >>> from armagnn.filters import PolynomialFilter
        >>> op = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]))
        >>> PolynomialFilter([0.5, 0.5]).bind(op) @ torch.tensor([1.0, 0.0])
        tensor([0.5000, 0.5000])
    """

    @checked
    def __init__(self, filter: Filter, op: GraphOperator, method: str = "exact", **options: Any) -> None:
        filter.check_operator(op)
        filter.check_method(method, options)
        self.filter, self.op, self.method, self.options = filter, op, method, options

    @property
    def shape(self) -> tuple[int, int]:
        """(N, N)."""
        return self.op.shape

    @overload
    def response(self, mu: Tensor) -> Tensor: ...
    @overload
    def response(self, mu: Array | list[float] | float) -> Array: ...
    def response(self, mu: Tensor | Array | list[float] | float) -> Tensor | Array:
        """Return h at eigenvalues of this operator, e.g. those of ``mu, U = spectrum(op)``."""
        return evaluate(lambda values: self.filter._on_spectrum(self.op, values), mu)

    def plot(self, ax: Any = None, mu: Tensor | Array | None = None, **style: Any) -> Any:
        """Draw h over the range of this operator's frequencies; ``mu`` are eigenvalues of it; else as `Filter.plot`."""
        shift = None if self.op.kind == "laplacian" else self.op.known_shift()
        of_lambda = self.filter.variable == "lambda"
        return draw(self.response, shift, ax=ax, marks=mu, target_of_lambda=of_lambda, **style)

    @overload
    def __matmul__(self, x: Tensor) -> Tensor: ...
    @overload
    def __matmul__(self, x: Array) -> Array: ...
    def __matmul__(self, x: Tensor | Array) -> Tensor | Array:
        return self.filter.filter(self.op, x, self.method, **self.options)

    def _repr_html_(self) -> str:
        return f"{self.filter._repr_html_()}{self.op._repr_html_()}"

    def __repr__(self) -> str:
        return f"{self.filter!r} on {self.op!r}"


# -------------------------------------------------------------------------------------------------------------- helpers


def evaluate(response: Callable[[Tensor], Tensor], mu: Tensor | Array | list[float] | float) -> Tensor | Array:
    """Return a response at frequencies, a tensor for a tensor and an array for anything else."""
    if isinstance(mu, Tensor):
        return response(real_tensor("mu", mu, "(...)"))
    try:
        array = np.asarray(mu)
    except Exception as error:  # a foreign __array__ may raise anything
        raise DTypeError(f"mu must be a tensor, an array or a number: {shown(error)}.") from error
    if array.dtype.kind not in "fiu":
        raise DTypeError(f"mu must hold real numbers, got {array.dtype}.")
    result: Array = response(torch.from_numpy(array.astype(np.float64))).detach().cpu().numpy()
    return result


def rows_of(x: Any) -> int:
    """Return the number of nodes that a signal, (N) or (..., N, F), is of."""
    shape = real_tensor("x", x, "(...)").shape
    if not shape:
        raise ShapeError("x must have shape (..., N, F), or (N), got one number.")
    return shape[0] if len(shape) == 1 else shape[-2]


def checked_array(name: str, array: Any) -> Tensor:
    """Return an array of real numbers as a tensor: of its own type, float64 for integers."""
    if array.dtype.kind not in "fiu" or array.dtype.itemsize > 8:
        raise DTypeError(f"{name} must hold real numbers, float32 or float64, got {array.dtype}.")
    return torch.from_numpy(array.astype(np.float32 if array.dtype == np.float32 else np.float64))


def coefficients(name: str, values: Any, *, allow_complex: bool = False) -> Tensor:
    """Return a checked vector of at least one finite number: a tensor as it is, anything else in float64."""
    try:
        tensor = values if isinstance(values, Tensor) else torch.from_numpy(np.atleast_1d(np.asarray(values)))
    except Exception as error:  # whatever a foreign __array__ raises, too
        raise DTypeError(f"{name} must be a list of numbers or a tensor: {shown(error)}.") from error
    tensor = dense(name, tensor, "(...)")
    if not (tensor.is_floating_point() or tensor.is_complex()):
        tensor = tensor.double()
    tensor = tensor.unsqueeze(0) if tensor.dim() == 0 else tensor
    if tensor.is_complex() and not allow_complex:
        raise DTypeError(f"{name} must be real, got {tensor.dtype}.")
    if tensor.dim() != 1 or tensor.shape[0] == 0:
        raise ShapeError(f"{name} must be a list of at least one number, got shape {tuple(tensor.shape)}.")
    if not bool(torch.isfinite(tensor.detach()).all()):
        raise ParameterError(f"{name} must be finite, got {tensor.tolist()}.")
    return tensor


def is_scalar(value: object) -> bool:
    """Return whether it is one real number, perhaps a tensor that needs a gradient."""
    if isinstance(value, Tensor):
        return value.dim() == 0 and not value.is_complex()
    return isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)


def show(values: Tensor) -> str:
    """Return a vector of coefficients in few characters, for ``repr``."""
    numbers = [f"{v:.4g}".removesuffix("+0j").replace("-0+", "0+").replace("-0-", "0-") for v in values.tolist()[:8]]
    return f"[{', '.join(numbers)}{', ...' if values.shape[0] > 8 else ''}]"


def show_variable(variable: str) -> str:
    """Return the variable for ``repr``, where it is not the usual one."""
    return "" if variable == "mu" else f", variable={variable!r}"


def check_variable(variable: str) -> None:
    """Raise unless it is ``mu`` or ``lambda``."""
    choice("variable", variable, VARIABLES)


def check_solver(op: GraphOperator, tol: float | None, max_iter: int | None, statistics: Any) -> None:
    """Raise unless a solver can work on this operator with these options."""
    refuse_learned(op)
    if op.dtype not in (torch.float32, torch.float64):
        raise DTypeError(f"a solver needs float32 or float64, got {op.dtype}: convert x and the operator.")
    if tol is not None:
        real("tol", tol, above=0, below=1)
    if max_iter is not None:
        integer("max_iter", max_iter, 1)
    if statistics is not None:
        instance("statistics", statistics, list, "a list, to which the solver appends")


def refuse_learned(op: GraphOperator) -> None:
    """Raise where a gradient for the operator's values would be lost without a word."""
    if learned(op.value) and (torch.is_grad_enabled() or forward_mode()):
        raise GraphError(
            "this method gives no gradient for the operator's values: use a PolynomialFilter or a ChebyshevFilter, "
            "or pass op.detach()."
        )


def _pair(spectrum: Any) -> Spectrum:
    """Return the frequencies and the vectors that a user gave."""
    if not isinstance(spectrum, tuple | list) or len(spectrum) != 2:
        raise DTypeError(
            f"spectrum must be the pair (mu, U) that armagnn.spectral.spectrum returns, got {shown(spectrum)}."
        )
    mu, vectors = (
        real_tensor(f"{name} of the spectrum", part, shape)
        for name, part, shape in zip(("mu", "U"), spectrum, ("(N,)", "(N, N)"), strict=True)
    )
    return mu, vectors


def _columns(op: GraphOperator, x: Tensor) -> tuple[Tensor, torch.Size]:
    """Return the signals as (N, C) and the shape that the result must have."""
    if isinstance(x, Tensor) and not x.is_nested and x.dim() == 1:
        if x.shape[0] != op.num_nodes:
            raise ShapeError(f"the signal has {x.shape[0]} values, but the graph has {op.num_nodes} nodes.")
        op.check_operand(x.unsqueeze(1))
        return x.unsqueeze(1), x.shape
    op.check_operand(x)
    return fold(x), x.shape
