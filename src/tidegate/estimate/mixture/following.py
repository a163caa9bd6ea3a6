"""The mixture for a release whose threshold changes: beliefs are rescaled, not restarted."""

from __future__ import annotations

import math

from tidegate.estimate.mixture.cap_steps import Ladder
from tidegate.estimate.mixture.kalman import LEVEL, Cell, mixed
from tidegate.estimate.mixture.leaf_noise import noise_path
from tidegate.estimate.mixture.run import MixtureRun
from tidegate.stages import Layout

# The level after a cap was full, in the new θ: the old one says little about it.
_NEW_MEAN, _NEW_VARIANCE = 0.2, 0.1


class FollowingRun(MixtureRun):
    """A `MixtureRun` that goes on in units of another θ, and takes the sum of a whole warm-up."""

    def rescale(self, threshold: int) -> None:
        """Go on in units of another θ: means by θ/θ′, covariances by its square, caps anew."""
        ratio = self._threshold / threshold
        table = self._beliefs.table
        table[:, :-1] *= ratio * ratio
        table[:, -1] *= ratio
        self._truncated = self._share * threshold
        self._threshold = threshold
        self._ladder = Ladder()
        self._give_up_block()

    def forget_level(self) -> None:
        """A cap was full: the level is a new one, of which little is known."""
        beliefs = self._beliefs
        beliefs.table[LEVEL] = 0.0
        beliefs.table[:, LEVEL] = 0.0
        beliefs.mean[LEVEL] = _NEW_MEAN
        beliefs.covariance[LEVEL, LEVEL] = _NEW_VARIANCE

    def at_once(self, layout: Layout, noisy: int, *, publish: bool = True) -> int:
        """A warm-up had this noisy sum; how the running sum moves, in units.

        Unless that can be published the next cell has to: the stream ended before.
        """
        beliefs, threshold, count = self._beliefs, self._threshold, layout.length
        (leaf,) = noise_path(layout.nodes, [each / threshold**2 for each in layout.variances])
        beliefs.open_leaf(leaf)
        beliefs.fade(count / (self._age + count))
        beliefs.advance(Cell(self._models, count))
        beliefs.measure(leaf, noisy / threshold)
        self._weights = beliefs.weights()
        whole = math.floor(beliefs.running(self._weights) * threshold + 0.5)
        if publish:
            beliefs.count_from(whole / threshold)
        self._age = min(self._age + count, self._perturber.horizon)
        return whole

    def _give_up_block(self) -> None:
        self._cells = None
        self._total = self._filled = self._width = 0
        self._measured = 0.0

    @property
    def measured(self) -> tuple[float, float]:
        """The mean of the block before, in units, and its standard error; 0: none was measured."""
        return self._measured, self._doubt

    @property
    def mean(self) -> float:
        """Expected level, in units."""
        return mixed(self._weights, self._beliefs.mean[LEVEL].tolist()) * self._threshold
