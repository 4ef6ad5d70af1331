"""Medians, best deciles, bootstrap bounds and geometric means."""
import math
import typing

import numpy as np

RESAMPLES = 2000
COMPARED = 1 << 18  # elements at a time: what they become in f64 stays in a cache


class Tolerance(typing.NamedTuple):
    """How far an engine may be from the reference: twice as far as `peer`, or as the nearest peer where that is None or
    not there, but `low` at least and `high` at most; `peer` itself `high`. In parts of the largest value."""
    low: float
    high: float
    peer: str | None = None


def best_decile(values):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) // 10)]


def median_bounds(values, seed=0):
    """Median and its 95 % bounds: the 2.5 % and 97.5 % quantiles of the medians of 2,000 resamples of the rounds."""
    values = np.asarray(values)
    picks = np.random.default_rng(seed).integers(0, len(values), (RESAMPLES, len(values)))
    low, high = np.quantile(np.median(values[picks], axis=1), [0.025, 0.975])
    return {"median": float(np.median(values)), "low95": float(low), "high95": float(high)}


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def largest_difference(got, want):
    """max |got - want| over all outputs, each relative to its own max |want|; inf where shapes differ."""
    if len(got) != len(want):
        return float("inf")
    worst = 0.0
    for a, b in zip(got, want):
        if a.size != b.size or not np.isfinite(a).all():
            return float("inf")
        scale = float(np.abs(b).max(initial=0)) or 1.0
        a, b = a.ravel(), b.ravel()
        for k in range(0, a.size, COMPARED):
            part = slice(k, k + COMPARED)
            worst = max(worst, float(np.abs(a[part].astype(np.float64) - b[part]).max()) / scale)
    return worst
