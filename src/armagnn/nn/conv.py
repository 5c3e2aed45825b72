"""What all layers share: the call, its checks and dropout; of those that are one filter, also bias and activation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parameter import Parameter, UninitializedParameter

from armagnn import checks, kernels
from armagnn.errors import DeviceError, DTypeError, GraphError, ParameterError, ShapeError, UnsupportedError, shown
from armagnn.nn import activations
from armagnn.nn.activations import Activation
from armagnn.notebook_cards import card
from armagnn.operators import CSR, GraphOperator
from armagnn.operators.building import Kind
from armagnn.operators.csr import fold
from armagnn.operators.kept import remembered
from armagnn.randomness import draw_seed, pass_seed
from armagnn.torch_private import lasting, needs_gradient

Features = TypeVar("Features", Tensor, CSR, Tensor | CSR)


class Conv(nn.Module):
    r"""A layer on a graph: the base class of all layers.

    What every layer takes is checked here: sizes, features, the graph in any form and its operator. A subclass that is
    one filter f supplies ``_filter`` and has the rest from here,

    .. math::
        \bar X = \sigma(f(X) + b),

    with dropout of X while training. Another (`ARMAConv`) has a ``forward`` of its own.

    Features are brought to (N, batch, F), node-major, at entry and back to (..., N, F) at exit, so that all products
    with the operator are two-dimensional and copy nothing. Everything is plain torch and kernels of ours: a layer works
    under ``torch.func.vmap`` over its parameters, its input, or both.

    Args:
        in_channels: F_in, features of a node.
        out_channels: F_out, features of a node in the output.
        act: the non-linearity σ: a name, a callable, which is given (..., N, F_out), or None for a linear layer.
        dropout: probability with which an entry of the input features is dropped while training.
        bias: add a trained vector.
        cached: keep the operator built from the first ``edge_index``.
    """

    kind: ClassVar[Kind | None] = None
    """The kind of `GraphOperator` that the layer is defined with; None if it looks at no graph."""

    lazy: ClassVar[bool] = False
    """Whether ``in_channels=-1`` is a layer that takes its size from the first input, when `_materialize` is called."""

    own_bias: ClassVar[bool] = False
    """Whether the subclass makes its biases itself; otherwise there is one, a vector."""

    dropout: float | Tensor
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        act: str | Callable[[Tensor], Tensor] | None,
        dropout: float,
        bias: bool,
        cached: bool = False,
    ) -> None:
        super().__init__()
        if not (self.lazy and isinstance(in_channels, int) and in_channels == -1):
            extra = " (or -1 to take it from the first input)" if self.lazy else ""
            in_channels = checks.integer("in_channels", in_channels, 1, extra=extra)
        self.in_channels = in_channels
        self.out_channels = checks.integer("out_channels", out_channels, 1)
        self.act = check_act(act)
        self.dropout = checks.probability("dropout", dropout)
        self.cached, bias = checks.flag("cached", cached), checks.flag("bias", bias)
        self._operator: GraphOperator | None = None
        if not self.own_bias:
            with checks.room("weight", self.in_channels, self.out_channels):  # before there is a bias of many numbers
                self.register_parameter("bias", Parameter(torch.zeros(self.out_channels)) if bias else None)

    def reset_parameters(self) -> None:
        """Draw the weights anew (Glorot, uniform) and set the bias to zero."""
        limit = (6.0 / (self.in_channels + self.out_channels)) ** 0.5
        with torch.no_grad():
            for name, parameter in self.named_parameters(recurse=False):
                if name == "bias":
                    parameter.zero_()
                elif parameter.dim() >= 2:
                    parameter.uniform_(-limit, limit)

    def _materialize(self, in_channels: int) -> None:
        """Size and draw the weights of a lazy layer, once the number of features is known."""
        raise NotImplementedError

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        if self.in_channels != -1:
            super()._save_to_state_dict(destination, prefix, keep_vars)
            return
        for name, parameter in self._parameters.items():  # a parameter without a shape cannot be detached
            if parameter is not None:
                sized = not isinstance(parameter, UninitializedParameter)
                destination[prefix + name] = parameter.detach() if sized and not keep_vars else parameter

    # ---------------------------------------------------------------------------------------------------------- graph

    def operator(
        self,
        graph: Any,
        num_nodes: int | None = None,
        edge_weight: Tensor | None = None,
        dtype: torch.dtype | None = None,
    ) -> GraphOperator:
        """Return the operator that the layer wants, built once from a graph in any form; None if it wants none."""
        if self.kind is None:
            if isinstance(graph, GraphOperator) and not graph.whole:
                return graph  # of a rank's rows, by whose numbers in the whole the layer drops
            return None  # type: ignore[return-value]  # said once here, not asked by every layer that has one
        if isinstance(graph, GraphOperator):
            return check_kind(type(self).__name__, self.kind, graph, edge_weight)
        return GraphOperator.from_graph(graph, num_nodes, edge_weight, self.kind, dtype=dtype, **self._options())

    def _options(self) -> dict[str, Any]:
        """Return what the builder of the operator is told besides the kind."""
        return {}

    def _operator_of(self, x: Tensor | CSR, graph: Any, edge_weight: Tensor | None) -> GraphOperator:
        """Return the operator of a call; a layer that is ``cached`` keeps the one it built first."""
        if isinstance(graph, GraphOperator) or self.kind is None:
            return self.operator(graph, x.shape[-2], edge_weight, x.dtype)
        if not self.cached:
            nodes, dtype = x.shape[-2], x.dtype
            key = self.kind, nodes, dtype, *self._options().items()
            return remembered(lambda: self.operator(graph, nodes, edge_weight, dtype), key, graph, edge_weight)
        given = edge_weight, getattr(graph, "edge_weight", None), getattr(graph, "adj_t", None), graph
        if any(isinstance(each, Tensor) and needs_gradient(each) for each in given):
            raise ParameterError(
                "cached=True keeps the operator of the first call, so edge weights that require a gradient would get "
                "none and their changes would not be seen: make the layer with cached=False, or detach the weights."
            )
        if self._operator is None:
            # kept in at least single precision, so that a layer that is converted later has lost nothing
            wide = torch.float32 if x.dtype == torch.bfloat16 else x.dtype
            op = self.operator(graph, x.shape[-2], edge_weight, wide)
            if not lasting():
                return op
            self._operator = op
        if self._operator.num_nodes != x.shape[-2]:
            raise ShapeError(
                f"x has {x.shape[-2]} rows, but this layer is cached=True and keeps a graph of "
                f"{self._operator.num_nodes} nodes: call reset_parameters() or make it with cached=False."
            )
        return self._operator.to(x.device, x.dtype)

    # -------------------------------------------------------------------------------------------------------- forward

    def forward(self, x: Tensor | CSR, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """Return the new features, shape (..., N, F_out).

        Args:
            x: the node features: (..., N, F_in) dense, or (N, F_in) sparse.
            edge_index: a `GraphOperator` of the layer's kind; or an edge index of shape (2, E), a sparse matrix, a PyG
                ``Data``, from which one is built on the fly. The operator of a tensor is found again while that tensor
                lives unchanged.
            edge_weight: the weights of an edge index, shape (E).
        """
        x, op = self._checked(x, edge_index, edge_weight)
        leading, nodes = x.shape[:-2], x.shape[-2]
        x = drop(x, self.dropout, self.training, op)
        if isinstance(x, Tensor):
            x = fold(x).reshape(nodes, math.prod(leading), self.in_channels)
        out = self._filter(x, op)
        if self.bias is not None:
            out = out + self.bias.to(out.dtype)  # of another type only under autocast
        out = out.transpose(0, 1).reshape(*leading, nodes, self.out_channels)
        return activations.apply(self.act, out)

    def _filter(self, x: Tensor | CSR, op: GraphOperator) -> Tensor:
        """Return f(X), shape (N, batch, F_out), of X: (N, batch, F_in) dense or (N, F_in) sparse."""
        raise NotImplementedError

    def _checked(self, x: Any, graph: Any, edge_weight: Tensor | None) -> tuple[Tensor | CSR, GraphOperator]:
        """Return features and operator that fit each other and the weights; a lazy layer learns its size."""
        x = check_features(x, self.in_channels)
        op = self._operator_of(x, graph, edge_weight)
        if self.kind is not None:
            if op is not graph:
                op.for_one_call = not self.cached
            check_fit(x, op)
        if self.in_channels == -1:
            self._materialize(x.shape[-1])
        check_weights(x, self._weight())
        return x, op

    def _weight(self) -> Tensor:
        """Return a parameter of the type that the features must have."""
        return next(self.parameters()) if self.bias is None else self.bias

    def _filters_first(self, x: Tensor | CSR) -> bool:
        """Return whether filtering X is cheaper than filtering X W: it is as wide at most, and dense already."""
        return isinstance(x, Tensor) and self.in_channels <= self.out_channels

    def __prepare_scriptable__(self) -> NoReturn:
        refuse_script(type(self).__name__)

    # ----------------------------------------------------------------------------------------------------------- repr

    def _shown(self) -> dict[str, Any]:
        """Return the options to show besides the sizes."""
        return {}

    def __repr__(self) -> str:
        settings = self._shown()
        settings |= {} if self.act == "relu" else {"act": self.act}
        settings |= {"dropout": self.dropout} if isinstance(self.dropout, Tensor) or self.dropout else {}
        extra = "".join(f", {name}={value!r}" for name, value in settings.items())
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}{extra})"

    def _repr_html_(self) -> str:
        rows = {"features": f"{self.in_channels} → {self.out_channels}"} | self._shown()
        rows |= {"act": self.act, "dropout": self.dropout}
        sized = [p.numel() for p in self.parameters() if not isinstance(p, UninitializedParameter)]
        return card(type(self).__name__, rows | {"parameters": f"{sum(sized):,}"}, self._picture())

    def _picture(self) -> str:
        """Return what a notebook shows next to the table of the layer."""
        return ""


def times(x: Tensor | CSR, weight: Tensor) -> Tensor:
    """Return X W, shape (N, batch, F), of a dense (N, batch, F_in) or a sparse (N, F_in) X.

    The product has two axes: vmap over the weights then is one batched product, not one for every node.
    """
    if isinstance(x, CSR):
        return (x @ weight).unsqueeze(1)
    return kernels.product(x.flatten(0, 1), weight).reshape(*x.shape[:2], weight.shape[1])


def propagate(op: GraphOperator, x: Tensor) -> Tensor:
    """Return ``op @ x`` over the first axis, shape (N, ...): all others are folded into one."""
    return (op @ x.flatten(1)).reshape(x.shape)


def empty(name: str, *shape: int) -> Tensor:
    """Return an undrawn weight; raise where its shape is absurd."""
    with checks.room(name, *shape):
        return torch.empty(shape)


def check_features(x: Any, in_channels: int) -> Tensor | CSR:
    """Return the node features, those of ``torch.sparse`` as a `CSR`; ``in_channels=-1`` takes any width."""
    if checks.is_sparse(x):
        given = x
        x = remembered(lambda: CSR.from_torch_sparse(given), ("CSR", torch.get_default_dtype()), given)
    if not isinstance(x, CSR):
        width = "F" if in_channels == -1 else in_channels
        checks.real_tensor("x", x, f"(..., N, {width})", ", a CSR or a torch.sparse matrix")
    if in_channels != -1 and x.shape[-1] != in_channels:  # no `in`: compiled code may know the shape by name only
        raise ShapeError(
            f"x has {x.shape[-1]} features per node, but the layer was made for in_channels={in_channels}."
        )
    return x  # type: ignore[no-any-return]


def check_kind(layer: str, kind: str, op: GraphOperator, edge_weight: Tensor | None) -> GraphOperator:
    """Return the operator if it is of the kind that the layer is defined with."""
    if edge_weight is not None:
        raise ParameterError("edge_weight goes with an edge_index; an operator holds its weights itself.")
    if op.kind != kind:
        raise GraphError(
            f"{layer} works on an operator of kind {kind!r}, got {op.kind!r}: build it by "
            f"conv.operator(edge_index, num_nodes) or GraphOperator.from_edge_index(..., kind={kind!r})."
        )
    return op


def check_fit(x: Tensor | CSR, op: GraphOperator) -> None:
    """Raise unless features and operator have the same nodes, device and type."""
    if isinstance(x, Tensor):
        op.check_operand(x)
        return
    if x.shape[0] != op.num_nodes:
        raise ShapeError(f"x has {x.shape[0]} rows, but the graph {op.num_nodes} nodes.")
    if x.device != op.device:
        raise DeviceError(f"x is on {x.device}, the operator on {op.device}: move one with .to(device).")
    if x.dtype != op.dtype:
        raise DTypeError(f"x is {x.dtype}, the operator {op.dtype}: convert one with .to(dtype).")


def check_weights(x: Tensor | CSR, weight: Tensor) -> None:
    """Raise unless features and weights have the same device and, autocast aside, the same type."""
    if x.device != weight.device:
        raise DeviceError(f"x is on {x.device}, the layer's weights on {weight.device}: use conv.to(x.device).")
    mixed = torch.is_autocast_enabled(x.device.type) and x.dtype != torch.float64
    if x.dtype != weight.dtype and not mixed:
        raise DTypeError(f"x is {x.dtype}, the layer's weights {weight.dtype}: use conv.to(x.dtype).")


def refuse_script(layer: str) -> NoReturn:
    """Raise: torch.jit.script compiles a subset of Python in which there are no graph operators."""
    raise UnsupportedError(
        f"{layer} cannot be compiled by torch.jit.script: use torch.export.export, torch.compile or torch.jit.trace."
    )


# -------------------------------------------------------------------------------------------------------------- dropout


class Zero(float):
    """A drop rate of 0 that uses up the seed of its mask, as a tensor that is 0 would.

    So the masks of a trial do not depend on whether the other trials of its batch drop something here.
    """


def check_act(act: str | Activation | None) -> str | Activation | None:
    """Return ``act`` if it is None, a known name or callable; raise otherwise."""
    if isinstance(act, str):
        return checks.choice("activation", act, activations.MODULES)
    if act is not None and (isinstance(act, type) or not callable(act)):
        raise ParameterError(f"act must be None, a name or a callable, got {shown(act)}.")
    return act


def check_rate(p: float | Tensor) -> None:
    """Raise unless it is a probability in [0, 1), or a tensor without axes, whose value is not read."""
    if not isinstance(p, Tensor):
        checks.probability("a drop rate", p)
    elif p.dim() or not p.is_floating_point():
        raise DTypeError(f"a drop rate must be a number or a float tensor without axes, got {shown(p)}.")


def mask_seed(p: float | Tensor, training: bool, device: torch.device) -> Tensor | None:
    """Draw the seed of a mask; None if nothing is dropped."""
    if not training:
        return None
    if isinstance(p, Tensor) or p > 0:
        return draw_seed(device)
    if isinstance(p, Zero):
        pass_seed()
    return None


def drop(x: Features, p: float | Tensor, training: bool, op: GraphOperator | None = None) -> Features:
    """Return x with each entry zeroed with probability p and the others divided by 1 - p, if training.

    Sparse features are dropped among their stored values (a dropped zero is a zero) and stay sparse. The probability
    may be a tensor without axes, as when it differs between trials; its value is not read here. An operator whose rows
    lie on many ranks numbers the entries of its nodes.
    """
    seed = mask_seed(p, training, x.device)
    if seed is None:
        return x
    if op is None:
        return (
            x.with_value(kernels.dropout(x.value, seed, p, 0)) if isinstance(x, CSR) else kernels.dropout(x, seed, p, 0)
        )
    return x.with_value(op._entry_dropout(x.value, seed, p)) if isinstance(x, CSR) else op._dropout(x, seed, p, 0)
