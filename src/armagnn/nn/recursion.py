"""The recursion of an ARMA layer, step by step, by operations that autograd follows: Eq. 14 as it stands.

This is what the layer is. `armagnn.kernels.layer` computes the mean of the stacks with fewer passes over memory and
must agree with it; the outputs of the single stacks, activations that the kernels do not know, learned operators,
compiled and transformed code, second derivatives, sequences and fixed points all come from here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from armagnn import kernels
from armagnn.kernels import Settings
from armagnn.operators import CSR, GraphOperator


@dataclass(frozen=True)
class Recursion:
    """The steps of all stacks. States have shape (N * batch, K * F_out), node-major.

    Attributes:
        settings: X(0), T, K, F_out, dropout; and the activation, if it is one that the kernels apply.
        weights: W0 (F_in, K * F_out), W (1 or T - 1, K, F_out, F_out), V (1 or T, F_in, K * F_out) and the bias
            (1 or T, K * F_out), as `kernels.arma_layer` takes them.
        seed: of the masks that drop entries of X V, or None.
        activation: the non-linearity of states (N * batch, K, F_out), if the kernels do not apply it.
    """

    settings: Settings
    weights: tuple[Tensor | None, Tensor | None, Tensor, Tensor | None]
    seed: Tensor | None
    activation: Callable[[Tensor], Tensor] | None

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
        dropped = skip if self.seed is None else kernels.dropout(skip, self.seed, settings.p, 0)
        dropped = dropped.clone() if late is None else dropped + late  # an activation may work in place
        if settings.early:
            assert isinstance(features, Tensor)
            wide = features.reshape(op.num_nodes, features.numel() // max(op.num_nodes, 1))
            dropped = torch.addmm(dropped, (op @ wide).reshape(features.shape), w0)  # type: ignore[arg-type]
        return self._finish(_applied(settings, dropped))

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
            skip, key, p = kernels.dropout(skip, key, p, t), None, 0.0
        out = kernels.gcs(*op._arguments(), h, skip, late, key, p, t, self.settings.act, self.settings.slope)
        return self._finish(out).reshape(rows, channels)

    def _bias(self, t: int) -> Tensor | None:
        bias = self.weights[3]
        return None if bias is None else _of_step(bias, t)

    def _finish(self, z: Tensor) -> Tensor:
        if self.activation is None:
            return z
        return self.activation(z.reshape(-1, self.settings.stacks, self.settings.width)).reshape(z.shape)


def recursion(
    settings: Settings,
    op: GraphOperator,
    features: Tensor | CSR,
    weights: tuple[Tensor | None, Tensor | None, Tensor, Tensor | None],
    seed: Tensor | None,
    activation: Callable[[Tensor], Tensor] | None,
) -> Tensor:
    """Return the states X(T) of all stacks, shape (N * batch, K, F_out); arguments as in `Recursion`."""
    steps = Recursion(settings, weights, seed, activation)
    skip = steps.skip(0, features)
    state = steps.first(op, features, skip)
    for t in range(1, settings.steps):
        skip = skip if weights[2].shape[0] == 1 else steps.skip(t, features)
        state = steps.next(t, op, state, skip)
    return state.reshape(features.shape[0], settings.stacks, settings.width)


def _product(features: Tensor | CSR, matrix: Tensor) -> Tensor:
    """Return X times a matrix; a product of stacks, which stays node-major when trials are batched."""
    if isinstance(features, CSR):
        return features @ matrix
    return kernels.stack_matmul(features.unsqueeze(1), matrix.unsqueeze(0).to(features.dtype)).squeeze(1)


def _of_step(parameter: Tensor, t: int) -> Tensor:
    """Return the parameter of step t; where all steps share one, as a view whose gradient needs no copy."""
    return parameter.squeeze(0) if parameter.shape[0] == 1 else parameter.unbind(0)[t]


def _applied(settings: Settings, z: Tensor) -> Tensor:
    """Apply an activation that the kernels know, where no kernel does it in passing."""
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "none": lambda z: z,
        "relu": torch.relu,
        "leaky_relu": lambda z: torch.nn.functional.leaky_relu(z, settings.slope),
        "elu": lambda z: torch.nn.functional.elu(z, settings.slope),
        "tanh": torch.tanh,
        "sigmoid": torch.sigmoid,
    }
    return functions[settings.act](z)
