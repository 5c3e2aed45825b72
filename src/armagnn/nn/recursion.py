"""The recursion of an ARMA layer, step by step, by operations that autograd follows: Eq. 14 as it stands.

This is what the layer is. `armagnn.kernels.layer` computes the mean of the stacks with fewer passes over memory and
must agree with it; the outputs of the single stacks, activations that the kernels do not know, learned operators,
compiled and transformed code and second derivatives all come from here.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from armagnn import kernels
from armagnn.kernels import Settings
from armagnn.operators import CSR, GraphOperator


def recursion(
    settings: Settings,
    op: GraphOperator,
    features: Tensor | CSR,
    weights: tuple[Tensor | None, Tensor | None, Tensor, Tensor | None],
    seed: Tensor | None,
    activation: Callable[[Tensor], Tensor] | None,
) -> Tensor:
    """Return the states X(T) of all stacks, shape (N * batch, K, F_out).

    Args:
        settings: X(0), T, K, F_out, dropout; and the activation, if it is one that the kernels apply.
        op: the operator L.
        features: X, dense of shape (N * batch, F_in), node-major, or sparse of shape (N, F_in).
        weights: W0 (F_in, K * F_out), W (1 or T - 1, K, F_out, F_out), V (1 or T, F_in, K * F_out) and the bias
            (1 or T, K * F_out), as `kernels.arma_layer` takes them.
        seed: of the masks that drop entries of X V, or None.
        activation: the non-linearity, if the kernels do not apply it.
    """
    w0, w, v, bias = weights
    rows, channels = features.shape[0], settings.stacks * settings.width
    batch = rows // max(op.num_nodes, 1)
    shape = (op.num_nodes, batch * channels)

    def step(t: int, h: Tensor, skip: Tensor, late: Tensor | None) -> Tensor:
        """Return σ(L h + dropout(skip) + bias)."""
        late = late if late is None or batch == 1 else late.repeat(batch)
        key, p = (None, 0.0) if seed is None else (seed, settings.p)
        h, skip = h.reshape(shape).contiguous(), skip.reshape(shape).contiguous()
        if key is not None and isinstance(p, Tensor):  # a rate of the trial's own
            skip, key, p = kernels.dropout(skip, key, p, t), None, 0.0
        out = kernels.gcs(*op._arguments(), h, skip, late, key, p, t, settings.act, settings.slope)
        return finish(out).reshape(rows, channels)

    def finish(z: Tensor) -> Tensor:
        return z if activation is None else activation(z)

    def product(matrix: Tensor) -> Tensor:
        """Return X times a matrix; a product of stacks, which stays node-major when trials are batched."""
        if isinstance(features, CSR):
            return features @ matrix
        return kernels.stack_matmul(features.unsqueeze(1), matrix.unsqueeze(0).to(features.dtype)).squeeze(1)

    state = features if isinstance(features, Tensor) else features.value  # set by the first step
    for t in range(settings.steps):
        if t == 0 or v.shape[0] > 1:
            own = None if bias is None else _of_step(bias, t)
            matrix = _of_step(v, t)
            skip, late = product(matrix), own
        if t > 0:
            assert w is not None
            stacked = state.reshape(rows, settings.stacks, settings.width)
            weight = _of_step(w, t - 1).to(state.dtype)  # another type only under autocast
            state = step(t, kernels.stack_matmul(stacked, weight), skip, late)
        elif settings.early or settings.init == "zero":
            dropped = skip if seed is None else kernels.dropout(skip, seed, settings.p, t)
            dropped = dropped.clone() if late is None else dropped + late  # an activation may work in place
            if settings.early:
                assert isinstance(features, Tensor)
                wide = features.reshape(op.num_nodes, batch * features.shape[1])
                dropped = torch.addmm(dropped, (op @ wide).reshape(features.shape), w0)  # type: ignore[arg-type]
            state = finish(_applied(settings, dropped))
        else:
            state = step(t, skip if settings.init == "tied" else product(w0), skip, late)  # type: ignore[arg-type]
    return state.reshape(rows, settings.stacks, settings.width)


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
