"""NM-E, the paper's threshold optimizer: trade noise against truncation, privately."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from tidegate.errors import SettingError
from tidegate.guarantee import Guarantee
from tidegate.lattice import COARSE, IntArray, Lattice
from tidegate.noise import exponential_mechanism, float_laplace, permute_and_flip
from tidegate.randomness import Keystream
from tidegate.settings import Epsilon, Exact, OptionalExact, OptionalWhole, Spec, Whole

_MOST_CANDIDATES = 1 << 20
_HEADROOM = 1 << 62


@dataclass(frozen=True, kw_only=True, repr=False)
class NoisyMax(Spec):
    """θ with (nearly) the highest score −noise(θ) − #{held-out values above θ}, `eq:eme_q`.

    noise(θ) = 3mθ/(c·r·ε)·√(2(b−1)·log_b(r)³) estimates the stream's noise in the currency of
    truncated values. (The paper's Algorithm 1 counts values *below* θ, a slip that would invert
    it.)

    Guarantee: pure ε-DP. Released: θ. The score's data part counts values above θ: replacing a
    value moves every candidate's count by at most 1, and all in the same direction (up if the new
    value is larger, down if smaller), so scores are monotone with sensitivity 1 and all
    selections cost ε instead of 2ε: permute-and-flip with acceptance e^(−ε·(best − score)), the
    exponential mechanism with weights e^(ε·score), or Laplace(1/ε) noisy max. The noise part is
    public; its irrational constant is rounded to a public fraction.

    Args:
        epsilon: the budget of the choice.
        bound: public upper bound of a value.
        holdout: how many values to spend on the choice (the paper's m).
        stream_epsilon: the budget of the stream that follows. None: the same.
        horizon, fanout: of the perturber that follows (the paper's r, b).
        scale: the paper's c = 60, in units of the data: the rule is *not* scale-invariant.
        step: distance between candidates, in grains. None: 1, or more for huge bounds.
        selection: "permute-and-flip" or "exponential" (both exact), or "laplace" as in the paper
            (float arithmetic).
    """

    KIND: ClassVar[str] = "threshold.NoisyMax"
    steps: ClassVar[int] = COARSE  # of a default resolution: every grain is a candidate

    epsilon: Epsilon = Epsilon()
    bound: Exact = Exact()
    holdout: Whole = Whole(minimum=1, default=65_536)
    stream_epsilon: OptionalExact = OptionalExact(default=None)
    horizon: Whole = Whole(minimum=1, default=2**20)
    fanout: Whole = Whole(minimum=2, default=16)
    scale: Exact = Exact(default=60)
    step: OptionalWhole = OptionalWhole(minimum=1)
    selection: Literal["permute-and-flip", "exponential", "laplace"] = "permute-and-flip"

    def __post_init__(self) -> None:
        if self.selection not in ("permute-and-flip", "exponential", "laplace"):
            raise SettingError(
                "selection", 'must be "permute-and-flip", "exponential" or "laplace"'
            )

    @property
    def guarantee(self) -> Guarantee:
        """ε-DP for the held-out values; no other value is read."""
        arithmetic = "float" if self.selection == "laplace" else "exact"
        return Guarantee(epsilon=self.epsilon, arithmetic=arithmetic)

    def ceiling(self, lattice: Lattice) -> int:
        """The bound; refuses a grid that would not fit into memory, and scores beyond 64 bits."""
        count = lattice.grains // (self.step or lattice.grains)
        if count > 16 * _MOST_CANDIDATES:
            raise SettingError("step", f"gives {count} candidates: choose a larger one")
        self._denominator(lattice)
        return lattice.top

    def candidates(self, lattice: Lattice) -> IntArray:
        """The thresholds to choose from, in lattice units; the bound is always one."""
        found: IntArray = np.minimum(self._ladder(lattice) * lattice.grain, lattice.top)
        return found

    def _ladder(self, lattice: Lattice) -> IntArray:
        """The candidates in grains."""
        top = lattice.grains
        step = self.step or -(-top // _MOST_CANDIDATES)
        grid = np.arange(step, top + 1, step, dtype=np.int64)
        return grid if grid.size and grid[-1] == top else np.append(grid, top)

    def penalty(self) -> float:
        """noise(θ)/θ: how many held-out values one unit of θ (in the data's unit) is worth."""
        height = max(1.0, math.log(self.horizon, self.fanout))
        stream_epsilon = float(self.stream_epsilon or self.epsilon)
        spread = math.sqrt(2 * (self.fanout - 1) * height**3)
        return 3 * self.holdout / (float(self.scale) * self.horizon * stream_epsilon) * spread

    def scores(self, values: IntArray, lattice: Lattice) -> tuple[IntArray, IntArray, int]:
        """Candidates, their integer scores, and the common denominator of the scores."""
        grid = self.candidates(lattice)
        denominator = self._denominator(lattice)
        penalty = round(self._penalty_of_grain(lattice) * denominator)
        above = values.size - np.searchsorted(np.sort(values), grid, side="right")
        return grid, -(penalty * self._ladder(lattice) + denominator * above), denominator

    def _penalty_of_grain(self, lattice: Lattice) -> float:
        return self.penalty() * (lattice.step * lattice.grain)

    def _denominator(self, lattice: Lattice) -> int:
        """The finest common denominator with which every score fits 64 bits."""
        penalty = self._penalty_of_grain(lattice)
        denominator = 1 << 40
        while (
            penalty * denominator + 1
        ) * lattice.grains + self.holdout * denominator >= _HEADROOM:
            if denominator == 1:
                raise SettingError("bound", "is too large for the scores of this stage")
            denominator >>= 1
        return denominator

    def choose(self, values: IntArray, lattice: Lattice, keystream: Keystream) -> int:
        """θ in lattice units."""
        grid, scores, denominator = self.scores(values, lattice)
        words = keystream.at()
        if self.selection == "permute-and-flip":
            best = permute_and_flip(words, scores, self.epsilon / denominator)
        elif self.selection == "exponential":
            best = exponential_mechanism(words, scores, self.epsilon / denominator)
        else:
            noise = float_laplace(words, scores.size, 1 / float(self.epsilon))
            best = int(np.argmax(scores / denominator + noise))
        return int(grid[best])
