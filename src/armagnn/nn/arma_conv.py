"""The ARMA layer: K parallel stacks of T graph convolutional skip (GCS) steps (Eqs. 14 and 16)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Final, Literal, NoReturn

import torch
from torch import Tensor, nn
from torch.nn.parameter import Parameter, UninitializedParameter
from torch_geometric.nn.conv import MessagePassing

from armagnn import checks, kernels
from armagnn.errors import MissingAttributeError, ParameterError, ShapeError, shown
from armagnn.kernels.layer_run import Matrix
from armagnn.kernels.layer_trials import Fixed, arma_trials, usable_by_trials
from armagnn.kernels.transforms import refuse_transforms
from armagnn.nn import activations
from armagnn.nn.arma_recursion import Recursion, next_state, outputs, recursion
from armagnn.nn.contraction import bounded, check_nonexpansive, check_operator, check_state, converge
from armagnn.nn.conv import (
    check_features,
    check_fit,
    check_kind,
    check_weights,
    empty,
    refuse_script,
)
from armagnn.nn.feature_dropout import mask_seed
from armagnn.nn.pyg import from_pyg, masked_operator, to_pyg
from armagnn.operators import CSR, GraphOperator
from armagnn.operators.csr import fold
from armagnn.operators.modes import lasting
from armagnn.operators.options import Kind
from armagnn.solvers import FixedPoint, Statistics
from armagnn.torch_private import is_batched, needs_gradient, transforms_active

Weights = tuple[Tensor | None, Tensor | None, Tensor, Tensor | None]

INITS: Final = ("linear", "zero", "tied")

torch.serialization.add_safe_globals([UninitializedParameter])  # the state of a lazy layer loads without pickle


class ARMAConv(MessagePassing):
    r"""The ARMA graph convolution,

    .. math::
        \bar X = \frac{1}{K} \sum_{k=1}^K \bar X_k^{(T)}, \qquad
        \bar X_k^{(t+1)} = \sigma\left( \tilde L \bar X_k^{(t)} W_k + X V_k \right),

    Eqs. 16 and 14 of `Graph Neural Networks with Convolutional ARMA Filters <https://arxiv.org/abs/1901.01343>`_. Each
    of the K stacks is the recursion of a first-order ARMA filter with a non-linearity; the skip connection feeds the
    node features X into every one of its T steps. :math:`\tilde L` is the ``arma`` operator of `GraphOperator`.

    Args:
        in_channels: features of a node, or -1 to take them from the first input.
        out_channels: features of a node in the output.
        num_stacks: K.
        num_layers: T, the steps of each stack.
        shared_weights: one W and V (and bias) for all steps of a stack, as in the paper; otherwise one for each step.
        act: the non-linearity σ: a name, a callable, or None for a linear layer. A callable is given the states of all
            stacks, (..., K, N, F_out) as in PyTorch Geometric; with ``fixed_point`` those of one stack at a time.
        dropout: probability with which an entry of a skip connection X V_k is dropped while training, independently
            in every stack and every step.
        bias: add a trained vector to every step.
        init: the initial state X(0): ``"linear"``, X W0, as in the paper; ``"zero"``; or ``"tied"``, W0 = V.
        fixed_point: iterate every stack until it converges (Theorem 1), instead of T times. ``num_layers`` and ``init``
            then have no say: a stack takes its own T_k steps, and where it starts from does not matter. W_k is bounded,
            ``act`` and the graph must not expand, and one dropout mask serves all steps of a stack. See `FixedPoint`.
        cached: keep the operator built from the first ``edge_index``, for a graph that does not change. Edge weights
            that require a gradient are refused.

    Shapes:
        - ``x``: (..., N, F_in) dense, the leading axes being many signals on one graph; or (N, F_in) sparse, a
          `CSR` or a ``torch.sparse`` tensor, which is never made dense.
        - output: (..., N, F_out).

    A signal that changes over time is a list of features, with one operator or one for each instant: `sequence` and
    `step`.

    Parameters: ``initial_weight`` W0 (F_in, K, F_out), ``weight`` W (1 or T - 1, K, F_out, F_out), ``skip_weight`` V
    (1 or T, F_in, K, F_out), ``bias`` (1 or T, K, F_out); W0 and V hold the stacks side by side, so that one product
    with X serves all of them. A parameter that could have no gradient does not exist: no W at T = 1, no W0 unless
    ``init="linear"``. With ``fixed_point`` the parameter ``weight`` may have any norm, and `bounded_weight` is W.

    Example:
        >>> import torch
        >>> from armagnn import GraphOperator
        >>> op = GraphOperator.from_edge_index(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> conv = ARMAConv(8, 16, num_stacks=2, num_layers=3)
        >>> conv(torch.randn(3, 8), op).shape
        torch.Size([3, 16])
        >>> conv
        ARMAConv(8, 16, num_stacks=2, num_layers=3)
    """

    kind: ClassVar[Kind] = "arma"
    """The kind of `GraphOperator` that the layer is defined with."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_stacks: int = 1,
        num_layers: int = 1,
        shared_weights: bool = True,
        act: str | Callable[[Tensor], Tensor] | None = "relu",
        dropout: float = 0.0,
        bias: bool = True,
        *,
        init: Literal["linear", "zero", "tied"] = "linear",
        fixed_point: FixedPoint | None = None,
        cached: bool = False,
    ) -> None:
        super().__init__(aggr="add")  # being a MessagePassing is what lets PyG's explainers find the layer
        if not (isinstance(in_channels, int) and in_channels == -1):
            lazy = " (or -1 to take it from the first input)"
            in_channels = checks.integer("in_channels", in_channels, 1, extra=lazy)
        if isinstance(act, str) and act in INITS:
            raise ParameterError(f"act is {act!r}, an initial state and no activation: pass init={act!r} by name.")
        out_channels = checks.integer("out_channels", out_channels, 1)
        num_stacks = checks.integer("num_stacks", num_stacks, 1)
        num_layers = checks.integer("num_layers", num_layers, 1)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.num_stacks, self.num_layers = num_stacks, num_layers
        self.shared_weights = shared_weights = checks.flag("shared_weights", shared_weights)
        self.cached, bias = checks.flag("cached", cached), checks.flag("bias", bias)
        self.init: str = checks.choice("initial state", init, INITS)
        self.act = activations.check(act)
        self.dropout: float | Tensor = checks.probability("dropout", dropout)
        self._operator: GraphOperator | None = None
        self.fixed_point = fixed_point
        self.statistics: Statistics | None = None
        """How the last solve went, with ``fixed_point``: residuals and steps of each stack."""

        steps = 1 if shared_weights else num_layers
        later = min(steps, num_layers - 1) if shared_weights else num_layers - 1  # steps that start from a state
        if fixed_point is not None:
            self._check_convergent(fixed_point)
            self.init, later = "zero", 1  # a W0 would have no gradient
        self.register_parameter("initial_weight", UninitializedParameter() if self.init == "linear" else None)
        self.register_parameter(
            "weight",
            Parameter(empty("weight", later, num_stacks, out_channels, out_channels)) if later else None,
        )
        self.skip_weight = UninitializedParameter()
        self.register_parameter("bias", Parameter(empty("bias", steps, num_stacks, out_channels)) if bias else None)
        if in_channels != -1:
            self._materialize(in_channels)
        self.reset_parameters()

    def _check_convergent(self, fixed_point: FixedPoint) -> None:
        if not isinstance(fixed_point, FixedPoint):
            raise ParameterError(f"fixed_point must be a FixedPoint or None, got {shown(fixed_point)}.")
        if not self.shared_weights:
            raise ParameterError("fixed_point needs shared_weights=True: steps that differ have no fixed point.")
        check_nonexpansive(self.act)

    # ----------------------------------------------------------------------------------------------------- parameters

    def _materialize(self, in_channels: int) -> None:
        """Give the weights that act on X their shape, once the number of features is known."""
        steps = 1 if self.shared_weights else self.num_layers
        matrix = (in_channels, self.num_stacks, self.out_channels)
        if isinstance(self.initial_weight, UninitializedParameter):
            with checks.room("initial_weight", *matrix):
                self.initial_weight.materialize(matrix)
        if isinstance(self.skip_weight, UninitializedParameter):
            with checks.room("skip_weight", steps, *matrix):
                self.skip_weight.materialize((steps, *matrix))
        self.in_channels = in_channels

    def reset_parameters(self) -> None:
        """Draw all weights anew (Glorot, uniform), set the biases to zero and forget a cached operator."""
        super().reset_parameters()
        self._operator = self.statistics = None
        self._draw(self.initial_weight, self.skip_weight, self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def _draw(self, *weights: Tensor | None) -> None:
        for weight in weights:
            if weight is not None and not isinstance(weight, UninitializedParameter):
                fan_in = self.out_channels if weight is self.weight else self.in_channels
                limit = (6.0 / (fan_in + self.out_channels)) ** 0.5
                nn.init.uniform_(weight, -limit, limit)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        if self.in_channels != -1:
            super()._save_to_state_dict(destination, prefix, keep_vars)
            return
        for name, parameter in self._parameters.items():  # a parameter without a shape cannot be detached
            if parameter is not None:
                lazy = isinstance(parameter, UninitializedParameter)
                destination[prefix + name] = parameter if lazy or keep_vars else parameter.detach()

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any) -> None:
        stored = state_dict.get(prefix + "skip_weight")
        sized = isinstance(stored, Tensor) and not isinstance(stored, UninitializedParameter) and stored.dim() == 4
        if isinstance(self.skip_weight, UninitializedParameter) and stored is not None and sized:
            self._materialize(stored.shape[1])  # a lazy layer takes its size from the checkpoint
        super()._load_from_state_dict(state_dict, prefix, *args)

    # -------------------------------------------------------------------------------------------------------- forward

    def forward(self, x: Tensor | CSR, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """Return the mean of the stacks (Eq. 16), shape (..., N, F_out).

        Args:
            x: the node features; or a list or tuple of them, a sequence X(t), of which the last output is returned.
            edge_index: a `GraphOperator`; or an edge index of shape (2, E), a sparse matrix, a PyG ``Data``, from which
                an ``arma`` operator is built on the fly.
            edge_weight: the weights of an edge index, shape (E).
        """
        if isinstance(x, (list, tuple)):
            *_, last = outputs(self, x, edge_index, edge_weight)
            return last
        x, op = self._checked(x, edge_index, edge_weight)
        if self.fixed_point is not None:
            return self._converged(x, op).mean(0)
        function = self._unfused(x)
        if function is None and transforms_active() and len(x.shape) == 2:
            mapped = self._of_trials(x, op)
            if mapped is not None:
                return mapped
        settings, weights, seed = self._settings(x), self._weights(), self._seed(op)

        def again(x: Tensor | None, *rest: Any) -> Tensor:
            *others, seed = rest
            source = features if x is None else x
            return kernels.stack_mean(recursion(settings, op, source, tuple(others), seed, function))

        matrix, sparse = op._arguments(), x._arguments() if isinstance(x, CSR) else None
        fused = function is None and kernels.usable(matrix, sparse)
        if fused and isinstance(x, Tensor) and kernels.usable_by_signals(settings, matrix, x, weights):
            return kernels.arma_signals(settings, matrix, again, seed, x, *weights)
        features = self._folded(x)
        dense = features if isinstance(features, Tensor) else None
        if fused:
            out = kernels.arma_layer(settings, matrix, sparse, again, seed, dense, *weights)
        else:
            out = again(dense, *weights, seed)
        return self._signals(out.unsqueeze(1), x.shape).squeeze(0)

    def _of_trials(self, x: Tensor | CSR, op: GraphOperator) -> Tensor | None:
        """Return the output, of all trials of a vmap by one operation; None where it takes the recursion."""
        matrix, (nodes, fan_in) = op._arguments(), x.shape
        dense, value, pattern = (x, None, None) if isinstance(x, Tensor) else (None, x.value, _pattern(x))
        free = (dense, self.initial_weight, self.weight, self.skip_weight, self.bias)
        if not usable_by_trials(matrix, pattern or (), () if value is None else (value,), free):
            return None
        settings, weights, seed = self._settings(x), self._weights(), self._seed(op)

        def single(x: Tensor | None, value: Tensor | None, *rest: Any) -> Tensor:
            w0, w, v, bias, seed, p = rest
            source: Any = x
            if pattern is not None:
                rowptr, col, t_rowptr, t_col, _, perm = pattern
                transposed = t_rowptr, t_col, perm
                source = CSR(rowptr, col, value, (nodes, fan_in), transposed=transposed, check_invariants=False)  # type: ignore[arg-type]
            own = settings if p is None else settings._replace(p=p)
            return kernels.stack_mean(recursion(own, op, source, (w0, w, v, bias), seed, None))

        rate = self.dropout if seed is not None and isinstance(self.dropout, Tensor) else None
        fixed = Fixed(settings, matrix, pattern, single)
        return arma_trials(fixed, dense, value, *weights, seed, rate)

    def stacks(
        self, x: Tensor | CSR, edge_index: Any, edge_weight: Tensor | None = None, *, initial: Tensor | None = None
    ) -> Tensor:
        """Return what each stack gives before the mean, shape (K, ..., N, F_out).

        With ``fixed_point`` the iteration may be given an ``initial`` state of that shape: the result does not depend
        on it, but how long it takes does.
        """
        x, op = self._checked(x, edge_index, edge_weight)
        if self.fixed_point is not None:
            return self._converged(x, op, initial)
        if initial is not None:
            raise ParameterError("an initial state goes with fixed_point; otherwise init says what X(0) is.")
        steps = (self._settings(x), op, self._folded(x), self._weights(), self._seed(op), self._unfused(x))
        return self._signals(recursion(*steps), x.shape)

    def sequence(self, xs: Any, graphs: Any, edge_weight: Any = None) -> Tensor:
        r"""Return the output at every instant of a sequence, shape (T, ..., N, F_out): one GCS step for each X(t),

        .. math::
            \bar X_k^{(t+1)} = \sigma\left( \tilde L^{(t)} \bar X_k^{(t)} W_k + X^{(t)} V_k \right).

        The last output of a constant sequence of T = ``num_layers`` is the layer's. With shared weights a sequence may
        have any length.

        Args:
            xs: X(t), a list or tuple of features, or a tensor of shape (T, ..., N, F_in).
            graphs: one graph for all instants, or a list or tuple of one for each: the same nodes, other edges.
            edge_weight: the weights of an edge index, or a list or tuple of them.

        Example:
            >>> import torch
            >>> from armagnn import GraphOperator
            >>> op = GraphOperator.from_edge_index(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
            >>> conv, x = ARMAConv(8, 16, num_layers=3), torch.randn(3, 8)
            >>> torch.allclose(conv.sequence([x, x, x], op)[-1], conv(x, op), atol=1e-6)
            True
        """
        return torch.stack(list(outputs(self, xs, graphs, edge_weight)))

    def step(self, state: Tensor | None, x: Tensor | CSR, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """Return X(t + 1) of all stacks from X(t), shape (K, ..., N, F_out): one step of a stream.

        The output of the layer at that instant is ``state.mean(0)``.

        Args:
            state: X(t) as an earlier call returned it; None at the beginning.
            x: the features of this instant.
            edge_index: the graph of this instant.
            edge_weight: the weights of an edge index.
        """
        return next_state(self, state, x, edge_index, edge_weight)

    def _converged(self, x: Tensor | CSR, op: GraphOperator, initial: Tensor | None = None) -> Tensor:
        """Return the fixed points of the stacks, shape (K, ..., N, F_out)."""
        assert self.fixed_point is not None
        shape = (self.num_stacks, *x.shape[:-1], self.out_channels)
        refuse_transforms("a layer with fixed_point")
        check_operator(op)
        own = self.skip_weight.dtype
        wide = (
            torch.float32 if own == torch.bfloat16 else own
        )  # in bfloat16 an iteration stops far from its fixed point
        with torch.autocast(x.device.type, enabled=False):
            x = x.to(own)
            start = None if initial is None else check_state("initial", initial, shape, x).to(wide)
            x, op = x.to(wide), op.to(wide)
            features = self._folded(x)
            steps = self._recursion(x, features, op).to(wide)
            solution = converge(self.fixed_point, steps, op, features, start)
        self.statistics = solution.statistics
        states = solution.value.view(self.num_stacks, features.shape[0], self.out_channels).to(own)
        return self._signals(states.transpose(0, 1), x.shape)

    def _checked(self, x: Any, graph: Any, edge_weight: Tensor | None) -> tuple[Tensor | CSR, GraphOperator]:
        """Return features and operator that fit each other and the weights; a lazy layer learns its size."""
        x = check_features(x, self.in_channels)
        op = self._graph_operator(x, graph, edge_weight)
        check_fit(x, op)
        if isinstance(self.skip_weight, UninitializedParameter):
            self._materialize(x.shape[-1])
            self._draw(self.initial_weight, self.skip_weight)
        check_weights(x, self.skip_weight)
        return x, op

    def _folded(self, x: Tensor | CSR) -> Tensor | CSR:
        """Return X node-major: permuted at entry and exit, not at every step; (N, batch, F_in) in memory."""
        rows = x.shape[-2] * math.prod(x.shape[:-2])
        return x if isinstance(x, CSR) else fold(x).reshape(rows, x.shape[-1])

    def _recursion(self, x: Tensor | CSR, features: Tensor | CSR, op: GraphOperator) -> Recursion:
        """Return the steps of the stacks, for x and the same features node-major."""
        return Recursion(self._settings(features), self._weights(), self._seed(op), self._unfused(x))

    def _seed(self, op: GraphOperator) -> Tensor | None:
        """Draw the seed of the masks, if there are any."""
        return mask_seed(self.dropout, self.training, op.device)

    def _settings(self, features: Tensor | CSR) -> kernels.Settings:
        """Return what the recursion takes that is not a tensor."""
        name, slope = activations.fused(self.act) or activations.LINEAR
        return kernels.Settings(
            self.init,
            self.num_layers,
            self.num_stacks,
            self.out_channels,
            self._propagates_first(features),
            self.dropout if self.training else 0.0,
            name,
            slope,
        )

    def _weights(self) -> Weights:
        """Return W0, W, V and the bias with the stacks side by side, as `recursion` takes them."""
        w0 = None if self.initial_weight is None else self.initial_weight.flatten(1)
        bias = None if self.bias is None else self.bias.flatten(1)
        weight = self.weight if self.fixed_point is None else self.bounded_weight.unsqueeze(0)
        return w0, weight, self.skip_weight.flatten(2), bias

    @property
    def bounded_weight(self) -> Tensor:
        """W of a layer with ``fixed_point``, shape (K, F_out, F_out): no stack's norm is above the contraction."""
        if self.fixed_point is None:
            raise AttributeError  # `__getattr__`, where Python looks next, says why
        return bounded(self.weight.squeeze(0), self.fixed_point.contraction)

    def __getattr__(self, name: str) -> Any:
        if name == "bounded_weight":
            raise MissingAttributeError("the W of a layer without fixed_point is not bounded: see weight.")
        return super().__getattr__(name)

    def __prepare_scriptable__(self) -> NoReturn:
        refuse_script(type(self).__name__)

    def _propagates_first(self, features: Tensor | CSR, stacks: int | None = None) -> bool:
        """Return whether (L X) W0 is cheaper than L (X W0): by width, and an X without gradient goes one way only."""
        if self.init != "linear" or isinstance(features, CSR):
            return False
        backward = int(torch.is_grad_enabled())
        return self.in_channels * (1 + backward * needs_gradient(features)) < (
            (stacks or self.num_stacks) * self.out_channels * (1 + backward)
        )

    def _unfused(self, x: Tensor | CSR) -> Callable[[Tensor], Tensor] | None:
        """Return the activation of states (N * batch, K, F_out), for signals like x, if the kernels cannot apply it."""
        act = self.act
        if act is None or activations.fused(act):
            return None
        if isinstance(act, str):
            return partial(activations.apply, act)
        return partial(activations.of_stacks, act, leading=x.shape[:-2], nodes=x.shape[-2])

    def _signals(self, states: Tensor, shape: Any) -> Tensor:
        """Return (K, ..., N, F_out) from (N * batch, K, F_out)."""
        batch, nodes, stacks = math.prod(shape[:-2]), shape[-2], states.shape[1]
        states = states.reshape(nodes, batch, stacks, self.out_channels).permute(2, 1, 0, 3)
        return states.reshape(stacks, *shape[:-2], nodes, self.out_channels)

    # ---------------------------------------------------------------------------------------------------------- graph

    def operator(
        self,
        graph: Any,
        num_nodes: int | None = None,
        edge_weight: Tensor | None = None,
        dtype: torch.dtype | None = None,
    ) -> GraphOperator:
        """Return the operator that the layer wants, built once from a graph in any form."""
        if isinstance(graph, GraphOperator):
            return check_kind(type(self).__name__, self.kind, graph, edge_weight)
        return GraphOperator.from_graph(graph, num_nodes, edge_weight, self.kind, dtype=dtype)

    def _graph_operator(self, x: Tensor | CSR, graph: Any, edge_weight: Tensor | None) -> GraphOperator:
        if self.explain and self._edge_mask is not None:
            return masked_operator(graph, edge_weight, x, self._edge_mask, self._apply_sigmoid)
        if isinstance(graph, GraphOperator):
            return self.operator(graph, edge_weight=edge_weight)
        if self.cached:
            self._check_fixed(edge_weight, graph, getattr(graph, "edge_weight", None), getattr(graph, "adj_t", None))
        if self._operator is None:
            # kept in at least single precision, so that a layer that is converted later has lost nothing
            wide = torch.float32 if self.cached and x.dtype == torch.bfloat16 else x.dtype
            op = self.operator(graph, x.shape[-2], edge_weight, wide)
            if not self.cached or not lasting():
                return op
            self._operator = op
        if self._operator.num_nodes != x.shape[-2]:
            raise ShapeError(
                f"x has {x.shape[-2]} rows, but this layer is cached=True and keeps a graph of "
                f"{self._operator.num_nodes} nodes: call reset_parameters() or make it with cached=False."
            )
        return self._operator.to(x.device, x.dtype)

    def _check_fixed(self, *weights: Any) -> None:
        """Raise if derivatives by edge weights are wanted, at any call: the operator that is kept has none."""
        if any(isinstance(weight, Tensor) and needs_gradient(weight) for weight in weights):
            raise ParameterError(
                "cached=True keeps the operator of the first call, so edge weights that require a gradient would get "
                "none and their changes would not be seen: make the layer with cached=False, or detach the weights."
            )

    def __repr__(self) -> str:
        extra = "" if self.shared_weights else ", shared_weights=False"
        extra += "" if self.init == "linear" or self.fixed_point is not None else f", init={self.init!r}"
        extra += "" if self.act == "relu" else f", act={self.act!r}"
        extra += f", dropout={self.dropout:g}" if self.dropout else ""
        reach = f"num_layers={self.num_layers}" if self.fixed_point is None else f"fixed_point={self.fixed_point}"
        return (
            f"{type(self).__name__}({self.in_channels}, {self.out_channels}, "
            f"num_stacks={self.num_stacks}, {reach}{extra})"
        )

    # ------------------------------------------------------------------------------------------------------------ PyG

    @classmethod
    def from_pyg(cls, conv: Any) -> ARMAConv:
        """Return the layer that computes the same function as a PyG ``ARMAConv``, weight for weight."""
        return from_pyg(cls, conv)

    def to_pyg(self) -> Any:
        """Return the PyG ``ARMAConv`` that computes the same function, weight for weight."""
        if self.fixed_point is not None:
            raise ParameterError("PyG's layer takes a fixed number of steps: one with fixed_point has no counterpart.")
        return to_pyg(self)


def _pattern(x: CSR) -> Matrix:
    """Return where the nonzeros of a matrix and of its transpose are; and the values there, unless trials differ."""
    t_rowptr, t_col, perm = x._structure()
    return x.rowptr, x.col, t_rowptr, t_col, None if is_batched(x.value) else x._arguments()[5], perm
