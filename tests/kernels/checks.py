"""The checks that every back end inherits: it supplies its module, the truth is dense and in float64."""

from __future__ import annotations

from types import ModuleType
from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from oracles import ACTIVATION, Sparse, assert_near, numbers, sparse

DTYPES = (torch.float32, torch.float64, torch.bfloat16)
INDICES = (torch.int32, torch.int64)
FUSED = ("none", "relu", "leaky_relu")
P = (0.0, 0.1, 0.5, 0.9, 1 - 1e-12)

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d).removeprefix("torch."))
indices = pytest.mark.parametrize("index", INDICES, ids=lambda d: str(d).removeprefix("torch."))


def gcs_truth(a: Sparse, x: Tensor, skip: Tensor | None, bias: Tensor | None, act: str, slope: float) -> Tensor:
    z = a.dense() @ x.double().numpy()
    z = z if skip is None else z + skip.double().numpy()
    z = z if bias is None else z + bias.double().numpy()
    return torch.from_numpy(ACTIVATION[act](z, slope))


@st.composite
def entries(draw: st.DrawFn) -> tuple[int, int, list[tuple[int, int]]]:
    rows, cols = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    place = st.tuples(st.integers(0, rows - 1), st.integers(0, cols - 1))
    return rows, cols, draw(st.lists(place, max_size=30))


