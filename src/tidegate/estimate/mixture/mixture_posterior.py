"""Answers of an adaptive release: posterior sums and variances under the mixture of models."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tidegate.estimate.mixture.kalman_filter.block_cells import cells_of
from tidegate.estimate.mixture.kalman_filter.state_space_models import SCATTER
from tidegate.estimate.mixture.smoother.block_batches import MeasuredBlock
from tidegate.estimate.mixture.smoother.mixture_smoother import (
    MixtureOf,
    MixtureViews,
    Smoothed,
    mixture_views,
)
from tidegate.estimate.mixture.smoother.model_and_cycle_smoothers import weighted
from tidegate.estimate.mixture.sums_of_ranges import sums_of_each
from tidegate.estimate.mixture.smoother.stored_views import restored_views, stored_views
from tidegate.estimate.mixture.truncated_tail import Tail, TruncatedTail
from tidegate.lattice import FloatArray, IntArray
from tidegate.stages import NO_AIM, Aim, Block, Parts, Posterior, Ranges, Recorded
from tidegate.state_as_bytes import State


class MixturePosterior(Posterior):
    """Posterior of range sums, from what was released up to `until`.

    `truncated` is what truncation takes from a value on average, as a share of θ; 0: not known.
    `unit` is what the models count in; None: θ.
    """

    def __init__(
        self,
        recorded: Recorded,
        until: int,
        truncated: float,
        unit: int | None = None,
        scatter: float = SCATTER,
        periods: tuple[int, ...] = (),
    ) -> None:
        self._threshold = unit or recorded.threshold
        self._step = recorded.step
        self._below = recorded.below / recorded.threshold  # the lower end, as a share of θ
        begun = [block for block in recorded.blocks if block.start <= until]
        # The open leaf is forecast with the weights of that time.
        latest = recorded.blocks[-1] if until == recorded.end or not begun else begun[-1]
        leaves = recorded.leaves
        running = leaves.sums(np.arange(leaves.oldest, leaves.closed + 1))
        self._sums: IntArray = np.diff(running)
        self._oldest, self._until = leaves.oldest, until
        self._models = latest.model_weights, scatter, periods
        self._truncated, self._recorded, self._begun = truncated, recorded, begun
        self._aim = NO_AIM
        self._largest = max((max(block.layout.variances) for block in begun), default=0.0)

    @cached_property
    def _question(self) -> MixtureOf:
        measured, until = [], self._until
        for block in self._begun:
            first, done = block.first - self._oldest, block.layout.leaves_by(until - block.start)
            measured.append(
                MeasuredBlock(
                    block.start,
                    cells_of(block.layout, self._threshold),
                    self._sums[first : first + done],
                    min(block.start + block.layout.length, until),
                )
            )
        return MixtureOf(measured, self._recorded.perturber.horizon, *self._models)

    @cached_property
    def _known(self) -> PosteriorSums:
        """Computed for the first answer, or before, for many posteriors at once."""
        return PosteriorSums(mixture_views([self._question])[0])

    def prepare(self, others: Sequence[Any]) -> None:
        """Smooth this and `others` of its kind at once, before the first answer of each.

        One stream alone spends most of the time on calls for small arrays.
        """
        every: list[MixturePosterior] = [self, *others]
        open_ones = [one for one in every if "_known" not in vars(one)]
        views = mixture_views([one._question for one in open_ones])
        for one, known in zip(open_ones, views, strict=True):
            vars(one)["_known"] = PosteriorSums(known)

    def smoothed(self) -> dict[str, Any] | None:
        """What the first answer has computed; None if there was none, or it cannot be stored."""
        if "_known" not in vars(self) or self._until != self._recorded.end:
            return None
        return stored_views(self._known.views)

    def take_smoothed(self, state: State) -> None:
        """Answer with what `smoothed` of the same record gave: the same bits."""
        vars(self)["_known"] = PosteriorSums(restored_views(state))

    @cached_property
    def _tail(self) -> Tail | None:
        return self._truncated_tail(self._recorded, self._begun, self._truncated, self._aim)

    def _truncated_tail(
        self, recorded: Recorded, begun: Sequence[Block], truncated: float, aim: Aim
    ) -> Tail | None:
        if not truncated:
            return None
        return TruncatedTail(self._known, recorded, begun, truncated, aim)

    def parts(self, starts: IntArray, ends: IntArray) -> Parts:
        """The sums over [start, end)."""
        return self.parts_of_each((), [(starts, ends)])[0]

    def parts_of_each(self, others: Sequence[Any], ranges: Sequence[Ranges]) -> list[Parts]:
        """The same of this and `others` of its kind, each over ranges of its own."""
        every: list[MixturePosterior] = [self, *others]
        facts = [one._spread_facts for one in every]
        found = sums_of_each([one._known for one in every], ranges, self._spread, facts)
        parts = []
        for one, (starts, ends), sums in zip(every, ranges, found, strict=True):
            theta, tail = one._threshold * one._step, one._tail
            places = (starts, sums.cells[0]), (ends, sums.cells[1])
            parts.append(
                Parts(
                    sums.estimate * theta,
                    sums.noise * theta**2,
                    sums.spread * theta**2,
                    one._largest * one._step**2,
                    None if tail is None else tail.between(places, theta),
                )
            )
        return parts

    def aim_at(self, aim: Aim) -> None:
        """Estimate what truncation took away with this: cheap beside the smoother."""
        if self._aim != aim:
            self._aim = aim
            vars(self).pop("_tail", None)

    @property
    def _spread_facts(self) -> tuple[float, ...]:
        return (self._below,)

    @staticmethod
    def _spread(level: FloatArray, width: IntArray, share: FloatArray, below: Any) -> FloatArray:
        """Variance, in θ², of a part of a cell whose sum is known, if values are independent."""
        level = np.minimum(np.maximum(level + below, 0.0), 1.0)
        found: FloatArray = np.maximum(level * (1 - level), 1 / 16) * width * share * (1 - share)
        return found


class PosteriorSums:
    """The posterior mean and variance of sums under a mixture of models, in units of θ.

    `edges[k]` is a position, `sums[k]` the posterior mean of the sum before it, `levels[k]` the
    expected level there.
    """

    def __init__(self, views: MixtureViews) -> None:
        self.views = views
        self._views, self._harmonics, self._coefficients = views
        self.edges: IntArray = self._views[0][1].edges
        self.sums = self._mixed([view.sums for _, view in self._views])
        self.levels = self._mixed([view.levels for _, view in self._views])

    @property
    def models(self) -> list[tuple[float, Smoothed]]:
        """The models' smoothers, each with its weight."""
        return self._views

    @property
    def cycles(self) -> bool:
        """Whether some models have a cycle."""
        return self._harmonics.count > 0

    def inside(self, positions: IntArray, cell: IntArray, share: FloatArray) -> FloatArray:
        """What the cycle adds before a position that is this share into a cell, beyond a line."""
        before, edges = self._harmonics.before, self.edges
        after = np.minimum(cell + 1, edges.size - 1)
        part = share[:, np.newaxis]
        shape = before(positions) - (1 - part) * before(edges[cell]) - part * before(edges[after])
        return weighted(shape, self._coefficients)

    def mixed_variances(
        self, starts: IntArray, ends: IntArray, each: Sequence[FloatArray]
    ) -> FloatArray:
        """Variance of sums between edges (indices), by that under every model (total variance)."""
        expected = self.sums[ends] - self.sums[starts]
        return self._mixed(
            [
                variance + np.square(view.sums[ends] - view.sums[starts] - expected)
                for variance, (_, view) in zip(each, self._views, strict=True)
            ]
        )

    def _mixed(self, parts: Sequence[FloatArray]) -> FloatArray:
        """The weighted mean, summed in a fixed order."""
        total: FloatArray = np.zeros_like(parts[0])
        for (weight, _), part in zip(self._views, parts, strict=True):
            total += weight * part
        return total
