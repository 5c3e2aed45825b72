"""The registered operators as functions of named inputs, each with its dense truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from armagnn import kernels
from armagnn.kernels import ACTIVATIONS
from armagnn.randomness import keep_mask
from oracles import numbers, sparse

Inputs = dict[str, Tensor]


A = sparse(5, 4, density=0.6, seed=1)


ROWPTR, COL, VALUE, T_ROWPTR, T_COL, _, PERM, INVERSE = A.arguments()


assert not torch.equal(PERM, INVERSE)  # a permutation that is its own inverse would hide mistakes


ROW = torch.from_numpy(A.row)


SYMMETRIC = torch.tensor([[0.0, 0.5, 0.0], [0.5, 0.0, -1.5], [0.0, -1.5, 2.0]], dtype=torch.float64)


ITSELF = (torch.tensor([0, 1, 3, 5]), torch.tensor([1, 0, 2, 1, 2]), SYMMETRIC[SYMMETRIC != 0])


SEED, P, STEP, SLOPE = torch.tensor([17]), 0.4, 3, 0.3


TORCH_ACTIVATION: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda z: z,
    "relu": torch.relu,
    "leaky_relu": lambda z: torch.nn.functional.leaky_relu(z, SLOPE),
    "elu": lambda z: torch.nn.functional.elu(z, SLOPE),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}


def learned(value: Tensor) -> tuple[Tensor, ...]:
    return ROWPTR, COL, value, T_ROWPTR, T_COL, value.index_select(0, PERM), PERM, INVERSE


def dense(value: Tensor) -> Tensor:
    return torch.zeros(A.shape, dtype=value.dtype).index_put((ROW, COL.long()), value)


def dropped(x: Tensor) -> Tensor:
    return x * keep_mask(SEED, P, STEP, x.shape) / (1 - P)


@dataclass(frozen=True)
class Case:
    """One operator: its differentiable inputs, how it is called with them, and the dense truth."""

    name: str
    inputs: Inputs
    arguments: Callable[[Inputs], tuple[Any, ...]]
    truth: Callable[[Inputs], Tensor]

    @property
    def operator(self) -> str:
        return self.name.split()[0]

    def eager(self, **inputs: Tensor) -> Tensor:
        """As the package calls it: an autograd function."""
        out: Tensor = getattr(kernels, self.operator)(*self.arguments(inputs))
        return out

    def registered(self, **inputs: Tensor) -> Tensor:
        """As the compiler calls it: an operator of torch.library."""
        out: Tensor = getattr(torch.ops.armagnn, self.operator)(*self.arguments(inputs))
        return out

    def leaves(self) -> Inputs:
        return {name: tensor.clone().requires_grad_() for name, tensor in self.inputs.items()}


def step_case(act: str, variant: str) -> Case:
    inputs = {"value": VALUE, "x": numbers(4, 2, seed=1)}
    inputs |= {"skip": numbers(5, 2, seed=2)} if "skip" in variant else {}
    inputs |= {"bias": numbers(2, seed=3)} if "bias" in variant else {}
    seed = SEED if "dropout" in variant else None

    def arguments(i: Inputs) -> tuple[Any, ...]:
        return *learned(i["value"]), i["x"], i.get("skip"), i.get("bias"), seed, P, STEP, act, SLOPE

    def truth(i: Inputs) -> Tensor:
        z = dense(i["value"]) @ i["x"]
        if "skip" in i:
            z = z + (i["skip"] if seed is None else dropped(i["skip"]))
        return TORCH_ACTIVATION[act](z + i["bias"] if "bias" in i else z)

    return Case(f"gcs {act} {variant}", inputs, arguments, truth)


SPMM = Case(
    "spmm",
    {"value": VALUE, "x": numbers(4, 3, seed=1)},
    lambda i: (*learned(i["value"]), i["x"]),
    lambda i: dense(i["value"]) @ i["x"],
)


FIXED = Case(  # fixed symmetric values: the matrix is its own transpose and there is no permutation
    "spmm symmetric",
    {"x": numbers(3, 4, seed=1)},
    lambda i: (*ITSELF, *ITSELF, None, None, i["x"]),
    lambda i: SYMMETRIC @ i["x"],
)


SDDMM = Case(
    "sddmm",
    {"a": numbers(5, 3, seed=1), "b": numbers(4, 3, seed=2)},
    lambda i: (ROWPTR, COL, T_ROWPTR, T_COL, PERM, INVERSE, i["a"], i["b"]),
    lambda i: (i["a"] @ i["b"].T)[ROW, COL.long()],
)


DROPOUT = Case("dropout", {"x": numbers(3, 5, seed=1)}, lambda i: (i["x"], SEED, P, STEP), lambda i: dropped(i["x"]))


STACKS = Case(
    "stack_matmul",
    {"h": numbers(4, 3, 2, seed=1), "w": numbers(3, 2, 5, seed=2)},
    lambda i: (i["h"], i["w"]),
    lambda i: torch.einsum("mkf,kfg->mkg", i["h"], i["w"]),
)


FEW = [SPMM, FIXED, SDDMM, DROPOUT, STACKS, step_case("relu", "skip+bias"), step_case("tanh", "skip+bias+dropout")]


few_cases = pytest.mark.parametrize("case", FEW, ids=lambda case: case.name.replace(" ", "-"))


VARIANTS = ("plain", "skip", "bias", "skip+bias", "skip+bias+dropout")
STEPS = [step_case(act, variant) for act in ACTIVATIONS for variant in VARIANTS]
ALL = [*FEW[:5], *STEPS]
all_cases = pytest.mark.parametrize("case", ALL, ids=lambda case: case.name.replace(" ", "-"))
