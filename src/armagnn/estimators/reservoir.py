"""Reservoir ARMA: stacks that are drawn at random, iterated to convergence and never trained (Section 4.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from armagnn import checks
from armagnn.errors import DTypeError, ParameterError, ShapeError, shown
from armagnn.estimators.node_rows import as_graph, validated
from armagnn.nn import activations
from armagnn.nn.contraction import check_nonexpansive, check_operator
from armagnn.nn.conv import check_act, check_kind
from armagnn.nn.pooling import AvgPool, SumPool
from armagnn.operators import GraphOperator
from armagnn.solvers import FixedPoint

WIDEST: Final = 2**16
"""The most columns of the states: each stack is solved by itself, and a wider readout is hardly solved at all."""


class ReservoirARMA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""The states of K random stacks at their fixed points, as features for a linear readout,

    .. math::
        \bar X_k = \sigma\left( \tilde L \bar X_k W_k + X V_k \right), \qquad \|W_k\|_2 = c < 1,

    side by side: :math:`[\bar X_1, \dots, \bar X_K]`, of K × units columns. Nothing is trained but the readout (ridge
    or logistic regression, say), and width makes up for it. By Theorem 1 the states exist, are unique, and do not
    depend on where the iteration starts.

    :math:`W_k = Q_k \,\mathrm{diag}(a)\, Q_k^T` with a random rotation Q and random :math:`a_i` in [(1 - spread) c, c],
    the largest of them c. Without the non-linearity each column of :math:`\bar X_k Q_k` is a first-order ARMA filter of
    the features, with the response :math:`1 / (1 - a_i \mu)` at the eigenvalue :math:`\mu` of :math:`\tilde L`, in
    [-1, 1]: all low-pass for spread up to 1 and as much high-pass for spread = 2. The entries of V are normal.

    Args:
        units: columns of a stack's state, F_out.
        num_stacks: K.
        contraction: c, in (0, 1): how far away a node's features still count.
        spread: of the coefficients a, in [0, 2]. At 0 they all are c, and only V is random.
        input_scale: the root mean square of the entries of X V over the rows that ``fit`` sees. A larger one drives
            tanh into its non-linear part.
        act: the non-linearity σ, one that does not expand distances: a name, or None for a linear reservoir.
        graph: a `GraphOperator` of kind ``"arma"``, an edge index (a tensor or array of shape (2, E)), a sparse matrix,
            a PyG ``Data`` or a networkx graph, whose nodes are the rows of X and whose norm is 1 at most, as that of
            every undirected graph is; or None for a graph without edges, whose states are σ(X V).
        tol: iterate until the root mean square of a step's change of a stack's state is below it.
        max_iter: the most steps of a stack; where they do not suffice, a `ConvergenceError` says so.
        random_state: seed of the weights, as everywhere in scikit-learn.

    The defaults were chosen by the accuracy on the validation nodes of Cora, Citeseer and Pubmed, of ridge and logistic
    regression with the settings of scikit-learn. What is to be learned from numbers that are no bags of words may want
    a larger ``input_scale``.

    A graph is used whole: ``fit`` and ``transform`` take all of its nodes. To learn from some of them, let the readout
    do it, on rows of the states or in a pipeline by ``sample_weight``. The weights do not depend on the graph:
    ``set_params(graph=other)`` lets a fitted reservoir transform another one. Many graphs are one block-diagonal
    operator, and `pool_states` gives a row for each.

    Attributes:
        steps_: T_k, the steps that each stack took in ``fit``, shape (K).
        n_iter_: the most of them.
        weight_: W, shape (K, units, units).
        skip_weight_: V, shape (F_in, K, units).

    Example:
        >>> import numpy as np
        >>> from sklearn.linear_model import RidgeClassifier
        >>> from sklearn.pipeline import make_pipeline
        >>> from armagnn.data import load
        >>> cora = load("cora")
        >>> X, y = cora.x.to_dense().numpy(), cora.y.numpy()
        >>> seen = np.zeros(len(y))
        >>> seen[cora.train_idx] = 1.0
        >>> reservoir = ReservoirARMA(graph=cora.operator(), random_state=0)
        >>> model = make_pipeline(reservoir, RidgeClassifier())
        >>> guess = model.fit(X, y, ridgeclassifier__sample_weight=seen).predict(X)
        >>> bool((guess == y)[cora.test_idx].mean() > 0.75)
        True
    """

    def __init__(
        self,
        units: int = 128,
        num_stacks: int = 8,
        contraction: float = 0.9,
        spread: float = 0.0,
        input_scale: float = 0.02,
        act: str | Callable[[Tensor], Tensor] | None = "tanh",
        graph: Any = None,
        tol: float = 1e-6,
        max_iter: int = 5000,
        random_state: Any = None,
    ) -> None:
        self.units, self.num_stacks = units, num_stacks
        self.contraction, self.spread, self.input_scale = contraction, spread, input_scale
        self.act = act
        self.graph = graph
        self.tol, self.max_iter = tol, max_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the weights for features X of shape (N, F_in), dense or sparse; y is not looked at."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> NDArray[np.floating[Any]]:
        """Draw the weights and return the states of all stacks side by side, shape (N, K × units)."""
        X = validated(self, X, reset=True)
        units, stacks, spread, scale, solver = self._check()
        generator = torch.Generator().manual_seed(seed_of(self.random_state))

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator, dtype=torch.float64)

        share = torch.rand(stacks, units, generator=generator, dtype=torch.float64)
        share[:, 0] = 0.0  # so that the norm is the contraction
        coefficients = solver.contraction * (1.0 - spread * share)
        with checks.room("weight_", stacks, units, units):
            rotation = torch.linalg.qr(normal(stacks, units, units)).Q
            self.weight_ = ((rotation * coefficients.unsqueeze(1)) @ rotation.mT).numpy()
        with checks.room("skip_weight_", X.shape[1], stacks, units):
            matrix = normal(X.shape[1], stacks * units).numpy()
        length = np.sqrt(np.mean(np.square(X @ matrix)))
        matrix *= scale / (length if length > 0 else 1.0)
        self.skip_weight_ = matrix.reshape(X.shape[1], stacks, units)
        self._n_features_out = stacks * units
        states, steps = self._solve(X, solver)
        self.steps_, self.n_iter_ = np.array(steps), max(steps)
        return states

    def transform(self, X: Any) -> NDArray[np.floating[Any]]:
        """Return the states of all stacks side by side, shape (N, K × units)."""
        check_is_fitted(self)
        *_, solver = self._check()
        return self._solve(validated(self, X, reset=False), solver)[0]

    def _solve(self, X: Any, solver: FixedPoint) -> tuple[NDArray[np.floating[Any]], list[int]]:
        """Return the states, and the steps that each stack took."""
        dtype = torch.float32 if X.dtype == np.float32 else torch.float64
        op = self._operator(X.shape[0]).to("cpu", dtype)
        stacks, units = self.weight_.shape[:2]
        with checks.room("states", X.shape[0], stacks, units, most=checks.LARGEST):
            states = torch.empty(X.shape[0], stacks, units, dtype=dtype)
        # FixedPoint measures a whole state: the root of the number of its entries makes that a measure of each
        solver = replace(solver, tol=solver.tol * (X.shape[0] * units) ** 0.5)
        steps = []
        for k in range(stacks):  # one at a time: its state stays in a cache, and it stops when it may
            weight = torch.from_numpy(self.weight_[k]).to(dtype)
            skip = torch.from_numpy(X @ self.skip_weight_[:, k].astype(X.dtype))

            def step(state: Tensor, _: Tensor, weight: Tensor = weight, skip: Tensor = skip) -> Tensor:
                z = op @ (state.view(skip.shape) @ weight) + skip
                return activations.apply(self.act, z).view(1, -1)

            with torch.no_grad():
                solution = solver.solve(step, step, torch.zeros(1, skip.numel(), dtype=dtype))
            states[:, k] = solution.value.view(skip.shape)
            steps += solution.statistics.steps
        return states.flatten(1).numpy(), steps

    def _check(self) -> tuple[int, int, float, float, FixedPoint]:
        """Return units, stacks, spread, scale and solver; raise unless every one lies in its range."""
        units = checks.integer("units", self.units, 1, WIDEST)
        stacks = checks.integer("num_stacks", self.num_stacks, 1, WIDEST)
        if units * stacks > WIDEST:
            raise ParameterError(
                f"units={units} and num_stacks={stacks} make {units * stacks} columns; the most are {WIDEST}."
            )
        check_nonexpansive(check_act(self.act))
        spread = checks.real("spread", self.spread, least=0, most=2)
        scale = checks.real("input_scale", self.input_scale, least=0)
        return units, stacks, spread, scale, FixedPoint(self.tol, self.max_iter, self.contraction, solver="picard")

    def _operator(self, nodes: int) -> GraphOperator:
        """Return the operator of the graph, which must have as many nodes as X has rows."""
        graph = np.empty((2, 0), dtype=np.int64) if self.graph is None else self.graph
        graph = as_graph(graph)
        if isinstance(graph, GraphOperator):
            op = check_kind(type(self).__name__, "arma", graph, None)
        else:
            op = GraphOperator.from_graph(graph, nodes)
        if op.num_nodes != nodes:
            raise ShapeError(
                f"X has {nodes} rows, but the graph {op.num_nodes} nodes: transform all nodes, and let the readout "
                "learn from some of them."
            )
        check_operator(op)
        return op

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def pool_states(
    states: NDArray[np.floating[Any]], ptr: Any, pool: Literal["mean", "sum"] = "mean"
) -> NDArray[np.floating[Any]]:
    """Return the mean or the sum of the states of each graph's nodes, shape (G, columns), as features of graphs.

    In a pipeline, ``FunctionTransformer(pool_states, kw_args={"ptr": ptr})`` stands between reservoir and readout.

    Args:
        states: of the nodes of all graphs, one graph after the other, shape (N, columns).
        ptr: where the nodes of each graph begin, and N at the end, shape (G + 1).
        pool: ``"mean"``, which hides the sizes of the graphs, or ``"sum"``.

    Example:
        >>> import numpy as np
        >>> pool_states(np.array([[1.0], [2.0], [3.0]]), [0, 2, 3])
        array([[1.5],
               [3. ]])
    """
    pools = {"mean": AvgPool, "sum": SumPool}
    layer = pools[checks.choice("pool", pool, pools)]()
    pooled: NDArray[np.floating[Any]] = layer(_tensor("states", states), _tensor("ptr", ptr)).numpy()
    return pooled


def seed_of(random_state: Any) -> int:
    """Return a seed of ours, drawn as scikit-learn draws."""
    try:
        return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    except (TypeError, ValueError) as error:
        raise ParameterError(f"random_state: {error}.") from error


def _tensor(name: str, value: Any) -> Tensor:
    """Return numbers in any form as a tensor that lets go of its history."""
    try:
        return value.detach() if isinstance(value, Tensor) else torch.from_numpy(np.ascontiguousarray(value))
    except (TypeError, ValueError, RuntimeError) as error:
        raise DTypeError(f"{name} must be an array of numbers, got {shown(value)}.") from error
