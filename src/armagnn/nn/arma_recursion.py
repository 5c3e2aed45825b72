"""The recursion of an ARMA layer, step by step, by operations that autograd follows: Eq. 14 as it stands.

This is what the layer is. `armagnn.kernels.layer` computes the mean of the stacks with fewer passes over memory and
must agree with it; the outputs of the single stacks, activations that the kernels do not know, learned operators,
compiled and transformed code, second derivatives, sequences and fixed points all come from here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from armagnn import kernels
from armagnn.errors import DTypeError, ParameterError, ShapeError
from armagnn.kernels import Settings
from armagnn.nn import activations
from armagnn.nn.contraction import check_operator, check_state
from armagnn.operators import CSR, GraphOperator
from armagnn.operators.csr import fold, unfold
from armagnn.torch_private import recording, transforms_active

if TYPE_CHECKING:
    from armagnn.nn.arma_conv import ARMAConv

Weights = tuple[Tensor | None, Tensor | None, Tensor, Tensor | None]
"""W0 (F_in, K * F_out), W (1 or T - 1, K, F_out, F_out), V (1 or T, F_in, K * F_out), bias (1 or T, K * F_out)."""


@dataclass(frozen=True)
class Recursion:
    """The steps of all stacks. States have shape (N * batch, K * F_out), node-major.

    Attributes:
        settings: X(0), T, K, F_out, dropout; and the activation, if it is one that the kernels apply.
        weights: as `kernels.arma_layer` takes them.
        seed: of the masks that drop entries of X V, or None.
        activation: the non-linearity of states (N * batch, K, F_out), if the kernels do not apply it.
    """

    settings: Settings
    weights: Weights
    seed: Tensor | None
    activation: Callable[[Tensor], Tensor] | None

    def run(self, op: GraphOperator, features: Tensor | CSR) -> Tensor:
        """Return the states X(T), shape (N * batch, K, F_out)."""
        if not self.settings.recompute or not torch.is_grad_enabled() or recording() or transforms_active():
            return self._run(op, features)
        # no early stop: ranks whose operator is partitioned must all go through the same exchanges
        again = partial(checkpoint, self._run, use_reentrant=False, early_stop=False)
        states: Tensor = again(op, features, preserve_rng_state=self.activation is not None)
        return states

    def _run(self, op: GraphOperator, features: Tensor | CSR) -> Tensor:
        skip = self.skip(0, features)
        state = self.first(op, features, skip)
        for t in range(1, self.settings.steps):
            skip = skip if self.weights[2].shape[0] == 1 else self.skip(t, features)
            state = self.next(t, op, state, skip)
        return state.reshape(features.shape[0], self.settings.stacks, self.settings.width)

    def to(self, dtype: torch.dtype) -> Self:
        """Return the same steps with weights of another type."""
        w0, w, v, bias = (None if weight is None else weight.to(dtype) for weight in self.weights)
        assert v is not None
        return replace(self, weights=(w0, w, v, bias))

    def skip(self, t: int, features: Tensor | CSR) -> Tensor:
        """Return X V of step t, for X dense of shape (N * batch, F_in), node-major, or sparse of shape (N, F_in)."""
        return _product(features, _of_step(self.weights[2], t))

    def first(self, op: GraphOperator, features: Tensor | CSR, skip: Tensor) -> Tensor:
        """Return X(1), from the X(0) that the settings name."""
        settings, w0, late = self.settings, self.weights[0], self._bias(0)
        if not settings.early and settings.init != "zero":
            return self._step(0, op, skip if settings.init == "tied" else _product(features, w0), skip)  # type: ignore[arg-type]
        dropped = skip if self.seed is None else op._dropout(skip, self.seed, settings.p, 0)
        dropped = dropped.clone() if late is None else dropped + late  # an activation may work in place
        if settings.early:
            assert isinstance(features, Tensor)
            wide = features.reshape(op.num_nodes, features.numel() // max(op.num_nodes, 1))
            dropped = torch.addmm(dropped, (op @ wide).reshape(features.shape), w0)  # type: ignore[arg-type]
        return self._finish(activations.applied(settings.act, settings.slope, dropped))

    def next(self, t: int, op: GraphOperator, state: Tensor, skip: Tensor) -> Tensor:
        """Return X(t + 1) = σ(L X(t) W + dropout(X V) + bias), t > 0."""
        w = self.weights[1]
        assert w is not None
        stacked = state.reshape(state.shape[0], self.settings.stacks, self.settings.width)
        weight = _of_step(w, t - 1).to(state.dtype)  # another type only under autocast
        return self._step(t, op, kernels.stack_matmul(stacked, weight), skip)

    def _step(self, t: int, op: GraphOperator, h: Tensor, skip: Tensor) -> Tensor:
        """Return σ(L h + dropout(skip) + bias)."""
        rows, channels = skip.shape
        batch = rows // max(op.num_nodes, 1)
        shape = (op.num_nodes, batch * channels)
        late = self._bias(t)
        late = late if late is None or batch == 1 else late.repeat(batch)
        key, p = (None, 0.0) if self.seed is None else (self.seed, self.settings.p)
        h, skip = h.reshape(shape).contiguous(), skip.reshape(shape).contiguous()
        if key is not None and isinstance(p, Tensor):  # a rate of the trial's own
            skip, key, p = op._dropout(skip, key, p, t), None, 0.0
        out = op._step(h, skip, late, key, p, t, self.settings.act, self.settings.slope)
        return self._finish(out).reshape(rows, channels)

    def _bias(self, t: int) -> Tensor | None:
        bias = self.weights[3]
        return None if bias is None else _of_step(bias, t)

    def _finish(self, z: Tensor) -> Tensor:
        if self.activation is None:
            return z
        return self.activation(z.reshape(-1, self.settings.stacks, self.settings.width)).reshape(z.shape)


def _product(features: Tensor | CSR, matrix: Tensor) -> Tensor:
    """Return X times a matrix; a product of stacks, which stays node-major when trials are batched."""
    if isinstance(features, CSR):
        return features @ matrix
    return kernels.stack_matmul(features.unsqueeze(1), matrix.unsqueeze(0).to(features.dtype)).squeeze(1)


def _of_step(parameter: Tensor, t: int) -> Tensor:
    """Return the parameter of step t; where all steps share one, as a view whose gradient needs no copy."""
    return parameter.squeeze(0) if parameter.shape[0] == 1 else parameter.unbind(0)[t]


def outputs(conv: ARMAConv, xs: Any, graphs: Any, edge_weight: Any = None) -> Iterator[Tensor]:
    r"""Yield the output of a layer at every instant t of a sequence, the mean of the stacks, shape (..., N, F_out).

    The constant X of Eq. 14 becomes a time-dependent input, and the operator may change with it (Section 4.2):

    .. math::
        \bar X_k^{(t+1)} = \sigma\left( \tilde L^{(t)} \bar X_k^{(t)} W_k + X^{(t)} V_k \right).

    The first instant starts from the X(0) that the layer's ``init`` names. A constant sequence of T instants gives what
    the layer gives.

    Args:
        conv: the layer.
        xs: X(t), a list or tuple of features, or a tensor of shape (T, ..., N, F_in).
        graphs: one graph for all instants, or a list or tuple of one for each.
        edge_weight: the weights of an edge index, or a list or tuple of them.
    """
    instants = _instants(conv, xs, graphs, edge_weight)
    if conv.weight is None and len(instants) > 1:
        raise ParameterError(_NO_WEIGHT)
    if not conv.shared_weights and len(instants) != conv.num_layers:
        raise ShapeError(
            f"the sequence has {len(instants)} steps, but the layer has separate weights for each of its "
            f"num_layers={conv.num_layers}: pass as many, or make it with shared_weights=True."
        )
    recursion: Recursion | None = None
    for t, (x, op) in enumerate(instants):
        features = conv._folded(x)
        if recursion is None:
            recursion = conv._recursion(x, features, op)
            state = recursion.first(op, features, recursion.skip(t, features))
        else:
            state = recursion.next(t, op, state, recursion.skip(t, features))
        stacked = state.reshape(features.shape[0], conv.num_stacks, conv.out_channels)
        yield conv._signals(kernels.stack_mean(stacked).unsqueeze(1), x.shape).squeeze(0)


def next_state(conv: ARMAConv, state: Tensor | None, x: Any, graph: Any, edge_weight: Tensor | None = None) -> Tensor:
    """Return X(t + 1) of all stacks from X(t), shape (K, ..., N, F_out) both; a state of None is the beginning."""
    if not conv.shared_weights:
        raise ParameterError("a layer with separate weights for each step cannot stream: use shared_weights=True.")
    x, op = conv._checked(x, graph, edge_weight)
    if conv.fixed_point is not None:
        check_operator(op)
    features = conv._folded(x)
    recursion = conv._recursion(x, features, op)
    skip = recursion.skip(0, features)
    if state is None:
        new = recursion.first(op, features, skip)
    elif conv.weight is None:
        raise ParameterError(_NO_WEIGHT)
    else:
        shape = (conv.num_stacks, *x.shape[:-1], conv.out_channels)
        if torch.is_autocast_enabled(skip.device.type):  # which gave the last state its own type
            state = state.to(skip.dtype)
        flat = check_state("state", state, shape, skip).reshape(conv.num_stacks, features.shape[0], conv.out_channels)
        new = recursion.next(1, op, flat.transpose(0, 1).reshape(skip.shape), skip)
    return conv._signals(new.reshape(features.shape[0], conv.num_stacks, conv.out_channels), x.shape)


_NO_WEIGHT = "a layer of one step has no W to go on with: make it with num_layers=2 or more."


def _instants(conv: ARMAConv, xs: Any, graphs: Any, edge_weight: Any) -> list[tuple[Tensor | CSR, GraphOperator]]:
    """Return checked features and operator of every instant; a graph that does not change is read once."""
    if isinstance(xs, Tensor):
        if xs.dim() < 3:
            raise ShapeError(f"a sequence must have shape (T, ..., N, {conv.in_channels}), got {tuple(xs.shape)}.")
        xs = xs.unbind(0)
    if not isinstance(xs, list | tuple):
        raise DTypeError(f"x must be a tensor, or a list or tuple of them for a sequence, got {type(xs).__name__}.")
    if not xs:
        raise ShapeError("x must be a sequence of at least one step, got none.")
    if not isinstance(graphs, list | tuple):
        first, op = conv._checked(xs[0], graphs, edge_weight)
        instants = [(first, op)] + [conv._checked(x, op, None) for x in xs[1:]]
    else:
        weights = edge_weight if isinstance(edge_weight, list | tuple) else [edge_weight] * len(graphs)
        if not len(xs) == len(graphs) == len(weights):
            raise ShapeError(
                f"the sequence has {len(xs)} steps, but there are {len(graphs)} graphs and {len(weights)} edge "
                "weights: pass one for each step, or one graph for all."
            )
        if conv.cached and not all(isinstance(graph, GraphOperator) for graph in graphs):
            raise ParameterError("a layer that is cached=True keeps its first graph: build the operators of the steps.")
        instants = [conv._checked(x, graph, w) for x, graph, w in zip(xs, graphs, weights, strict=True)]
    for t, (x, op) in enumerate(instants):
        if conv.fixed_point is not None:
            check_operator(op)
        if tuple(x.shape) != tuple(instants[0][0].shape):
            raise ShapeError(
                f"x of step {t} has shape {tuple(x.shape)}, that of step 0 {tuple(instants[0][0].shape)}: the nodes, "
                "the features and the leading axes must be the same at all steps."
            )
    return instants


def mean_of_stacks(
    settings: Settings, op: GraphOperator, x: Tensor | CSR, parameters: tuple[Tensor | None, ...], seed: Tensor | None,
    activation: Callable[[Tensor], Tensor] | None,
) -> Tensor:  # fmt: skip
    """Return the output of a layer, shape (..., N, F_out), from x (..., N, F_in) and parameters in their own shapes."""
    w0, w, v, bias = parameters
    assert v is not None
    weights = None if w0 is None else w0.flatten(1), w, v.flatten(2), None if bias is None else bias.flatten(1)
    steps = Recursion(settings, weights, seed, activation)
    if isinstance(x, CSR):
        return kernels.stack_mean(steps.run(op, x))
    nodes, batch = x.shape[-2], math.prod(x.shape[:-2])
    out = kernels.stack_mean(steps.run(op, fold(x).reshape(nodes * batch, x.shape[-1])))
    return unfold(out.reshape(nodes, batch * settings.width), (*x.shape[:-1], settings.width))
