"""The ARMA layer: K parallel stacks of T graph convolutional skip (GCS) steps (Eqs. 14 and 16)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal

import torch
from torch import Tensor, nn
from torch.nn.parameter import Parameter, UninitializedParameter
from torch_geometric.nn.conv import MessagePassing

from armagnn import checks, kernels
from armagnn.errors import MissingAttributeError, ParameterError, shown
from armagnn.nn import activations, pyg
from armagnn.nn.arma_recursion import Recursion, Weights, mean_of_stacks, next_state, outputs
from armagnn.nn.contraction import bounded, check_nonexpansive, check_operator, check_state, converge
from armagnn.nn.conv import Conv, empty, mask_seed
from armagnn.nn.layer_registry import register_layer
from armagnn.operators import CSR, GraphOperator
from armagnn.operators.csr import fold
from armagnn.solvers import FixedPoint, Statistics
from armagnn.torch_private import is_batched, needs_gradient, refuse_transforms

INITS: Final = ("linear", "zero", "tied")

torch.serialization.add_safe_globals([UninitializedParameter])  # the state of a lazy layer loads without pickle


def _as_matrix(x: CSR) -> tuple[Any, ...]:
    """Return X as the kernels take it, with the permutation of its transpose if each trial has values of its own."""
    if not is_batched(x.value):
        return x._arguments()
    t_rowptr, t_col, perm = x._structure()
    return x.rowptr, x.col, x.value, t_rowptr, t_col, None, perm


@register_layer("arma", stacks="num_stacks", layers="num_layers")
class ARMAConv(Conv, MessagePassing):  # PyG's explainers look for a MessagePassing
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
        checkpoint: keep X alone for the backward pass, which computes the states of all stacks and steps again.

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

    kind, lazy, own_bias = "arma", True, True
    bias: Any

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
        checkpoint: bool = False,
    ) -> None:
        if isinstance(act, str) and act in INITS:
            raise ParameterError(f"act is {act!r}, an initial state and no activation: pass init={act!r} by name.")
        super().__init__(in_channels, out_channels, act, dropout, bias, cached)
        self.aggr = "add"  # as PyG's own layer says
        self.num_stacks = checks.integer("num_stacks", num_stacks, 1, 10**5)
        self.num_layers = checks.integer("num_layers", num_layers, 1)
        self.shared_weights = checks.flag("shared_weights", shared_weights)
        self.checkpoint = checks.flag("checkpoint", checkpoint)
        stacks, width = self.num_stacks, self.out_channels
        self.init, self.fixed_point = checks.choice("initial state", init, INITS), fixed_point
        self.statistics: Statistics | None = None  # of the last solve, with fixed_point

        steps = 1 if self.shared_weights else self.num_layers
        later = min(steps, self.num_layers - 1)  # the steps that start from a state
        if fixed_point is not None:
            if not isinstance(fixed_point, FixedPoint):
                raise ParameterError(f"fixed_point must be a FixedPoint or None, got {shown(fixed_point)}.")
            if not self.shared_weights:
                raise ParameterError("fixed_point needs shared_weights=True: steps that differ have no fixed point.")
            check_nonexpansive(self.act)
            self.init, later = "zero", 1  # a W0 would have no gradient
        self.register_parameter("initial_weight", UninitializedParameter() if self.init == "linear" else None)  # type: ignore[arg-type]
        self.register_parameter("weight", Parameter(empty("weight", later, stacks, width, width)) if later else None)
        self.skip_weight = UninitializedParameter()
        self.register_parameter("bias", Parameter(empty("bias", steps, stacks, width)) if bias else None)
        if self.in_channels != -1:
            self._give_shapes(self.in_channels)
        self.reset_parameters()

    # ----------------------------------------------------------------------------------------------------- parameters

    def _give_shapes(self, in_channels: int) -> None:
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

    def _weight(self) -> Tensor:
        return self.skip_weight  # the bias may be of another type

    def _materialize(self, in_channels: int) -> None:
        self._give_shapes(in_channels)
        self._draw(self.initial_weight, self.skip_weight)

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any) -> None:
        stored = state_dict.get(prefix + "skip_weight")
        sized = isinstance(stored, Tensor) and not isinstance(stored, UninitializedParameter) and stored.dim() == 4
        if isinstance(self.skip_weight, UninitializedParameter) and stored is not None and sized:
            self._give_shapes(stored.shape[1])  # a lazy layer takes its size from the checkpoint
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
        function, settings, seed = self._unfused(x), self._settings(x), self._seed(op)
        dense, sparse = (x, None) if isinstance(x, Tensor) else (None, _as_matrix(x))
        weights = self.initial_weight, self.weight, self.skip_weight, self.bias

        def composition(dense: Tensor | None, value: Tensor | None, *rest: Any) -> Tensor:
            *own, seed, rate = rest
            source: Any = x if dense is None else dense
            if sparse is not None and value is not sparse[2]:  # the values of another trial
                rowptr, col, _, t_rowptr, t_col, _, perm, *_ = sparse
                moved = t_rowptr, t_col, perm
                source = CSR(rowptr, col, value, x.shape, transposed=moved, check_invariants=False)  # type: ignore[arg-type]
            given = settings if rate is None else settings._replace(p=rate)
            return mean_of_stacks(given, op, source, tuple(own), seed, function)

        fused = op._for_layer() if function is None else None
        if fused is not None:
            matrix, plan = fused
            out = kernels.arma_layer(settings, matrix, sparse, composition, seed, dense, *weights, plan)
            if out is not None:
                return out
        return composition(dense, None if sparse is None else sparse[2], *weights, seed, None)

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
        features = self._folded(x)
        return self._signals(self._recursion(x, features, op).run(op, features), x.shape)

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
        # a step in bfloat16 is too coarse to come near the fixed point, and so is its W
        wide = torch.float32 if own == torch.bfloat16 else own
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

    def _folded(self, x: Tensor | CSR) -> Tensor | CSR:
        """Return X node-major: permuted at entry and exit, not at every step; (N, batch, F_in) in memory."""
        rows = x.shape[-2] * math.prod(x.shape[:-2])
        return x if isinstance(x, CSR) else fold(x).reshape(rows, x.shape[-1])

    def _recursion(self, x: Tensor | CSR, features: Tensor | CSR, op: GraphOperator) -> Recursion:
        """Return the steps of the stacks, for x and the same features node-major."""
        return Recursion(self._settings(features), self._weights(features.dtype), self._seed(op), self._unfused(x))

    def _seed(self, op: GraphOperator) -> Tensor | None:
        """Draw the seed of the masks, if there are any."""
        return mask_seed(self.dropout, self.training, op.device)

    def _settings(self, features: Tensor | CSR) -> kernels.Settings:
        """Return what the recursion takes that is not a tensor."""
        name, slope = self._fused() or ("none", 0.0)
        rate, width, first = self.dropout if self.training else 0.0, self.out_channels, self._propagates_first(features)
        sizes: Any = self.init, self.num_layers, self.num_stacks
        return kernels.Settings(*sizes, width, first, rate, name, slope, self.checkpoint)  # type: ignore[call-arg]

    def _weights(self, wide: torch.dtype | None = None) -> Weights:
        """Return W0, W, V and the bias with the stacks side by side, as `recursion` takes them."""
        w0 = None if self.initial_weight is None else self.initial_weight.flatten(1)
        bias = None if self.bias is None else self.bias.flatten(1)
        solved = self.fixed_point
        weight = self.weight if solved is None else bounded(self.weight.to(wide), solved.contraction)
        return w0, weight, self.skip_weight.flatten(2), bias

    @property
    def bounded_weight(self) -> Tensor:
        """W of a layer with ``fixed_point``, shape (K, F_out, F_out): no stack's norm is above the contraction."""
        if self.fixed_point is None:
            raise AttributeError  # `__getattr__`, where Python looks next, says why
        return bounded(self.weight.squeeze(0), self.fixed_point.contraction)

    def __getattr__(self, name: str) -> Any:
        if name in (parameters := self.__dict__.get("_parameters", ())):
            return parameters[name]  # asked here, because torch's own way is long
        if name == "bounded_weight":
            raise MissingAttributeError("the W of a layer without fixed_point is not bounded: see weight.")
        return super().__getattr__(name)

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
        if act is None or self._fused() is not None:
            return None
        if isinstance(act, str):
            return partial(activations.apply, act)
        return partial(activations.of_stacks, act, leading=x.shape[:-2], nodes=x.shape[-2])

    def _fused(self) -> tuple[str, float] | None:
        """Return the activation as the kernels know it, by its name and its parameter, or None if torch must apply it.

        Example:
            >>> [ARMAConv(2, 2, act=act)._fused() for act in (None, "elu", nn.LeakyReLU(0.3), "gelu")]
            [('none', 0.0), ('elu', 1.0), ('leaky_relu', 0.3), None]
        """
        act = self.act
        name = "none" if act is None else act if isinstance(act, str) else activations.name_of(act)
        usual = activations.FUSED.get(name or "")
        if name is None or usual is None:
            return None
        parameter: float = getattr(act, "negative_slope", getattr(act, "alpha", usual))
        return (name, parameter) if parameter > 0 or not usual else None

    def _signals(self, states: Tensor, shape: Any) -> Tensor:
        """Return (K, ..., N, F_out) from (N * batch, K, F_out)."""
        batch, nodes, stacks = math.prod(shape[:-2]), shape[-2], states.shape[1]
        states = states.reshape(nodes, batch, stacks, self.out_channels).permute(2, 1, 0, 3)
        return states.reshape(stacks, *shape[:-2], nodes, self.out_channels)

    def _operator_of(self, x: Tensor | CSR, graph: Any, edge_weight: Tensor | None) -> GraphOperator:
        if self.explain and self._edge_mask is not None:
            return pyg.masked_operator(graph, edge_weight, x, self._edge_mask, self._apply_sigmoid)
        return super()._operator_of(x, graph, edge_weight)

    def _shown(self) -> dict[str, Any]:
        solved = self.fixed_point is not None
        steps = {"fixed_point": self.fixed_point} if solved else {"num_layers": self.num_layers}
        shown = {"num_stacks": self.num_stacks} | steps
        shown |= {} if self.shared_weights else {"shared_weights": False}
        shown |= {"checkpoint": True} if self.checkpoint else {}
        return shown | ({} if self.init == "linear" or solved else {"init": self.init})

    from_pyg = classmethod(pyg.from_pyg)
    to_pyg = pyg.to_pyg
