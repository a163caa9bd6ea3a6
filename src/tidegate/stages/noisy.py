"""`Noisy`, the privacy barrier between the stages, and what is public about the noise in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from tidegate.lattice import FloatArray, IntArray

NO_SUMS: IntArray = np.empty(0, dtype=np.int64)  # no leaf was completed


class Filtered(NamedTuple):
    """The output of a perturber's own filter on released numbers: public, as they are.

    A filter of the estimator that is in the same state, of the same kind, would find the same: it
    need not run again.

    Attributes:
        before, after: the whole state of the filter.
        means: the posterior mean after each measured number.
    """

    before: tuple[float, ...]
    after: tuple[float, ...]
    means: FloatArray


@dataclass(frozen=True)
class Noisy:
    """Leaf sums with their noise, in lattice units. Only perturbers make these.

    Everything derived from a `Noisy` is post-processing and costs no privacy.

    Attributes:
        sums: one number a leaf.
        spans: how many values each leaf has, where the method decides it (`Perturber.irregular`);
            None: the layout says it.
        marks: one public integer a leaf, if the method has something to say about it: the scale of
            its noise, 0 for a span that was not measured, a group; None: nothing.
        filtered: for speed alone: computed from the others.
    """

    sums: IntArray
    spans: IntArray | None = None
    marks: IntArray | None = None
    filtered: Filtered | None = None


class NoiseLaw(Protocol):
    """What is publicly known about a perturber's noise: its identity and its second moments."""

    @property
    def identity(self) -> str:
        """The facts that determine the noise, as a text that no renaming changes."""
        ...

    @property
    def largest_variance(self) -> float:
        """Variance of the noisiest single draw, in units²."""
        ...

    def range_variance(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """Exact variance of the noise in the sum of leaves [start, end), in units²."""
        ...
