"""What curves of several seeds say: whether two programs learn alike, as far as chance lets one tell."""
from itertools import combinations

import numpy as np

WINDOW = 20  # steps that a smoothed loss is the mean of
SIGMAS = 3
FOLLOWS = 1e-3  # of the mean loss: a difference that is below it is that of rounding


def smoothed(losses, window=WINDOW):
    """Means of windows that follow each other, without steps that were left out: their loss is no number."""
    losses = np.asarray(losses, np.float64)
    return np.array([np.nanmean(part) for part in np.array_split(losses, max(1, len(losses) // window))])


def distance(one, other):
    """Of two smoothed curves: the mean of their absolute differences."""
    return float(np.abs(one - other).mean())


def compare(ours, theirs):
    """`ours`, `theirs`: curves of the same seeds, two at least; those of a seed begin with equal weights and see equal
    batches. They are alike where

    - within: the two curves of each seed are no further apart than two seeds of the peer are on average, and
    - follows: the mean over seeds and windows of ours less theirs is within three standard errors of 0, by the seeds'
      own means, or below a thousandth of the mean loss."""
    a, b = ([smoothed(c) for c in curves] for curves in (ours, theirs))
    apart = [distance(x, y) for x, y in zip(a, b)]
    spread = float(np.mean([distance(x, y) for x, y in combinations(b, 2)]))
    by_seed = (np.array(a) - np.array(b)).mean(1)
    bias, error = float(by_seed.mean()), float(by_seed.std(ddof=1) / np.sqrt(len(a)))
    follows = abs(bias) <= max(SIGMAS * error, FOLLOWS * float(np.mean(b)))
    return {"apart": apart, "spread": spread, "within": max(apart) <= spread, "bias": bias, "bias_error": error,
            "follows": follows, "alike": max(apart) <= spread and follows}
