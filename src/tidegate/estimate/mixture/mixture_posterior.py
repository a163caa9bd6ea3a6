"""Answers of an adaptive release: posterior sums and variances under the mixture of models.

At the end of a cell a range sum is the posterior mean given all leaf sums. Inside a cell all values
are estimated as equal; the variance of that is the largest that independent values could have.
"""

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
    mixture_views,
    variances_of_each,
)
from tidegate.estimate.mixture.smoother.model_and_cycle_smoothers import weighted
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

    def prepare(self, others: Sequence[Any], ranges: Sequence[Ranges] = ()) -> None:
        """Compute now what the first answers of this and `others` of its kind need: at once.

        One stream alone spends most of the time on calls for small arrays.
        """
        every: list[MixturePosterior] = [self, *others]
        open_ones = [one for one in every if "_known" not in vars(one)]
        views = mixture_views([one._question for one in open_ones])
        for one, known in zip(open_ones, views, strict=True):
            vars(one)["_known"] = PosteriorSums(known)
        asked = []
        for one, (starts, ends) in zip(every, ranges, strict=False):
            first, last, *_ = one._near(starts, ends)
            asked.append((one._known, first, last))
        prepare_variances(asked)

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
        known, (cells, shares, widths) = self._known, self._place(np.concatenate((starts, ends)))
        (first, last), (first_share, last_share) = cells.reshape(2, -1), shares.reshape(2, -1)
        before_start, before_end = self._prefix(cells, shares).reshape(2, -1)
        estimate = before_end - before_start
        if known.cycles:
            estimate += known.inside(ends, last, last_share)
            estimate -= known.inside(starts, first, first_share)
        near_first, near_last, same, share = _nearest_for_posterior(
            first, first_share, last, last_share
        )
        between = known.variances(near_first, near_last)
        at_start, at_end = self._spread(cells, shares, widths).reshape(2, -1)
        spread = at_start + at_end
        if same.any():
            between = between * np.where(same, np.square(share), 1.0)
            spread[same] = self._spread(first[same], share[same], widths[: starts.size][same])
        theta = self._threshold * self._step
        return Parts(
            estimate * theta,
            between * theta**2,
            spread * theta**2,
            self._largest * self._step**2,
            None
            if self._tail is None
            else self._tail.between(((starts, first), (ends, last)), theta),
        )

    def _near(self, starts: IntArray, ends: IntArray) -> tuple[IntArray, ...]:
        """The edges (indices) whose variances `parts` asks for."""
        cells, shares, _ = self._place(np.concatenate((starts, ends)))
        (first, last), (first_share, last_share) = cells.reshape(2, -1), shares.reshape(2, -1)
        return _nearest_for_posterior(first, first_share, last, last_share)

    def aim_at(self, aim: Aim) -> None:
        """Estimate what truncation took away with this: cheap beside the smoother."""
        if self._aim != aim:
            self._aim = aim
            vars(self).pop("_tail", None)

    def _prefix(self, cell: IntArray, share: FloatArray) -> FloatArray:
        sums = self._known.sums
        after = np.minimum(cell + 1, sums.size - 1)
        return sums[cell] + share * (sums[after] - sums[cell])

    def _place(self, positions: IntArray) -> tuple[IntArray, FloatArray, IntArray]:
        """The cell of each position, how far in it lies, and how many values the cell has."""
        edges = self._known.edges
        cell = np.searchsorted(edges, positions, side="right") - 1
        after = np.minimum(cell + 1, edges.size - 1)
        width = np.maximum(edges[after] - edges[cell], 1)
        return cell, (positions - edges[cell]) / width, width

    def _spread(self, cell: IntArray, share: FloatArray, width: IntArray) -> FloatArray:
        """Variance, in θ², of a part of a cell whose sum is known, if values are independent."""
        levels = self._known.levels
        level = levels[np.minimum(cell + 1, levels.size - 1)] + self._below
        level = np.minimum(np.maximum(level, 0.0), 1.0)
        found: FloatArray = np.maximum(level * (1 - level), 1 / 16) * width * share * (1 - share)
        return found


def _nearest_for_posterior(
    first: IntArray, first_share: FloatArray, last: IntArray, last_share: FloatArray
) -> tuple[Any, ...]:
    """The edges that stand for ranges, by cells and how far in they begin and end.

    The nearer edge of the cell stands for a position inside it; a range inside one cell has its
    share of the cell. Third, which these are, and last the shares.
    """
    near_first, near_last = first + (first_share >= 0.5), last + (last_share >= 0.5)
    same, share = first == last, last_share - first_share
    near_first = np.where(same, first, near_first)
    near_last = np.where(same, first + (share > 0), np.maximum(near_first, near_last))
    return near_first, near_last, same, share


class PosteriorSums:
    """The posterior mean and variance of sums under a mixture of models, in units of θ.

    `edges[k]` is a position, `sums[k]` the posterior mean of the sum before it, `levels[k]` the
    expected level there.
    """

    def __init__(self, views: MixtureViews) -> None:
        self.views = views
        self._views, self._harmonics, self._coefficients = views
        # Of the ranges that are asked for next: which, and the variances under every model.
        self._prepared: tuple[bytes, bytes, list[FloatArray]] | None = None
        self.edges: IntArray = self._views[0][1].edges
        self.sums = self._mixed([view.sums for _, view in self._views])
        self.levels = self._mixed([view.levels for _, view in self._views])

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

    def variances(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """Variance of sums between edges (indices): the law of total variance over the models."""
        ready = self._prepared
        if ready is None or ready[:2] != (starts.tobytes(), ends.tobytes()):
            each = [view.variances(starts, ends) for _, view in self._views]
        else:
            each, self._prepared = ready[2], None  # whoever asked keeps the answer
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


def prepare_variances(asked: Sequence[tuple[PosteriorSums, IntArray, IntArray]]) -> None:
    """Compute variances between these edges for all streams and models at once."""
    found = iter(
        variances_of_each(
            [
                (view, starts, ends)
                for smoother, starts, ends in asked
                for _, view in smoother._views
            ]
        )
    )
    for smoother, starts, ends in asked:
        each = [next(found) for _ in smoother._views]
        smoother._prepared = starts.tobytes(), ends.tobytes(), each
