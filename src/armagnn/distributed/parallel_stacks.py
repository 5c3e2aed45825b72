"""The K stacks of an ARMA layer over the ranks of a process group (Section 4.1).

All ranks hold the same inputs and compute the same loss; only what lies between `copied` and `summed` differs from rank
to rank. There the gradient of a shared input is the sum of what the ranks find, and the gradient of a sum is its own on
every rank.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.nn.parameter import Parameter

from armagnn import kernels
from armagnn.distributed.collectives import copied, group_of, summed
from armagnn.distributed.partitioned_operator import PartitionedOperator
from armagnn.distributed.rank_groups import agreed
from armagnn.distributed.stack_masks import keep_columns
from armagnn.errors import DTypeError, ParameterError, shown
from armagnn.nn import ARMAConv
from armagnn.nn.arma_recursion import Recursion
from armagnn.operators import CSR, GraphOperator

AXES: Final = {"initial_weight": 1, "weight": 1, "skip_weight": 2, "bias": 1}
"""The axis of each parameter of a layer along which its stacks lie."""


def parallelize_stacks(conv: ARMAConv, mesh: DeviceMesh | dist.ProcessGroup) -> ParallelStacks:
    r"""Share the stacks of a layer out over ranks: :math:`\bar X = \sum_r \frac{K_r}{K} \bar X_r`.

    The stacks of Eq. 16 are independent of each other, so rank r iterates its K_r of them and one sum over the ranks
    gives the mean of all. A layer of the same values and gradients comes back; the one given is left alone. All ranks
    of the mesh call this together, and take the weights of its first rank.

    Args:
        conv: the layer, on the device of this rank.
        mesh: a `DeviceMesh` of one axis (of a larger one, take ``mesh["name"]``), or a process group. It has K ranks
            at most; where K is no multiple of them, the first ranks have one stack more.

    Example:
        >>> import torch
        >>> import torch.distributed as dist
        >>> from armagnn import GraphOperator
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # torchrun does it for many
        >>> op = GraphOperator.from_edge_index(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> conv, x = ARMAConv(8, 16, num_stacks=3, num_layers=2), torch.randn(3, 8)
        >>> parallel = parallelize_stacks(conv, dist.group.WORLD)
        >>> parallel
        ParallelStacks(stacks 0 to 2 of 3, Share(8, 16, num_stacks=3, num_layers=2))
        >>> torch.equal(parallel(x, op), conv(x, op))
        True
        >>> dist.destroy_process_group()
    """
    return ParallelStacks(conv, mesh)


class ParallelStacks(nn.Module):
    """An `ARMAConv` whose stacks are shared out over ranks; `parallelize_stacks` makes it.

    All ranks call it together with the same input, and each gets the whole output and the whole gradient of its input.
    Where one rank raises (a solve that does not converge, say), the others raise a `RankError` with its words; on a
    `PartitionedOperator`, whose products wait for other ranks, this holds for what is checked before the first of them.
    A rank holds, trains and needs memory for its own stacks only: ``local``. Ranks that are seeded alike drop the same
    entries that one process with that seed would drop.

    ``state_dict()`` holds the plain layer's parameters, all stacks of them: every rank must ask for it, one may save
    it. ``load_state_dict`` takes such a state, or a plain layer's, and keeps this rank's part.
    """

    def __init__(self, conv: ARMAConv, mesh: DeviceMesh | dist.ProcessGroup) -> None:
        super().__init__()
        if not isinstance(conv, ARMAConv):
            raise DTypeError(f"parallelize_stacks takes an ARMAConv, got {type(conv).__name__}.")
        if isinstance(conv, Share):
            raise ParameterError("this layer is a rank's share already: parallelize the whole layer.")
        if conv.in_channels == -1:
            raise ParameterError("the layer does not know its in_channels yet: call it once, or make it with a number.")
        self.group = group_of(mesh, "parallelize_stacks")
        ranks, rank = dist.get_world_size(self.group), dist.get_rank(self.group)
        self.num_stacks = conv.num_stacks
        if ranks > self.num_stacks:
            raise ParameterError(
                f"the mesh has {ranks} ranks and the layer num_stacks={self.num_stacks}: a rank needs a stack, "
                f"use a mesh of {self.num_stacks} ranks at most."
            )
        each, more = divmod(self.num_stacks, ranks)
        self.local = _share(conv, rank * each + min(rank, more), each + (rank < more))
        for name, parameter in conv.named_parameters():
            whole = parameter.detach().clone()
            dist.broadcast(whole, group=self.group, group_src=0)
            if name in AXES:
                setattr(self.local, name, Parameter(self._mine(name, whole).clone(), parameter.requires_grad))
            else:  # an activation's own, which all stacks share
                self._share(self.local.get_parameter(name), whole)
        self.train(conv.training)
        self.register_state_dict_post_hook(_gather)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_cut)  # type: ignore[no-untyped-call]

    def _mine(self, name: str, whole: Tensor) -> Tensor:
        """Return this rank's stacks of a parameter."""
        return whole.narrow(AXES[name], self.local.first, self.local.num_stacks)

    def _share(self, parameter: Parameter, value: Tensor) -> None:
        """Give a parameter that all ranks hold its value, and the gradient of all ranks."""
        parameter.data.copy_(value)
        if parameter.requires_grad:
            parameter.register_hook(lambda g: summed(g, self.group))  # type: ignore[no-untyped-call]

    def operator(self, *args: Any, **kwargs: Any) -> GraphOperator:
        """Return the operator that the layer wants, as `ARMAConv.operator`."""
        return self.local.operator(*args, **kwargs)

    def forward(self, x: Tensor | CSR, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """Return the mean of all stacks (Eq. 16), shape (..., N, F_out), on every rank; arguments as of `ARMAConv`."""
        with agreed(self.group):
            if self.local.explain:
                raise ParameterError(
                    "explanations are made of a plain ARMAConv: load this layer's state_dict() into one."
                )
            x, op = self.local._checked(x, edge_index, edge_weight)
            out = None if isinstance(op, PartitionedOperator) else self._mean_of_own(x, op)
        return summed(self._mean_of_own(x, op) if out is None else out, self.group)

    def _mean_of_own(self, x: Tensor | CSR, op: GraphOperator) -> Tensor:
        """Return this rank's part of the mean over all stacks."""
        x = copied(x, self.group) if isinstance(x, Tensor) else _learned(x, self.group)
        found: Tensor = self.local(x, _learned(op, self.group))
        return found * (self.local.num_stacks / self.num_stacks)

    def __repr__(self) -> str:
        last = self.local.first + self.local.num_stacks - 1
        return f"ParallelStacks(stacks {self.local.first} to {last} of {self.num_stacks}, {self.local})"


def _share(conv: ARMAConv, first: int, stacks: int) -> Share:
    """Return a copy of a layer that is to hold some of its stacks; its parameters are still those of all."""
    share = copy.deepcopy(conv)
    share.__class__ = Share
    assert isinstance(share, Share)
    share.first, share.total, share.num_stacks = first, conv.num_stacks, stacks
    return share


def _learned(matrix: Any, group: dist.ProcessGroup) -> Any:
    """Return a matrix whose values, if they are learned, have the gradient of all ranks."""
    return matrix.with_value(copied(matrix.value, group)) if matrix.value.requires_grad else matrix


@torch.no_grad()
def _gather(module: ParallelStacks, state: dict[str, Tensor], prefix: str, _: Any) -> None:
    """Put the plain layer's parameters into a state in the place of this rank's."""
    for key in [key for key in state if key.startswith(f"{prefix}local.")]:
        name, own = key.removeprefix(f"{prefix}local."), state.pop(key)
        if name in AXES:
            axis = AXES[name]
            whole = own.new_zeros(*own.shape[:axis], module.num_stacks, *own.shape[axis + 1 :])
            module._mine(name, whole).copy_(own)
            dist.all_reduce(whole, group=module.group)  # the others' places hold zeros
            own = whole
        state[prefix + name] = own


def _cut(module: ParallelStacks, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    """Put this rank's part of a plain layer's parameters into a state that is being loaded."""
    *_, errors = rest
    for key in [key for key in state if key.startswith(prefix)]:
        name, whole = key.removeprefix(prefix), state.pop(key)
        if not isinstance(whole, Tensor):
            errors.append(f"{key} must be a tensor, got {shown(whole)}.")
        elif name in AXES and whole.shape[AXES[name] : AXES[name] + 1] != (module.num_stacks,):
            errors.append(f"{key} of shape {tuple(whole.shape)} does not hold {module.num_stacks} stacks.")
        else:
            state[f"{prefix}local.{name}"] = module._mine(name, whole) if name in AXES else whole


# ------------------------------------------------------------------------------------------------- the stacks of a rank


class Share(ARMAConv):
    """An `ARMAConv` whose stacks are number ``first`` and following of ``total``; `ParallelStacks` makes it.

    A layer numbers the entries of X V over all stacks to decide which of them to drop. The kernels would number those
    of a share by themselves, so where it drops it takes the recursion step by step, with masks from `keep_columns`.
    """

    first: int
    total: int

    def forward(self, x: Tensor | CSR, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """Return the mean of these stacks, shape (..., N, F_out)."""
        if not self.training or not float(self.dropout) or self.fixed_point is not None:
            return super().forward(x, edge_index, edge_weight)
        x, op = self._checked(x, edge_index, edge_weight)
        features = self._folded(x)
        stacked = self._recursion(x, features, op).run(op, features)
        return self._signals(kernels.stack_mean(stacked).unsqueeze(1), x.shape).squeeze(0)

    def _propagates_first(self, features: Tensor | CSR, stacks: int | None = None) -> bool:
        """Go the way of the whole layer on every rank: under autocast the type of the output depends on it."""
        return super()._propagates_first(features, self.total)

    def _recursion(self, x: Tensor | CSR, features: Tensor | CSR, op: GraphOperator) -> Recursion:
        plain = super()._recursion(x, features, op)
        if plain.seed is None:
            return plain
        p, width = float(self.dropout), self.out_channels
        columns = slice(self.first * width, (self.first + self.num_stacks) * width)
        rows, first = features.shape[0], 0
        if isinstance(op, PartitionedOperator) and op.num_nodes:  # the rows of this rank's nodes
            first = op.first_node * (rows // op.num_nodes)
        shape = (rows, self.total * width)
        keep = partial(keep_columns, plain.seed, p, shape=shape, columns=columns, first_row=first)
        return _Masked(plain.settings, plain.weights, None, plain.activation, keep, p, self.fixed_point is not None)


@dataclass(frozen=True)
class _Masked(Recursion):
    """The steps of the stacks with given masks; the ``seed`` is None.

    Attributes:
        keep: gives the mask of a step.
        p: the probability with which it drops.
        once: whether one mask serves all steps, as in a solve for a fixed point.
    """

    keep: Callable[..., Tensor]
    p: float
    once: bool

    def _dropped(self, t: int, skip: Tensor) -> Tensor:
        return torch.where(self.keep(step=t), skip * (1.0 / (1.0 - self.p)), skip.new_zeros(()))

    def skip(self, t: int, features: Tensor | CSR) -> Tensor:
        skip = super().skip(t, features)
        return self._dropped(0, skip) if self.once else skip

    def first(self, op: GraphOperator, features: Tensor | CSR, skip: Tensor) -> Tensor:
        dropped = self._dropped(0, skip)
        if self.settings.init == "tied":  # X(0) = X V, of which nothing is dropped
            return self._step(0, op, skip, dropped)
        return super().first(op, features, dropped)

    def next(self, t: int, op: GraphOperator, state: Tensor, skip: Tensor) -> Tensor:
        return super().next(t, op, state, self._dropped(t, skip))
