"""The ARMA layer: K parallel stacks of T graph convolutional skip (GCS) steps (Eqs. 14 and 16)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, Literal

import torch
from torch import Tensor, nn
from torch.nn.parameter import Parameter, UninitializedParameter
from torch_geometric.nn.conv import MessagePassing

from armagnn import kernels
from armagnn.errors import DTypeError, ParameterError, ShapeError, UnknownNameError
from armagnn.kernels.random import draw_seed
from armagnn.nn import activations
from armagnn.nn.explain import masked_operator
from armagnn.operators import CSR, GraphOperator
from armagnn.operators.csr import fold

INITS: Final = ("linear", "zero", "tied")


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
        init: the initial state X(0): ``"linear"``, X W0, as in the paper; ``"zero"``; or ``"tied"``, W0 = V.
        act: the non-linearity σ: a name, a callable, or None for a linear layer.
        dropout: probability with which an entry of a skip connection X V_k is dropped while training, independently
            in every stack and every step.
        bias: add a trained vector to every step.
        cached: keep the operator built from the first ``edge_index``, for a graph that does not change.

    Shapes:
        - ``x``: (..., N, F_in) dense, the leading axes being many signals on one graph; or (N, F_in) sparse, a
          `CSR` or a ``torch.sparse`` tensor, which is never made dense.
        - output: (..., N, F_out).

    Parameters: ``initial_weight`` W0 (F_in, K, F_out), ``weight`` W (1 or T - 1, K, F_out, F_out), ``skip_weight`` V
    (1 or T, F_in, K, F_out), ``bias`` (1 or T, K, F_out); W0 and V hold the stacks side by side, so that one product
    with X serves all of them. A parameter that could have no gradient does not exist: no W at T = 1, no W0 unless
    ``init="linear"``.

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

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_stacks: int = 1,
        num_layers: int = 1,
        shared_weights: bool = True,
        init: Literal["linear", "zero", "tied"] = "linear",
        act: str | Callable[[Tensor], Tensor] | None = "relu",
        dropout: float = 0.0,
        bias: bool = True,
        cached: bool = False,
    ) -> None:
        super().__init__(aggr="add")  # being a MessagePassing is what lets PyG's explainers find the layer
        for name, size in (("out_channels", out_channels), ("num_stacks", num_stacks), ("num_layers", num_layers)):
            _check_size(name, size)
        if in_channels != -1:
            _check_size("in_channels", in_channels, " (or -1 to take it from the first input)")
        if init not in INITS:
            raise UnknownNameError("initial state", init, INITS)
        if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout < 1:
            raise ParameterError(f"dropout must be a probability in [0, 1), got {dropout!r}.")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.num_stacks, self.num_layers = num_stacks, num_layers
        self.shared_weights, self.init, self.cached = shared_weights, init, cached
        self.act = activations.check(act)
        self.dropout = float(dropout)
        self._operator: GraphOperator | None = None

        steps = 1 if shared_weights else num_layers
        later = min(steps, num_layers - 1) if shared_weights else num_layers - 1  # steps that start from a state
        self.register_parameter("initial_weight", UninitializedParameter() if init == "linear" else None)
        self.register_parameter(
            "weight",
            Parameter(torch.empty(later, num_stacks, out_channels, out_channels)) if later else None,
        )
        self.skip_weight = UninitializedParameter()
        self.register_parameter("bias", Parameter(torch.empty(steps, num_stacks, out_channels)) if bias else None)
        if in_channels != -1:
            self._materialize(in_channels)
        self.reset_parameters()

    # ----------------------------------------------------------------------------------------------------- parameters

    def _materialize(self, in_channels: int) -> None:
        """Give the weights that act on X their shape, once the number of features is known."""
        steps = 1 if self.shared_weights else self.num_layers
        matrix = (in_channels, self.num_stacks, self.out_channels)
        if isinstance(self.initial_weight, UninitializedParameter):
            self.initial_weight.materialize(matrix)
        if isinstance(self.skip_weight, UninitializedParameter):
            self.skip_weight.materialize((steps, *matrix))
        self.in_channels = in_channels

    def reset_parameters(self) -> None:
        """Draw all weights anew (Glorot, uniform), set the biases to zero and forget a cached operator."""
        super().reset_parameters()
        self._operator = None
        fan_ins = (self.in_channels, self.in_channels, self.out_channels)
        for weight, fan_in in zip((self.initial_weight, self.skip_weight, self.weight), fan_ins, strict=True):
            if weight is not None and not isinstance(weight, UninitializedParameter):
                limit = (6.0 / (fan_in + self.out_channels)) ** 0.5
                nn.init.uniform_(weight, -limit, limit)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any) -> None:
        stored = state_dict.get(prefix + "skip_weight")
        if isinstance(self.skip_weight, UninitializedParameter) and stored is not None and stored.dim() == 4:
            self._materialize(stored.shape[1])  # a lazy layer takes its size from the checkpoint
        super()._load_from_state_dict(state_dict, prefix, *args)

    # -------------------------------------------------------------------------------------------------------- forward

    def forward(self, x: Tensor | CSR, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """Return the mean of the stacks (Eq. 16), shape (..., N, F_out).

        Args:
            x: the node features.
            edge_index: a `GraphOperator`; or an edge index of shape (2, E), a sparse matrix, a PyG ``Data``, from which
                an ``arma`` operator is built on the fly.
            edge_weight: the weights of an edge index, shape (E).
        """
        state, shape = self._run(x, edge_index, edge_weight)
        nodes, batch = state.shape[:2]
        out = kernels.stack_mean(state.flatten(0, 1)).view(nodes, batch, self.out_channels)
        return out.transpose(0, 1).reshape(*shape[:-2], shape[-2], self.out_channels)

    def stacks(self, x: Tensor | CSR, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """Return what each stack gives before the mean, shape (K, ..., N, F_out)."""
        state, shape = self._run(x, edge_index, edge_weight)
        return state.permute(2, 1, 0, 3).reshape(self.num_stacks, *shape[:-2], shape[-2], self.out_channels)

    def _run(self, x: Any, graph: Any, edge_weight: Tensor | None) -> tuple[Tensor, tuple[int, ...]]:
        """Return the final states, shape (N, batch, K, F_out), and the shape of x."""
        if isinstance(x, Tensor) and x.layout is not torch.strided:
            x = CSR.from_torch_sparse(x)
        self._check_features(x)
        op = self._graph_operator(x, graph, edge_weight)
        op.check_operand(x) if isinstance(x, Tensor) else _check_sparse(x, op)
        if isinstance(self.skip_weight, UninitializedParameter):
            self._materialize(x.shape[-1])
            self.reset_parameters()
        _check_weights(x, self.skip_weight)

        # node-major from here on: (N, batch * channels), permuted at entry and exit and not at every step
        shape, batch = tuple(x.shape), math.prod(x.shape[:-2])
        features = x if isinstance(x, CSR) else fold(x).view(op.num_nodes * batch, shape[-1])
        seed = draw_seed(op.device) if self.training and self.dropout > 0 else None
        early = self._propagates_first(features)
        start, skip, bias = self._inputs(0, features, seed is not None, early)
        if isinstance(features, Tensor) and early:
            propagated = (op @ features.view(op.num_nodes, batch * shape[-1])).view(features.shape)
            state = self._finish(
                torch.addmm(self._dropped(skip, bias, seed), propagated, self.initial_weight.flatten(1))
            )
        elif start is None:  # X(0) = 0: there is nothing to propagate
            state = self._finish(self._dropped(skip, bias, seed))
        else:
            state = self._propagate(0, op, start, skip, bias, seed)
        for t in range(1, self.num_layers):
            if not self.shared_weights:
                _, skip, bias = self._inputs(t, features, seed is not None, early)
            stacked = state.view(op.num_nodes * batch, self.num_stacks, self.out_channels)
            weight = _of_step(self.weight, t - 1)
            h = kernels.stack_matmul(stacked, weight.to(state.dtype))  # another type only under autocast
            state = self._propagate(t, op, h, skip, bias, seed)
        return state.view(op.num_nodes, batch, self.num_stacks, self.out_channels), shape

    def _propagates_first(self, features: Tensor | CSR) -> bool:
        """Return whether (L X) W0 is cheaper than L (X W0): by width, and an X without gradient goes one way only."""
        if self.init != "linear" or isinstance(features, CSR):
            return False
        backward = int(torch.is_grad_enabled())
        return self.in_channels * (1 + backward * features.requires_grad) < (
            self.num_stacks * self.out_channels * (1 + backward)
        )

    def _inputs(
        self, t: int, features: Tensor | CSR, dropped: bool, early: bool
    ) -> tuple[Tensor | None, Tensor, Tensor | None]:
        """Return the state X(0) (None for zero, or where X is propagated before W0), X V, and what bias is left to add.

        All have K * F_out columns: one product serves all stacks.
        """
        v = _of_step(self.skip_weight, t).flatten(1)
        bias = None if self.bias is None else _of_step(self.bias, t).view(-1)
        start: Tensor | None = None
        if t == 0 and self.init == "linear" and not early:
            start = features @ self.initial_weight.flatten(1)
        if bias is not None and isinstance(features, Tensor) and not dropped and self.init != "tied":
            return start, torch.addmm(bias, features, v), None  # free here; dropout must not touch the bias
        skip = features @ v
        return (skip if t == 0 and self.init == "tied" else start), skip, bias

    def _propagate(
        self, t: int, op: GraphOperator, h: Tensor, skip: Tensor, bias: Tensor | None, seed: Tensor | None
    ) -> Tensor:
        """Return σ(L h + dropout(skip) + bias), the rest of step t once the weights are applied."""
        channels = self.num_stacks * self.out_channels
        batch = skip.shape[0] // max(op.num_nodes, 1)
        shape = (op.num_nodes, batch * channels)
        if bias is not None and batch > 1:
            bias = bias.repeat(batch)
        fused = activations.fused(self.act)
        name, slope = fused or activations.LINEAR
        p = 0.0 if seed is None else self.dropout
        h, skip = h.reshape(shape).contiguous(), skip.reshape(shape).contiguous()
        out = kernels.gcs(*op._arguments(), h, skip, bias, seed, p, t, name, slope)
        return (out if fused else self._finish(out)).view(op.num_nodes * batch, channels)

    def _dropped(self, skip: Tensor, bias: Tensor | None, seed: Tensor | None) -> Tensor:
        """Return dropout(skip) + bias for the first step, where no kernel does it in passing."""
        skip = skip if seed is None else kernels.dropout(skip, seed, self.dropout, 0)
        return skip if bias is None else skip + bias

    def _finish(self, x: Tensor) -> Tensor:
        return activations.apply(self.act, x)

    # ---------------------------------------------------------------------------------------------------------- graph

    def _graph_operator(self, x: Tensor | CSR, graph: Any, edge_weight: Tensor | None) -> GraphOperator:
        if self.explain and self._edge_mask is not None:
            return masked_operator(graph, edge_weight, x, self._edge_mask, self._loop_mask, self._apply_sigmoid)
        if isinstance(graph, GraphOperator):
            if edge_weight is not None:
                raise ParameterError("edge_weight goes with an edge_index; an operator holds its weights itself.")
            return graph
        if self._operator is not None:
            return self._operator.to(x.device, x.dtype)
        op = GraphOperator.from_graph(graph, x.shape[-2], edge_weight, dtype=x.dtype)
        if self.cached:
            self._operator = op.detach()
        return op

    def _check_features(self, x: Any) -> None:
        if not isinstance(x, Tensor | CSR):
            raise DTypeError(f"x must be a torch.Tensor or a CSR, got {type(x).__name__}.")
        if len(x.shape) < 2:
            raise ShapeError(f"x must have shape (..., N, {self.in_channels}), got {tuple(x.shape)}.")
        if self.in_channels != -1 and x.shape[-1] != self.in_channels:
            raise ShapeError(
                f"x has {x.shape[-1]} features per node, but the layer was made for in_channels={self.in_channels}."
            )

    def __repr__(self) -> str:
        extra = "" if self.shared_weights else ", shared_weights=False"
        extra += "" if self.init == "linear" else f", init={self.init!r}"
        return (
            f"{type(self).__name__}({self.in_channels}, {self.out_channels}, "
            f"num_stacks={self.num_stacks}, num_layers={self.num_layers}{extra})"
        )

    # ------------------------------------------------------------------------------------------------------------ PyG

    @classmethod
    def from_pyg(cls, conv: Any) -> ARMAConv:
        """Return the layer that computes the same function as a PyG ``ARMAConv``, weight for weight."""
        from armagnn.nn.pyg import from_pyg

        return from_pyg(conv)

    def to_pyg(self) -> Any:
        """Return the PyG ``ARMAConv`` that computes the same function, weight for weight."""
        from armagnn.nn.pyg import to_pyg

        return to_pyg(self)


def _check_size(name: str, size: object, extra: str = "") -> None:
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ParameterError(f"{name} must be an integer of at least 1{extra}, got {size!r}.")


def _check_sparse(x: CSR, op: GraphOperator) -> None:
    if x.shape[0] != op.num_nodes:
        raise ShapeError(f"x has {x.shape[0]} rows, but the graph {op.num_nodes} nodes.")
    if x.dtype != op.dtype or x.device != op.device:
        raise DTypeError(f"x is {x.dtype} on {x.device}, the operator {op.dtype} on {op.device}: convert with .to().")


def _check_weights(x: Tensor | CSR, weight: Tensor) -> None:
    if x.device != weight.device or (x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type)):
        raise DTypeError(
            f"x is {x.dtype} on {x.device}, the layer's weights {weight.dtype} on {weight.device}: "
            "convert with conv.to(x.device, x.dtype)."
        )


def _of_step(parameter: Tensor, t: int) -> Tensor:
    """Return the parameter of step t; where all steps share one, as a view whose gradient needs no copy."""
    return parameter.squeeze(0) if parameter.shape[0] == 1 else parameter.unbind(0)[t]
