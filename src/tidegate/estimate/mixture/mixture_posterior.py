"""Answers of an adaptive release: posterior sums and variances under the mixture of models.

At the end of a cell a range sum is the posterior mean given all leaf sums. Inside a cell all values
are estimated as equal; the variance of that is the largest that independent values could have.

Many streams are asked at once: their cells stand one after the other, and so do their ranges. All
is elementwise, so each has the bits that it has alone (decision 0103).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from tidegate.estimate.mixture.kalman_filter.block_cells import cells_of
from tidegate.estimate.mixture.kalman_filter.harmonics import Cycle
from tidegate.estimate.mixture.kalman_filter.state_space_models import SCATTER
from tidegate.estimate.mixture.smoother.block_batches import MeasuredBlock
from tidegate.estimate.mixture.smoother.mixture_smoother import (
    MixtureToSmooth,
    MixtureViews,
    Smoothed,
    mixture_variances_of_each,
    mixture_views,
)
from tidegate.estimate.mixture.smoother.model_and_cycle_smoothers import weighted_cycle_columns
from tidegate.estimate.mixture.smoother.stored_views import restored_views, stored_views
from tidegate.estimate.mixture.truncated_tail import Tail, TruncatedTail
from tidegate.lattice import FloatArray, IntArray
from tidegate.stages import NO_AIM, Aim, Block, Parts, Posterior, Ranges, Recorded
from tidegate.state_as_bytes import State


class MixturePosterior(Posterior):
    """The posterior of range sums, given what was released up to `until`.

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
        cycle: Cycle = (),
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
        self._models = latest.model_weights, scatter, cycle
        self._truncated, self._recorded, self._begun = truncated, recorded, begun
        self._aim = NO_AIM
        self._largest = max((max(block.layout.variances) for block in begun), default=0.0)

    @cached_property
    def _question(self) -> MixtureToSmooth:
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
        return MixtureToSmooth(measured, self._recorded.perturber.horizon, *self._models)

    @cached_property
    def _known(self) -> PosteriorSums:
        """The smoothed sums: computed for the first answer, or before, for many together."""
        return PosteriorSums(mixture_views([self._question])[0])

    def prepare(self, others: Sequence[Any]) -> None:
        """Smooth this and `others` of its class together, before the first answer of each.

        One stream alone spends most of the time on calls for small arrays.
        """
        every: list[MixturePosterior] = [self, *others]
        open_ones = [one for one in every if "_known" not in vars(one)]
        views = mixture_views([one._question for one in open_ones])
        for one, known in zip(open_ones, views, strict=True):
            vars(one)["_known"] = PosteriorSums(known)

    def smoothed(self) -> dict[str, Any] | None:
        """The result of smoothing; None if there is none yet, or it cannot be stored."""
        if "_known" not in vars(self) or self._until != self._recorded.end:
            return None
        return stored_views(self._known.views)

    def take_smoothed(self, state: State) -> None:
        """Use what `smoothed` of the same record returned: the same bits."""
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
        """The parts of this posterior and of `others` of its class, each over its own ranges."""
        every: list[MixturePosterior] = [self, *others]
        facts = [one._spread_facts for one in every]
        known = [one._known for one in every]
        cells, estimate, noise, spread = _posterior_sums_of_each(known, ranges, self._spread, facts)
        parts, last = [], 0
        for one, (starts, ends) in zip(every, ranges, strict=True):
            at = slice(last, last := last + starts.size)
            theta, tail = one._threshold * one._step, one._tail
            places = (starts, cells[0, at]), (ends, cells[1, at])
            parts.append(
                Parts(
                    estimate[at] * theta,
                    noise[at] * theta**2,
                    spread[at] * theta**2,
                    one._largest * one._step**2,
                    None if tail is None else tail.between(places, theta),
                )
            )
        return parts

    def aim_at(self, aim: Aim) -> None:
        """Use this aim for the truncated excess: cheap compared with smoothing."""
        if self._aim != aim:
            self._aim = aim
            vars(self).pop("_tail", None)

    @property
    def _spread_facts(self) -> tuple[float, ...]:
        return (self._below,)

    @staticmethod
    def _spread(level: FloatArray, width: IntArray, share: FloatArray, *facts: Any) -> FloatArray:
        """Variance, in θ², of a part of a cell whose sum is known, for independent values."""
        (below,) = facts
        level = np.minimum(np.maximum(level + below, 0.0), 1.0)
        found: FloatArray = np.maximum(level * (1 - level), 1 / 16) * width * share * (1 - share)
        return found


