"""Tests of whether learners differ, after Demšar: Statistical comparisons of classifiers over multiple data sets. JMLR
7, 2006; and after Nadeau and Bengio: Inference for the generalization error. Machine Learning 52, 2003. Statistics are
scipy's."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from riparian.models.contract import Floats

SAME = 1e-12  # differences that differ by less, relatively, are the same, but for rounding


class Friedman(NamedTuple):
    """Whether ranks differ more than by chance. chi_squared and its p are Friedman's, f and f_p those of Iman and
    Davenport, which are less conservative."""

    chi_squared: float
    p: float
    f: float
    f_p: float


class TTest(NamedTuple):
    """A paired t-test.

    mean : of the differences
    n : of them
    ratio : of the correction
    """

    mean: float
    t: float
    p: float
    n: int
    ratio: float


def ranks(values: Floats, greater: bool) -> Floats:
    """values : (data sets, models) -> (data sets, models), 1 for the best of a row; equal ones share their mean rank.

    greater : whether more is better.
    """
    found: Floats = stats.rankdata(-values if greater else values, axis=1)
    return found


def friedman(values: Floats) -> Friedman:
    """values : (N data sets, k models), N >= 2, k >= 3. Corrected for ties; p is 1 where all are always equal."""
    n, k = values.shape
    if (values == values[:, :1]).all():
        return Friedman(0.0, 1.0, 0.0, 1.0)
    chi_squared, p = stats.friedmanchisquare(*values.T)
    rest = n * (k - 1) - chi_squared
    f = (n - 1) * chi_squared / rest if rest > 1e-9 * n * k else math.inf
    return Friedman(float(chi_squared), float(p), float(f), float(stats.f.sf(f, k - 1, (k - 1) * (n - 1))))


def critical_difference(k: int, n: int, alpha: float) -> float:
    """Of the mean ranks of k models on n data sets (Nemenyi): two that differ by more are different with confidence
    1 - alpha, all pairs together."""
    return float(
        stats.studentized_range.ppf(1.0 - alpha, k, np.inf) / math.sqrt(2.0) * math.sqrt(k * (k + 1) / (6.0 * n))
    )


def wilcoxon(a: Floats, b: Floats) -> float:
    """Two-sided p of the signed ranks of a - b, (n,) each; differences of 0 count half to either side."""
    difference = a - b
    return float(stats.wilcoxon(difference, zero_method="zsplit").pvalue) if difference.any() else 1.0


def holm(p: Sequence[float]) -> list[float]:
    """p-values of a family of tests, corrected by Holm's step-down method, in their order."""
    adjusted, highest = [1.0] * len(p), 0.0
    for i, k in enumerate(sorted(range(len(p)), key=lambda k: p[k])):
        highest = max(highest, min(1.0, (len(p) - i) * p[k]))
        adjusted[k] = highest
    return adjusted


def corrected_t(differences: Sequence[float], ratio: float) -> TTest:
    """Paired t-test over n >= 2 resamples of one data set, whose training sets overlap: the variance of the mean is
    taken as (1 / n + ratio) times that of a difference.

    ratio : test rows for each training row, 1 / (k - 1) for k folds; 0 is the usual test, for independent samples.
    Where all differences are the same, as those of models that draw nothing are, t and p are NaN.
    """
    values = np.asarray(differences, dtype=np.float64)
    n, mean = len(values), float(values.mean())
    if float(np.ptp(values)) <= SAME * float(np.abs(values).max()):
        return TTest(mean, math.nan, math.nan, n, ratio)
    t = mean / math.sqrt((1.0 / n + ratio) * float(values.var(ddof=1)))
    return TTest(mean, t, float(2.0 * stats.t.sf(abs(t), n - 1)), n, ratio)