class KernelChecks:
    kernels: ClassVar[ModuleType]

    # ------------------------------------------------------------------------------------------------------------ gcs

    @dtypes
    @indices
    def test_product_of_every_width_is_exact(self, dtype: torch.dtype, index: torch.dtype) -> None:
        """Whole numbers leave no room for rounding: every width, and with it every way to cut it into blocks."""
        a = sparse(13, 9, dtype=dtype, index=index, whole=True)
        x = numbers(9, 130, dtype=dtype, whole=True)
        truth = torch.from_numpy(a.dense() @ x.double().numpy())
        for width in range(131):
            out = self.kernels.gcs(a.rowptr, a.col, a.value, x[:, :width].contiguous(), None, None, "none", 0.0)
            assert out.dtype == dtype
            assert torch.equal(out.double(), truth[:, :width]), width

    @dtypes
    @pytest.mark.parametrize("act", FUSED)
    @pytest.mark.parametrize("with_skip", [False, True])
    @pytest.mark.parametrize("with_bias", [False, True])
    def test_step(self, dtype: torch.dtype, act: str, with_skip: bool, with_bias: bool) -> None:
        a = sparse(11, 7, dtype=dtype)
        for width in (1, 3, 50, 64, 67):
            x = numbers(7, width, seed=1, dtype=dtype)
            skip = numbers(11, width, seed=2, dtype=dtype) if with_skip else None
            bias = numbers(width, seed=3, dtype=dtype) if with_bias else None
            out = self.kernels.gcs(a.rowptr, a.col, a.value, x, skip, bias, act, 0.2)
            assert out.dtype == dtype
            assert out.shape == (11, width)
            assert_near(out, gcs_truth(a, x, skip, bias, act, 0.2))

    @dtypes
    @pytest.mark.parametrize("act", ["relu", "tanh"])
    def test_step_that_may_write_over_its_skip_connection(self, dtype: torch.dtype, act: str) -> None:
        """Wherever it writes, also where blocks of columns overlap, the answer is the one without."""
        a = sparse(11, 7, dtype=dtype)
        for width in (1, 5, 32, 50, 64, 67, 128, 140):
            x, skip = numbers(7, width, seed=1, dtype=dtype), numbers(11, width, seed=2, dtype=dtype)
            bias = numbers(width, seed=3, dtype=dtype)
            plain = self.kernels.gcs(a.rowptr, a.col, a.value, x, skip, bias, act, 0.0)
            given = skip.clone()
            over = self.kernels.gcs(a.rowptr, a.col, a.value, x, given, bias, act, 0.0, None, 0.0, 0, given)
            assert torch.equal(over, plain), width

    @pytest.mark.parametrize(("rows", "cols"), [(1, 1), (5, 5), (4, 0), (0, 4), (0, 0)])
    def test_matrix_without_entries(self, rows: int, cols: int) -> None:
        a = sparse(rows, cols, density=0.0)
        bias = numbers(3)
        out = self.kernels.gcs(a.rowptr, a.col, a.value, numbers(cols, 3), None, bias, "relu", 0.0)
        assert torch.equal(out, bias.relu().expand(rows, 3))
        assert self.kernels.sddmm(a.rowptr, a.col, numbers(rows, 3), numbers(cols, 3)).shape == (0,)

    def test_no_columns(self) -> None:
        a = sparse(4, 4)
        skip = torch.empty(4, 0, dtype=torch.float64)
        assert self.kernels.gcs(a.rowptr, a.col, a.value, skip, skip, skip[0], "relu", 0.0).shape == (4, 0)
        out = self.kernels.sddmm(a.rowptr, a.col, skip, skip)
        assert torch.equal(out, torch.zeros(a.col.numel(), dtype=torch.float64))  # an empty sum

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("act", FUSED)
    def test_not_finite_numbers_propagate_as_in_torch(self, act: str, dtype: torch.dtype) -> None:
        """One nonzero a row, so that the sum is the number itself; then what torch's own activation makes of it."""
        inf, nan = float("inf"), float("nan")
        column = torch.tensor([nan, inf, -inf, 0.0, -0.0, 1.0, -1.0], dtype=dtype)
        n = column.numel()
        x = column.repeat_interleave(5).view(n, 5)
        out = self.kernels.gcs(
            torch.arange(n + 1, dtype=torch.int32), torch.arange(n, dtype=torch.int32), torch.ones(n, dtype=dtype), x,
            None, None, act, 0.1,
        )  # fmt: skip
        expected = {"none": x, "relu": x.relu(), "leaky_relu": torch.nn.functional.leaky_relu(x, 0.1)}[act]
        assert torch.equal(out.isnan(), expected.isnan())
        assert torch.equal(out.nan_to_num(7.0), expected.nan_to_num(7.0))

    def test_rows_do_not_see_what_they_do_not_receive(self) -> None:
        """An infinite feature touches its neighbours only: no zero times infinity elsewhere."""
        a = sparse(8, 8, seed=1)
        x = numbers(8, 20)
        x[2] = float("inf")
        out = self.kernels.gcs(a.rowptr, a.col, a.value, x, None, None, "none", 0.0)
        receives = torch.from_numpy(a.dense()[:, 2] != 0)
        assert receives.any()
        assert not receives.all()
        assert out[receives].isinf().all()
        assert out[~receives].isfinite().all()

    # ---------------------------------------------------------------------------------------------------------- sddmm

    @dtypes
    @indices
    def test_sddmm_of_every_width_is_exact(self, dtype: torch.dtype, index: torch.dtype) -> None:
        a = sparse(13, 9, index=index)
        left, right = numbers(13, 28, seed=1, dtype=dtype, whole=True), numbers(9, 28, seed=2, dtype=dtype, whole=True)
        for width in range(1, 29):
            truth = (left[:, :width].double() @ right[:, :width].double().T)[a.row, a.col.long()]
            out = self.kernels.sddmm(a.rowptr, a.col, left[:, :width].contiguous(), right[:, :width].contiguous())
            assert out.dtype == dtype
            assert torch.equal(out.double(), truth), width

    @dtypes
    def test_sddmm(self, dtype: torch.dtype) -> None:
        a = sparse(13, 9)
        left, right = numbers(13, 100, seed=1, dtype=dtype), numbers(9, 100, seed=2, dtype=dtype)
        truth = (left.double() @ right.double().T)[a.row, a.col.long()]
        assert_near(self.kernels.sddmm(a.rowptr, a.col, left, right), truth)

    # -------------------------------------------------------------------------------------------------------- patterns

    @indices
    @given(entries())
    def test_sort_coo(self, index: torch.dtype, case: tuple[int, int, list[tuple[int, int]]]) -> None:
        """By row, then column, then position: numpy's stable sort of the pairs, to the last entry."""
        rows, cols, places = case
        row, col = np.array(places, dtype=np.int64).reshape(-1, 2).T
        given_row, given_col = torch.from_numpy(row).to(index), torch.from_numpy(col).to(index)
        rowptr, perm = self.kernels.sort_coo(given_row, given_col, rows, cols)
        assert rowptr.dtype == perm.dtype == index
        assert perm.tolist() == np.lexsort((col, row)).tolist()
        assert rowptr.tolist() == [int((row < i).sum()) for i in range(rows + 1)]

    @indices
    @given(st.integers(1, 7), st.integers(1, 7), st.floats(0, 1), st.integers(0, 99))
    def test_transpose(self, index: torch.dtype, rows: int, cols: int, density: float, seed: int) -> None:
        a = sparse(rows, cols, density, seed, index=index)
        rowptr, col, perm = self.kernels.transpose(a.rowptr, a.col, cols)
        assert rowptr.dtype == col.dtype == perm.dtype == index
        assert np.array_equal(Sparse(rowptr, col, a.value[perm.long()], (cols, rows)).dense(), a.dense().T)
        inside = np.diff(col.numpy())[np.diff(np.repeat(np.arange(cols), np.diff(rowptr.numpy()))) == 0]
        assert (inside > 0).all()  # ascending within a row: the canonical order

    # --------------------------------------------------------------------------------------------------------- dropout

    @dtypes
    @pytest.mark.parametrize("p", P)
    def test_dropout_keeps_or_drops_and_scales(self, dtype: torch.dtype, p: float) -> None:
        x = numbers(64, 33, dtype=dtype).abs() + 1
        out = self.kernels.dropout(x, torch.tensor([11]), p, 3)
        assert out.dtype == dtype
        kept = out != 0
        scaled = (x.double() * (1 / (1 - p))).to(dtype)
        torch.testing.assert_close(out[kept], scaled[kept], rtol=torch.finfo(dtype).eps, atol=0)
        deviation = (p * (1 - p) / x.numel()) ** 0.5
        assert abs(float(kept.double().mean()) - (1 - p)) <= 5 * deviation

    def test_dropout_of_a_strided_tensor_follows_its_shape(self) -> None:
        x = numbers(6, 5)
        seed = torch.tensor([5])
        strided, plain = (self.kernels.dropout(y, seed, 0.5, 0) for y in (x.T, x.T.contiguous()))
        assert torch.equal(strided, plain)

    # ---------------------------------------------------------------------------------------------------------- trials

    @dtypes
    @pytest.mark.parametrize("shape", [(5, 3, 4), (7, 3, 5), (2, 3, 1), (1, 3, 1026), (300, 3, 7), (64, 1, 9)])
    def test_each_trial_drops_what_it_would_drop_alone(self, shape: tuple[int, int, int], dtype: torch.dtype) -> None:
        trials = shape[1]
        x, seed = numbers(*shape, dtype=dtype) + 3, torch.tensor([5, -(2**63), 2**62 - 1])[:trials]
        rates = torch.tensor([0.3, 0.0, 0.75], dtype=torch.float64)[:trials]
        out = self.kernels.dropout_trials(x, seed, rates, 2)
        assert out.dtype == dtype
        assert out.shape == shape
        for r in range(trials):
            alone = self.kernels.dropout(x[:, r].contiguous(), seed[r : r + 1], rates[r].item(), 2)
            assert torch.equal(out[:, r], alone), r
        assert trials == 1 or torch.equal(out[:, 1], x[:, 1])  # a rate of zero drops nothing
        if x.numel() > 100:
            assert (out[:, 0] == 0).any()
            assert not torch.equal(self.kernels.dropout_trials(x, seed, rates, 3), out)  # another step, another mask

    @pytest.mark.parametrize("shape", [(0, 3, 4), (4, 0, 3), (4, 3, 0)])
    def test_dropout_of_no_entries(self, shape: tuple[int, int, int]) -> None:
        trials = shape[1]
        rates = torch.full((trials,), 0.5, dtype=torch.float64)
        assert self.kernels.dropout_trials(torch.empty(shape), torch.arange(trials), rates, 0).shape == shape

    @dtypes
    def test_dropout_of_trials_in_place_and_strided(self, dtype: torch.dtype) -> None:
        x = numbers(9, 3, 5, dtype=dtype)
        fixed = (torch.tensor([1, 2, 3]), torch.tensor([0.5, 0.2, 0.9], dtype=torch.float64), 1)
        truth = self.kernels.dropout_trials(x, *fixed)
        strided = x.transpose(0, 1).contiguous().transpose(0, 1)
        assert torch.equal(self.kernels.dropout_trials(strided, *fixed), truth)
        given = x.clone()
        out = self.kernels.dropout_trials(given, *fixed, given)
        assert out.data_ptr() == given.data_ptr()
        assert torch.equal(given, truth)
        assert not torch.equal(truth, x)

    @dtypes
    @pytest.mark.parametrize("trials", [1, 3])
    def test_products_with_values_of_each_trial(self, trials: int, dtype: torch.dtype) -> None:
        a = sparse(11, 7, dtype=dtype)
        values = numbers(trials, a.value.numel(), seed=5, dtype=dtype)
        for width in (1, 5, 20, 32):
            x, skip = (numbers(n, trials * width, seed=n, dtype=dtype) for n in (7, 11))
            bias = numbers(trials * width, seed=3, dtype=dtype)
            plain = self.kernels.gcs(a.rowptr, a.col, values, x, None, None, "none", 0.0)
            step = self.kernels.gcs(a.rowptr, a.col, values, x, skip, bias, "leaky_relu", 0.2)
            assert plain.dtype == step.dtype == dtype
            for r in range(trials):
                own, of_trial = slice(r * width, (r + 1) * width), Sparse(a.rowptr, a.col, values[r], a.shape)
                assert_near(plain[:, own], gcs_truth(of_trial, x[:, own], None, None, "none", 0.0))
                assert_near(step[:, own], gcs_truth(of_trial, x[:, own], skip[:, own], bias[own], "leaky_relu", 0.2))

    @dtypes
    @pytest.mark.parametrize("trials", [1, 3])
    @pytest.mark.parametrize("turned", [True, False])
    def test_a_product_without_what_was_dropped(self, trials: int, turned: bool, dtype: torch.dtype) -> None:
        a = sparse(11, 7, dtype=dtype)
        perm = torch.randperm(a.value.numel(), generator=torch.Generator().manual_seed(1)).to(a.col.dtype)
        values = numbers(trials, a.value.numel(), seed=5, dtype=dtype)
        values *= numbers(trials, a.value.numel(), seed=6, dtype=dtype) > 0
        values[0, 0], values[-1] = torch.nan, 0 if trials > 1 else values[-1]
        x, own = numbers(7, trials * 5, seed=2, dtype=dtype), values[:, perm.long()] if turned else values
        found = self.kernels.gcs(
            *self.kernels.nonzeros(a.rowptr, a.col, values, perm if turned else None), x, None, None, "none", 0.0
        )
        for r in range(trials):
            part, of_trial = x[:, 5 * r : 5 * r + 5], Sparse(a.rowptr, a.col, own[r], a.shape)
            truth = gcs_truth(of_trial, part, None, None, "none", 0.0)
            lost = truth.isnan()
            assert torch.equal(found[:, 5 * r : 5 * r + 5].isnan().cpu(), lost.cpu())
            assert_near(found[:, 5 * r : 5 * r + 5].nan_to_num(), truth.nan_to_num())

    @pytest.mark.parametrize(
        ("h", "w"), [((5, 4, 30), (4, 3, 2)), ((5, 4, 3), (4, 30, 2)), ((5, 4, 3), (7, 3, 2)), ((5, 7, 3), (4, 3, 2))]
    )
    def test_products_of_matrices_that_do_not_fit(self, h: tuple[int, ...], w: tuple[int, ...]) -> None:
        with pytest.raises(RuntimeError):
            self.kernels.stack_matmul(numbers(*h), numbers(*w))
        with pytest.raises(RuntimeError):
            self.kernels.outer(numbers(*h), numbers(h[0] + 1, *h[1:]))
        with pytest.raises(RuntimeError):
            self.kernels.outer(numbers(*h), numbers(h[0], h[1] + 1, h[2]))

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("shape", [(1, 1, 1, 1), (300, 10, 16, 14), (37, 5, 14, 16), (9, 4, 33, 3), (5, 4, 70, 70)])
    def test_products_of_many_matrices(self, shape: tuple[int, int, int, int], dtype: torch.dtype) -> None:
        rows, stacks, width, columns = shape
        h, w = numbers(rows, stacks, width, dtype=dtype), numbers(stacks, columns, width, seed=1, dtype=dtype)
        g = numbers(rows, stacks, columns, seed=2, dtype=dtype)
        close = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 1e-12, "atol": 1e-12}
        truth = torch.einsum("mkf,kgf->mkg", h.double(), w.double()).to(dtype)
        torch.testing.assert_close(self.kernels.stack_matmul(h, w.transpose(1, 2)), truth, **close)
        outer = torch.einsum("mkf,mkg->kfg", h.double(), g.double()).to(dtype)
        torch.testing.assert_close(self.kernels.outer(h, g), outer, **close)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize(("shape", "axis"), [((3, 4, 5), 0), ((4, 3, 5), 1), ((2, 5, 3), 2), ((3,), 0)])
    def test_adam_of_each_trial_is_that_of_torch(self, shape: tuple[int, ...], axis: int, dtype: torch.dtype) -> None:
        lr, decay = (torch.tensor(v, dtype=torch.float64) for v in ([0.1, 0.01, 0.0], [0.0, 0.5, 0.1]))
        param = numbers(*shape, dtype=dtype)
        mean, square = torch.zeros_like(param), torch.zeros_like(param)
        leaves = [param.select(axis, r).clone().requires_grad_() for r in range(3)]
        truth = [torch.optim.Adam([leaf], lr[r].item(), weight_decay=decay[r].item()) for r, leaf in enumerate(leaves)]
        start = param.clone()
        for step in range(1, 5):
            grad = numbers(*shape, seed=step, dtype=dtype)
            kept = grad.clone()
            self.kernels.adam(
                param, grad, mean, square, lr, decay, torch.tensor(float(step), dtype=torch.float64), axis
            )
            assert torch.equal(grad, kept)
            for r, optimiser in enumerate(truth):
                leaves[r].grad = grad.select(axis, r).clone()
                optimiser.step()
                assert_near(param.select(axis, r), leaves[r])
        assert torch.equal(param.select(axis, 2), start.select(axis, 2))  # no learning rate, no step
        assert not torch.equal(param.select(axis, 0), start.select(axis, 0))