def _posterior_sums_of_each(
    streams: Sequence[PosteriorSums],
    ranges: Sequence[Ranges],
    spread: Callable[..., FloatArray],
    facts: Sequence[tuple[float, ...]],
) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
    """The sums over [start, end), stream after stream; `spread` needs the `facts` of each.

    Returns:
        The cells in which ranges start, and in which they end; the sums; their variances at the
        edges of cells; and what is added inside of cells.
    """
    sizes, counts = [one[0].size for one in ranges], [one.edges.size for one in streams]
    firsts, ends = [0, *accumulate(counts[:-1])], [*accumulate(counts)]
    begun, beyond = _posterior_ranges_of_each(firsts, sizes), _posterior_ranges_of_each(ends, sizes)
    edges, sums, levels = (
        _joined_posterior_sums([getattr(one, name) for one in streams])
        for name in ("edges", "sums", "levels")
    )
    # From here on the first row is where ranges start, the second where they end.
    pairs = [np.stack(pair) for pair in ranges]
    every = zip(streams, pairs, strict=True)
    within = _joined_posterior_sums(
        [np.searchsorted(one.edges, pair, side="right") for one, pair in every]
    )
    within += begun - 1
    after = np.minimum(within + 1, beyond - 1)
    widths = np.maximum(edges[after] - edges[within], 1)
    shares = (_joined_posterior_sums(pairs) - edges[within]) / widths
    before, level = sums[within] + shares * (sums[after] - sums[within]), levels[after]
    known = [_posterior_ranges_of_each(each, sizes) for each in zip(*facts, strict=True)]
    scatter = spread(level, widths, shares, *known).sum(axis=0)
    # The nearer edge of the cell stands for a position inside it; a range inside one cell has its
    # share of the cell.
    near, factor = within + (shares >= 0.5), None
    same, share = within[0] == within[1], shares[1] - shares[0]
    if same.any():
        near[:, same] = within[0, same] + np.stack((np.zeros_like(same), share > 0))[:, same]
        factor = np.where(same, np.square(share), 1.0)
        inside = [one[same] if isinstance(one, np.ndarray) else one for one in known]
        scatter[same] = spread(level[0, same], widths[0, same], share[same], *inside)
    np.maximum(near[0], near[1], out=near[1])
    estimate, last, noise = before[1] - before[0], 0, []
    within -= begun
    near -= begun
    each = _posterior_variances_of_each(streams, near, sizes)
    for one, pair in zip(streams, pairs, strict=True):
        at = slice(last, last := last + pair.shape[1])
        under_each = [next(each) for _ in one.models]
        noise.append(one.mixed_variances(near[0, at], near[1, at], under_each))
        if one.cycles:
            start, end = map(one.inside, pair, within[:, at], shares[:, at])
            estimate[at] += end
            estimate[at] -= start
    variances = _joined_posterior_sums(noise)
    return within, estimate, variances if factor is None else variances * factor, scatter


def _posterior_variances_of_each(
    streams: Sequence[PosteriorSums], near: IntArray, sizes: Sequence[int]
) -> Iterator[FloatArray]:
    """Variances between edges (indices), under every model of every stream."""
    if len(streams) == 1:
        return (view.variances(*near) for _, view in streams[0].models)
    parts = np.split(near, [*accumulate(sizes[:-1])], axis=1)
    asked = zip(streams, parts, strict=True)
    return iter(
        mixture_variances_of_each([(view, *at) for one, at in asked for _, view in one.models])
    )


def _joined_posterior_sums(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)


def _posterior_ranges_of_each(numbers: Sequence[float], sizes: Sequence[int]) -> Any:
    """Repeat each stream's number for each of its ranges."""
    return numbers[0] if len(sizes) == 1 else np.repeat(np.array(numbers), sizes)


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
        """The models' smoothers with their weights."""
        return self._views

    @property
    def cycles(self) -> bool:
        """Whether some models have a cycle."""
        return self._harmonics.count > 0

    def inside(self, positions: IntArray, cell: IntArray, share: FloatArray) -> FloatArray:
        """The cycle's part before a position at this share of a cell, beyond a straight line."""
        before, edges = self._harmonics.before, self.edges
        after = np.minimum(cell + 1, edges.size - 1)
        part = share[:, np.newaxis]
        shape = before(positions) - (1 - part) * before(edges[cell]) - part * before(edges[after])
        return weighted_cycle_columns(shape, self._coefficients)

    def mixed_variances(
        self, starts: IntArray, ends: IntArray, each: Sequence[FloatArray]
    ) -> FloatArray:
        """The variance of sums between edges (indices), by the law of total variance."""
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
