"""Leads and their tests: of all runs, and fold by fold."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from armagnn_paper.summaries import Summary, against, corrected, fold_leads, welch


def test_welch() -> None:
    def summary(*values: float) -> Summary:
        return Summary(values, frozenset())

    assert welch(summary(1, 2, 3), summary(1, 2, 3)) == pytest.approx(1)
    assert welch(summary(1, 2, 3), summary(101, 102, 103)) < 1e-6
    assert math.isnan(welch(summary(1), summary(2, 3)))


def on_folds(*runs: tuple[int, float]) -> Summary:
    return Summary(tuple(value for _, value in runs), frozenset(), tuple(str(fold) for fold, _ in runs))


def test_the_corrected_test_is_the_paired_one_with_a_wider_variance() -> None:
    leads = [0.4, -0.2, 1.3, 0.8, 0.1, 0.9, -0.5, 0.7, 0.2, 0.6]
    plain = stats.ttest_1samp(leads, 0)
    assert corrected(leads, tests=0) == pytest.approx(plain.pvalue)
    # 1 / 10 becomes 1 / 10 + 1 / 9: t shrinks by the root of their ratio
    wanted = 2 * stats.t.sf(abs(plain.statistic) / math.sqrt((1 / 10 + 1 / 9) / (1 / 10)), 9)
    assert corrected(leads) == pytest.approx(wanted)
    assert corrected([-lead for lead in leads]) == pytest.approx(wanted)
    # two folds: one degree of freedom, where the distribution is Cauchy's
    assert corrected([1.0, 3.0]) == pytest.approx(1 - 2 / math.pi * math.atan(2 / math.sqrt((1 / 2 + 1 / 9) * 2)))
    assert math.isnan(corrected([1.0]))
    assert math.isnan(corrected([0.0, 0.0, 0.0]))


def test_seeds_of_a_fold_are_no_trials_of_their_own() -> None:
    few = on_folds((0, 80), (1, 90), (2, 70))
    many = on_folds(*[(fold, value + shift) for fold, value in enumerate((82, 91, 75)) for shift in (-1, 0, 1)])
    assert fold_leads(many, few) == (2, 1, 5)
    again = Summary(many.values * 10, many.devices, many.folds * 10)
    assert against(many, few, paired=True) == against(again, few, paired=True)
    assert against(many, few, paired=True) == f"+2.7 (p = {corrected([2, 1, 5]):.3f})"
    assert against(many, few) != against(again, few)


def test_only_folds_that_both_have_are_compared() -> None:
    ours, theirs = on_folds((0, 80), (1, 90), (2, 70)), on_folds((2, 60), (1, 81), (3, 99))
    assert fold_leads(ours, theirs) == (9, 10)
    assert against(ours, theirs, paired=True).startswith("+9.5 (p = ")
    assert against(ours, on_folds((7, 60)), paired=True) == ""
    assert against(ours, on_folds((0, 60)), paired=True) == "+20.0"
