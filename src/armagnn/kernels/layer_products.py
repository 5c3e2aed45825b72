"""The passes of an ARMA layer, forwards and backwards, step by step, by the kernels of a device.

Trials are an axis here too. R layers run as one, with all that belongs to a node side by side: states of shape
(N, R * K * F_out), which the operator propagates like any others, and W as R * K stacks. Only what mixes the features
of X (V and W0), dropout and the mean over the stacks know that there are trials. Any device can run a layer so; where
a backend has a better plan, it says so.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from armagnn.kernels import reference
from armagnn.kernels.backends import Layer, Matrix, backend
from armagnn.kernels.reference import gradient_of_activation

CHUNK = 1 << 14
"""Rows above which memory counts: products that replace their input are made piece by piece, without a second input."""

COLUMNS = 64
"""Columns that are propagated at a time then: fewer would read the operator more often than the caches ask for."""


def keeps(t: Layer) -> bool:
    """Return whether `backward` needs what `forward` keeps."""
    return True


def forward(t: Layer, keep: bool) -> tuple[Tensor, list[Tensor | None]]:
    """Return the mean of the stacks, and if ``keep`` L X (if X was propagated first) and the states."""
    run = LayerRun(t)
    out, propagated, states = run.forward(keep)
    return run.of_nodes(out, (t.trials,) if t.trials else run.shape), [propagated, *states]


def backward(
    t: Layer, g: Tensor, kept: list[Tensor], needs_x: bool, consume: bool = False
) -> tuple[Tensor | None, ...]:
    """Return the gradients of X, W0, W, V and the bias; they may ``consume`` what was kept."""
    run, (propagated, *states) = LayerRun(t, needs_x), kept
    upper = g if g.dim() == 2 else run.by_node(g)  # the gradient of a sum is expanded: no copy of it
    x_grad, *found = run.backward(upper, propagated, states, needs_x, consume)
    return None if x_grad is None else run.of_nodes(x_grad, run.shape), *run.as_given(found)


class LayerRun:
    """One forward or backward pass over a layer, its tensors arranged as the products want them.

    X is sparse; or dense, of shape (N * batch, F_in), the nodes first, which all trials share; or (N, R, F_in), each
    trial its own. Then W0 and V hold one matrix for each trial, (R, F_in, K * F_out) and (1 or T, R, F_in, K * F_out).
    Else those of all trials stand side by side, (F_in, R * K * F_out) and (1 or T, F_in, R * K * F_out), as one network
    has them. W is (1 or T - 1, R * K, F_out, F_out), the bias (1 or T, R * K * F_out). A pass that never ``multiplies``
    by W0 and V has no copies of them.
    """

    def __init__(self, t: Layer, multiplies: bool = True) -> None:
        settings = self.settings = t.settings
        self.op, self.sparse, self.seed = t.op, t.sparse, t.seed
        self.kernels = backend(t.v.device)
        self._ready: dict[bool, Matrix] = {}
        self.trials, self.layers = t.trials, max(t.trials, 1)
        self.nodes = t.op[0].shape[0] - 1
        self.shape = () if t.x is None else t.x.shape[:-2]  # of trials or signals
        own = bool(t.trials) and len(self.shape) == 1
        self.x = None if t.x is None else self.by_node(t.x)
        if self.x is not None and own:
            self.x = self.x.view(self.nodes, t.trials, self.x.shape[-1])
        self.rows = self.nodes if self.x is None or t.trials else self.x.shape[0]
        self.frugal = self.rows > CHUNK and self.kernels.late_step is reference.late_step
        self.batch = self.rows // self.nodes
        self.channels = self.layers * settings.stacks * settings.width
        # where the trials stand in W0, W, V and the bias, and the first of the axes that are one then
        self._places, self._given = (1 - own, 1, 2 - own, 1), (t.w0, t.w, t.v, t.bias)
        joined = (1 + own if multiplies else -1, None, 2 + own if multiplies else -1, 1)
        self.w0, self.w, v, self.bias = map(self._arranged, self._given, self._places, joined)
        assert v is not None
        self.v = v

    def _arranged(self, weight: Tensor | None, place: int, first: int | None) -> Tensor | None:
        if weight is None or (first is None and not self.trials):
            return weight
        moved = weight.movedim(0, place) if self.trials else weight
        return moved.flatten(1, 2) if first is None else moved.flatten(first)

    def as_given(self, gradients: list[Tensor | None]) -> list[Tensor | None]:
        """Return gradients of the arranged weights in the shapes of those that were given."""
        found = list(gradients)
        for number, (gradient, given, place) in enumerate(zip(gradients, self._given, self._places, strict=True)):
            if gradient is not None and given is not None:
                moved = given.movedim(0, place) if self.trials else given
                back = gradient.view(moved.shape)
                found[number] = back.movedim(place, 0) if self.trials else back
        return found

    def by_node(self, x: Tensor) -> Tensor:
        """Return (..., N, F), of signals or trials, with the nodes first, (N * ..., F)."""
        if x.dim() == 2:
            return x.contiguous()
        batch, width = x.shape[:-2].numel(), x.shape[-1]
        return x.reshape(batch, self.nodes, width).transpose(0, 1).reshape(self.nodes * batch, width)

    def of_nodes(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Return the numbers of nodes, as `by_node` has them, for signals or trials of this shape: (..., N, F)."""
        if not shape:
            return x
        return x.view(self.nodes, -1, x.shape[-1]).transpose(0, 1).reshape(*shape, self.nodes, x.shape[-1])

    def times(self, x: Tensor, weight: Tensor) -> Tensor:
        """Return ``x W`` for a dense x that may differ from trial to trial, shape (N * batch, R * columns of W)."""
        if x.dim() == 2:
            return x @ weight
        return self.kernels.stack_matmul(x, weight).view(self.rows, -1)

    def product(self, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Return X W + bias, shape (N * batch, R * K * F_out)."""
        if self.x is None:
            rowptr, col, value = self._features(False)
            return self.kernels.gcs(rowptr, col, value, weight, None, bias, "none", 0.0)
        if self.x.dim() == 3:
            out = self.times(self.x, weight)
            return out if bias is None else out.add_(bias)
        return self.kernels.affine(self.x, weight, None, bias, "none", 0.0)

    def transposed_product(self, g: Tensor, x: Tensor | None = None) -> Tensor:
        """Return X^T g, or that of another matrix, which has the shape of a dense X."""
        x = self.x if x is None else x
        if x is None:
            rowptr, col, value = self._features(True)
            return self.kernels.gcs(rowptr, col, value, g, None, None, "none", 0.0)
        if x.dim() == 3:
            return self.kernels.outer(x, g.view(self.nodes, self.trials, -1))
        return reference.inner(x, g)

    def _features(self, transpose: bool) -> Matrix:
        """Return a sparse X or X^T; one whose values differ from trial to trial is made ready once, when needed."""
        matrix = self._ready.get(transpose)
        if matrix is None:
            rowptr, col, value, t_rowptr, t_col, t_value, *rest = self.sparse  # type: ignore[misc]
            matrix = (t_rowptr, t_col, t_value) if transpose else (rowptr, col, value)
            if value.dim() == 2:
                matrix = self.kernels.nonzeros(*matrix[:2], value, rest[0] if transpose else None)
            self._ready[transpose] = matrix
        return matrix

    def propagate(self, h: Tensor, transpose: bool = False) -> Tensor:
        """Return L h or L^T h for h of shape (N * batch, F), or (N, R, F)."""
        rowptr, col, value = self.op[3:6] if transpose else self.op[:3]
        wide = h.view(self.nodes, h.numel() // self.nodes)
        return self.kernels.gcs(rowptr, col, value, wide, None, None, "none", 0.0).view(h.shape)

    def drop(self, h: Tensor, seed: Tensor, t: int, reuse: bool = False) -> Tensor:
        """Return h with the entries dropped that the masks of step t drop; in the place of an h that it may reuse."""
        p = self.settings.p
        if not isinstance(p, Tensor):
            return self.kernels.dropout(h, seed, p, t)
        of_trials = h.view(self.nodes, self.layers, -1)
        target = of_trials if reuse else None
        return self.kernels.dropout_trials(of_trials, seed, p.view(-1), t, target).view(h.shape)

    def step(
        self, t: int, h: Tensor, skip: Tensor, bias: Tensor | None, seed: Tensor | None, reuse: bool, mean: bool = False
    ) -> Tensor:
        """Return σ(L h + dropout(skip) + bias), or its mean over the stacks; it may write over a skip it may reuse."""
        s, shape = self.settings, (self.nodes, self.batch * self.channels)
        bias = bias if bias is None or self.batch == 1 else bias.repeat(self.batch)
        if isinstance(s.p, Tensor) and seed is not None:  # rates on the device, which the product cannot take
            skip, seed, reuse = self.drop(skip, seed, t, reuse), None, True
        skip = skip.view(shape)
        rate = 0.0 if seed is None else float(s.p)
        h, target = h.view(shape), skip if reuse else None
        rowptr, col, value = self.op[:3]
        given = rowptr, col, value, h, skip, bias, s.act, s.slope, seed, rate, t
        in_passing = self.kernels.gcs_mean(*given, s.stacks, s.width) if mean else None
        if in_passing is not None:
            return in_passing
        out = self.kernels.gcs(*given, target)
        return self.mean(out) if mean else out.view(self.rows, self.channels)

    def early_step(
        self, propagated: Tensor, w0: Tensor, w: Tensor | None, v: Tensor, own: Tensor | None, late: Tensor | None,
        seed: Tensor | None, keep: bool,
    ) -> tuple[Tensor, Tensor, Tensor | None]:  # fmt: skip
        """Return X V (with the bias unless it comes late), σ((L X) W0 + dropout(X V) + bias), and that times W."""
        s, bias = self.settings, own if late is None else late
        again = s.steps > 1 and v.shape[0] == 1
        ahead = None if s.steps == 1 or w is None else w[0]
        fused = None
        if self.x is not None and not self.trials and (seed is None or not isinstance(s.p, Tensor)):
            fused = self.kernels.early_step(
                self.x, propagated, v[0], w0, bias, ahead, s.act, s.slope, seed, 0.0 if seed is None else float(s.p),
                s.width, again, keep or ahead is None,
            )  # fmt: skip
        if fused is not None:
            skip, state, after = fused
            return skip, state, after
        skip = self.product(v[0], own if late is None else None)
        dropped = skip if seed is None else self.drop(skip, seed, 0)
        if propagated.dim() == 2:
            return skip, self.kernels.affine(propagated, w0, dropped, late, s.act, s.slope), None
        state = self.times(propagated, w0).add_(dropped)
        return skip, reference.activate(state if late is None else state.add_(late), s.act, s.slope), None

    def stacked(self, h: Tensor) -> Tensor:
        """Return the stacks as an axis, shape (N * batch, R * K, F_out)."""
        return h.view(self.rows, self.layers * self.settings.stacks, self.settings.width)

    def mean(self, h: Tensor) -> Tensor:
        """Return the mean over the stacks, shape (N * batch * R, F_out)."""
        s = self.settings
        return self.kernels.stack_mean(h.view(self.rows * self.layers, s.stacks, s.width))

    def forward(self, keep: bool) -> tuple[Tensor, Tensor | None, list[Tensor]]:
        """Return the mean of the stacks, and if ``keep`` L X (if X was propagated first) and the states."""
        s, seed, w0, w, v, bias = self.settings, self.seed, self.w0, self.w, self.v, self.bias
        propagated: Tensor | None = None
        skip: Tensor | None = None
        ahead: Tensor | None = None  # the state times the next W, where a kernel has made it in passing
        states: list[Tensor] = []
        for t in range(s.steps):
            # the bias rides along with X V, unless dropout or a tied X(0) must not see it
            own = None if bias is None else bias[min(t, bias.shape[0] - 1)]
            late = own if seed is not None or s.init == "tied" else None
            if t == 0 and s.early:
                propagated = self.propagate(self.x)  # type: ignore[arg-type]
                skip, state, ahead = self.early_step(propagated, w0, w, v, own, late, seed, keep)  # type: ignore[arg-type]
            else:
                if skip is None or v.shape[0] > 1:
                    skip = self.product(v[min(t, v.shape[0] - 1)], own if late is None else None)
                if t == 0 and s.init == "zero":
                    dropped = skip if seed is None else self.drop(skip, seed, t)
                    state = self.kernels.finish(dropped, late, s.act, s.slope)
                else:
                    if t > 0:
                        h = ahead if ahead is not None else self._next(state, w, t)  # type: ignore[arg-type]
                        ahead = None
                    else:
                        h = skip if s.init == "tied" else self.product(w0, None)  # type: ignore[arg-type]
                    last = t == s.steps - 1
                    reuse = last and h is not skip
                    if last and not keep:
                        return self.step(t, h, skip, late, seed, reuse, mean=True), None, []
                    state = self.step(t, h, skip, late, seed, reuse)
                    del h  # before memory peaks, at the mean
            if keep:
                states.append(state)
        return self.mean(state), propagated, states

    def _next(self, state: Tensor, w: Tensor, t: int) -> Tensor:
        """Return the state times the W of step t."""
        return self.kernels.stack_matmul(self.stacked(state), w[min(t, w.shape[0]) - 1])

    def backward(
        self, g: Tensor, propagated: Tensor | None, states: list[Tensor], needs_x: bool, consume: bool
    ) -> tuple[Tensor | None, ...]:
        """Return the gradients of X and of the arranged weights."""
        seed, w0, w, v, bias = self.seed, self.w0, self.w, self.v, self.bias
        s, shared = self.settings, v.shape[0] == 1
        x_grad: Tensor | None = None
        w0_grad: Tensor | None = None
        w_grad = None if w is None else torch.zeros_like(w)
        v_grads: list[Tensor] = []
        bias_grads: list[Tensor] = []
        skip_grad: Tensor | None = None
        parts: dict[int, Tensor] = {}  # of the gradients of the W and of the bias, from steps that one kernel goes back
        up: Tensor | None = None
        counted = False  # do bias and skip connection have the gradient before the activation already?

        def to_x(gradient: Tensor, weight: Tensor) -> None:
            nonlocal x_grad
            if needs_x:
                x_grad = self._back(gradient, weight, x_grad)

        for t in reversed(range(s.steps)):
            if up is None:  # a spent buffer takes the gradient: the state itself, if nobody needs it again
                state = states[t].view(-1, s.stacks, s.width)
                up = self._spread(g, state, state if consume else torch.empty_like(state))
            pre = up.view(self.rows, self.channels)
            early, first = t == 0 and s.early, t == 0 and (s.early or s.init == "zero")
            down: Tensor | None = None
            if t > 0:
                assert w is not None
                assert w_grad is not None
                index, below = min(t, w.shape[0]) - 1, self.stacked(states[t - 1])
                step = below, w[index], w_grad[index]
            if t > 0 and self.frugal:
                up = self._back_by_stacks(self.stacked(pre), *step, consume)
            elif not first:
                down = self.propagate(pre, transpose=True)
            if not counted:
                if bias is not None and (not shared or seed is not None):
                    bias_grads.append(pre.sum(0))
                through = pre if seed is None else self.drop(pre, seed, t, not early)  # an early W0 still needs it
                if shared:
                    skip_grad = through if skip_grad is None else skip_grad.add_(through)
                else:
                    v_grads.append(self.transposed_product(through))
                    to_x(through, v[t])
            if t > 0 and self.frugal:
                continue
            if t > 0:
                up = self.stacked(down)  # type: ignore[arg-type]
                added = self.stacked(skip_grad) if shared else None  # type: ignore[arg-type]
                drop = None if seed is None or not shared else (seed, s.p, t - 1)
                given = up, below, w[index], s.act, s.slope  # type: ignore[index]
                part = self.kernels.late_step(*given, self.layers, added, drop, parts.get(index))
                counted = part is not None and shared
                if part is not None:
                    parts[index] = part
                else:
                    self._through_weights(up, *step, up)
            elif early:
                assert propagated is not None
                assert w0 is not None
                w0_grad = self.transposed_product(pre, propagated)
                if needs_x:
                    lifted = self.propagate(self._back(pre, w0, None), transpose=True)
                    x_grad = lifted if x_grad is None else x_grad.add_(lifted)
            elif s.init == "linear":
                assert down is not None
                assert w0 is not None
                w0_grad = self.transposed_product(down)
                to_x(down, w0)
            elif s.init == "tied":
                assert down is not None
                if bias is not None and shared and seed is None:
                    bias_grads.append(skip_grad.sum(0))  # type: ignore[union-attr]
                if shared:
                    skip_grad = down.add_(skip_grad)  # type: ignore[arg-type]
                else:
                    v_grads[-1] += self.transposed_product(down)
                    to_x(down, v[0])
        for index, part in parts.items():
            total = part.sum(0)
            w_grad[index] += total[:, :-1]  # type: ignore[index]
            if bias is not None and shared and seed is not None:
                bias_grads.append(total[:, -1].flatten().to(bias.dtype))
        if shared:
            assert skip_grad is not None
            v_grads = [self.transposed_product(skip_grad)]
            to_x(skip_grad, v[0])
            if bias is not None and not bias_grads:
                bias_grads = [skip_grad.sum(0)]
            elif bias_grads:
                bias_grads = [sum(bias_grads[1:], bias_grads[0])]
        bias_grad = None if bias is None else torch.stack(bias_grads[::-1])
        v_grad = v_grads[0].unsqueeze(0) if len(v_grads) == 1 else torch.stack(v_grads[::-1])
        return x_grad, w0_grad, w_grad, v_grad, bias_grad

    def _back_by_stacks(self, pre: Tensor, below: Tensor, w: Tensor, w_grad: Tensor, consume: bool) -> Tensor:
        """Return the gradient before the activation of the states below, perhaps in their place, by a few stacks.

        Propagated at once, all stacks would need one more buffer of the size of the states.
        """
        out = below if consume else torch.empty_like(below)
        count = min(max(1, COLUMNS // self.settings.width), below.shape[1])
        # One buffer for all: an allocator may keep what is freed, and not have it fit again.
        buffer = torch.empty(self.rows * count * self.settings.width, dtype=pre.dtype, device=pre.device)
        rowptr, col, value = self.op[3:6]
        for k in range(0, below.shape[1], count):
            some, shape = slice(k, k + count), below[:, k : k + count].shape
            wide = pre[:, some].reshape(self.nodes, -1)  # a copy for signals, and where it is small
            place = buffer[: shape.numel()].view(wide.shape)
            down = self.kernels.gcs(rowptr, col, value, wide, None, None, "none", 0.0, target=place).view(shape)
            self._through_weights(down, below[:, some], w[some], w_grad[some], out[:, some])
        return out

    def _through_weights(self, down: Tensor, below: Tensor, w: Tensor, w_grad: Tensor, target: Tensor) -> None:
        """Write the gradient before the activation of states from that of ``below[:, k] W[k]``; add to that of W."""
        if self.trials:
            w_grad.baddbmm_(below.permute(1, 2, 0), down.transpose(0, 1))
        else:  # one product a stack: cuBLAS splits a long sum over the GPU, not a batch of them
            for k in range(below.shape[1]):
                reference.inner(below[:, k], down[:, k], w_grad[k])
        for rows, own, written in self._pieces(down, below, target):
            up = self.kernels.stack_matmul(rows, w.transpose(1, 2))
            gradient_of_activation(up, own, self.settings.act, self.settings.slope, written)

    def _spread(self, g: Tensor, state: Tensor, target: Tensor) -> Tensor:
        """Return the gradient before the activation, in the target, from that of the mean over the stacks."""
        s = self.settings
        for rows, own, written in self._pieces(g, state, target):
            up = (rows * (1.0 / s.stacks)).unsqueeze(1).expand(-1, s.stacks, -1)
            gradient_of_activation(up, own, s.act, s.slope, written)
        return target

    def _pieces(self, *tensors: Tensor) -> Iterable[tuple[Tensor, ...]]:
        """Return a few rows of the tensors after the other, where memory counts."""
        if self.rows <= CHUNK:
            return (tensors,)
        return zip(*(torch.split(each, -(-len(each) // 8)) for each in tensors), strict=True)

    def _back(self, g: Tensor, weight: Tensor, total: Tensor | None) -> Tensor:
        """Return g W^T, in the shape of X, added to a total that may be written over."""
        if weight.dim() == 2:
            return g @ weight.t() if total is None else total.addmm_(g, weight.t())
        found: Tensor = self.kernels.stack_matmul(g.view(self.nodes, self.trials, -1), weight.transpose(1, 2))
        return found if total is None else total.add_(found)
