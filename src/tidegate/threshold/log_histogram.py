"""Approximate bounds: the highest well-filled bin of a histogram of logarithms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from tidegate.lattice import IntArray, Lattice
from tidegate.noise import discrete_laplace
from tidegate.randomness import Keystream
from tidegate.settings import Delta, Epsilon, Exact, Spec, Whole
from tidegate.threshold.growing_candidates import OverGrowingCandidates, growing_candidates


@dataclass(frozen=True, kw_only=True, repr=False)
class LogHistogram(OverGrowingCandidates, Spec):
    """The upper end of the highest bin with more values than noise would put there.

    Bins end at 1, `ratio`, `ratio`², … steps. A bin counts if its noisy count exceeds t, which with
    probability 1 − `failure` no empty bin does. If none counts, the fullest bin is taken (with the
    noise). Bounds in libraries of differential privacy are found like this (Wilson et al.,
    *Differentially Private SQL with Bounded User Contribution*, PoPETs 2020).

    Guarantee: pure ε-DP, exact. Released: all noisy counts, of which θ is a function. Replacing one
    value takes 1 from one bin and adds 1 to another: sensitivity 2, and the noise is discrete
    Laplace of scale 2/ε. The limit t = ⌈(2/ε)·ln(bins/(2·failure))⌉ is public; that it is computed
    in floats matters to accuracy alone.

    Args:
        epsilon: the budget of the choice.
        bound: public upper bound of a value; may be far too large.
        holdout: how many values to spend on the choice.
        ratio: of the end of a bin to that of the one before.
        failure: how likely an empty bin is to count.
    """

    KIND: ClassVar[str] = "threshold.LogHistogram"

    epsilon: Epsilon = Epsilon()
    bound: Exact = Exact()
    holdout: Whole = Whole(minimum=1, default=65_536)
    ratio: Exact = Exact(default=2)
    failure: Delta = Delta(default="1e-9")

    def limit(self, bins: int) -> int:
        """t: a bin counts as filled if its noisy count exceeds this."""
        return math.ceil(2 / float(self.epsilon) * math.log(bins / (2 * float(self.failure))))

    def choose(self, values: IntArray, lattice: Lattice, keystream: Keystream) -> int:
        """θ in lattice units."""
        ends = growing_candidates(lattice.top, self.ratio)
        bins = np.searchsorted(ends, values, side="left")  # a bin holds its upper end
        noise = discrete_laplace(keystream.at(), ends.size, Fraction(2) / self.epsilon)
        noisy = np.bincount(bins, minlength=ends.size) + noise
        filled = np.flatnonzero(noisy > self.limit(ends.size))
        return int(ends[filled[-1] if filled.size else noisy.argmax()])
