"""Count values above each candidate for a later choice of θ, without keeping the values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tidegate.lattice import IntArray, Lattice
from tidegate.randomness import Keystream
from tidegate.run.refinement_schedule import EARLY_SHARE, LATE_SHARE, Refinement
from tidegate.run.two_sided_caps import SHAPES, Ends, outside_caps, shaped_caps
from tidegate.stages import FAR_SHARE
from tidegate.stages.late_looks import FAR
from tidegate.threshold import TailQuantile
from tidegate.threshold.choices_of_many_streams import ChoiceFacts
from tidegate.threshold.far_values import far_values_found
from tidegate.threshold.least_threshold import lifted_threshold
from tidegate.threshold.price_of_thresholds import late_price
from tidegate.threshold.tail_quantile import PARTS, last_exceeded_in_tail

if TYPE_CHECKING:
    from tidegate.run.pipeline import Pipeline

_MOST = 1 << 15  # values that are counted at once
_FEW = 4  # up to here they are counted one by one


def facts_of_selection(
    stage: TailQuantile,
    grid: Lattice,
    floor: int,
    before: int,
    positive: int | None,
    fallen: bool,
    level: float | None,
    late: bool,
) -> ChoiceFacts:
    """The public facts of a window's choice, as `TailQuantile.choose_from` takes them.

    Candidates begin at `floor`; θ was `before`; about `positive` values are above 0, and their
    level is significantly above `level`; None: not known. If the window ends `late`
    (`late_from`), the price follows the level.
    """
    if positive is None:
        return ChoiceFacts(floor)
    lift = max(floor, lifted_threshold(stage, grid, positive, fallen=fallen))
    if fallen:
        return ChoiceFacts(lift, positive)
    if floor >= before > 0:
        # θ can only rise: nothing is lost where few can pay for that, so the price is steep.
        return ChoiceFacts(lift, stage.holdout, before)
    if level is None:
        return ChoiceFacts(lift, positive)
    # θ is not below half of the level, and as many values lie above that as could be if the
    # others lay at the present θ: they pay for the climb up to there.
    start = max(floor, int(level / 2))
    price = late_price(stage.late, level, before) if late else None
    return ChoiceFacts(max(lift, start), positive // 2, start, before, late_price=price)


def facts_of_share(share: Fraction) -> dict[str, Any]:
    """The share of ε of a window, as states have it: in words where it is one of late looks."""
    early = share == EARLY_SHARE
    return {"early": early} if early or share == LATE_SHARE else {"share": str(share)}


class _SelectionTally(NamedTuple):
    """Values that have been counted, and values not counted yet."""

    counts: IntArray
    outside: IntArray  # values that each shape of each scale would cut, where values below 0 count
    taken: int  # values so far, without `singles`
    pieces: list[IntArray]  # values that wait: in arrays,
    singles: list[int]  # and one by one

    def __repr__(self) -> str:  # as secret as the values
        return "<_Tally>"


class SelectionCounts:
    """How many values of an open window exceed each candidate. As secret as the values.

    Counts of pieces add up to those of the whole, so that any split of the stream gives the same.

    Privacy: a value is counted once, wherever an exception arrives: it waits or is counted, and one
    assignment turns the one into the other. Snapshots count, and an interrupted one does no harm.
    """

    def __init__(
        self, stage: TailQuantile, share: Fraction, lattice: Lattice, shape: Fraction = Fraction(0)
    ) -> None:
        """Count for the stage that chooses θ, or the scale; `shape` is the budget of the shape."""
        self.stage, self.share = stage, share
        self._lattice, self._shape = lattice, shape
        self._grid = lattice.scale if lattice.bottom else lattice
        candidates = stage.candidates(self._grid)
        rows = candidates.size if lattice.bottom else 0
        outside = np.zeros((rows, len(SHAPES)), dtype=np.int64)
        self._tally = _SelectionTally(np.zeros(candidates.size, dtype=np.int64), outside, 0, [], [])
        self._waiting = 0  # values in the arrays, about

    @cached_property
    def _scales(self) -> list[int]:
        """The scale of each candidate, where values below 0 count."""
        stage, grid = self.stage, self._grid
        return [stage.outcome(step, grid) for step in stage.candidates(grid).tolist()]

    @property
    def values(self) -> int:
        """How many values the window has when it ends."""
        return self.stage.holdout

    @property
    def full(self) -> bool:
        """Whether all values of the window have come."""
        return self._tally.taken + len(self._tally.singles) == self.values

    def add(self, units: IntArray) -> None:
        """Count these values."""
        tally = self._tally
        tally.pieces.append(units.copy())
        self._tally = tally._replace(taken=tally.taken + units.size)
        self._waiting += units.size
        if self._waiting >= _MOST:
            self._count()

    def add_one(self, unit: int) -> None:
        """Count one value."""
        singles = self._tally.singles
        singles.append(unit)
        if len(singles) >= _MOST:
            self._count()

    def chosen(
        self,
        keystream: Callable[[str], Keystream],
        *,
        at_least: Ends,
        before: Ends,
        positive: float | None = None,
        fallen: bool = False,
        level: float | None = None,
        late: bool = False,
    ) -> Ends:
        """θ in lattice units, or both caps, chosen from the counts of the whole window.

        Privacy: as in `two_sided_caps.choose_caps`, from counts instead of values. `positive` is
        an estimate, from released data, of the share of values above 0, and `level` a significant
        lower bound of the mean; `fallen`: the present θ stayed where it began; `late`: the window
        ended late (`late_from`).
        """
        self._count()
        stage, lattice = self.stage, self._lattice
        known = None if positive is None else math.floor(positive * self.values)
        climb = at_least.above, before.above, known, fallen, level
        facts = facts_of_selection(stage, self._grid, *climb, late)
        if self.share == FAR_SHARE:  # it can only rise, and there are values far above it
            facts = ChoiceFacts(facts.at_least, self.values, before.above, before.above)
        facts = facts._replace(at_least=max(facts.at_least, at_least.below))
        theta = (stage if facts.late_price is None else stage.late).choose_from(
            self._tally.counts,
            self._grid,
            keystream("threshold"),
            **facts._asdict(),
        )
        if not lattice.bottom:
            return Ends(theta)
        counts = self._tally.outside[self._scales.index(theta)]
        words = keystream("shape")
        found = shaped_caps(theta, counts, self._shape, lattice, words, stage.wanted, before)
        return found.at_least(at_least)

    def found_far(self, theta: int, keystream: Keystream) -> bool:
        """Whether a late look found values far above θ (`far_values_found`)."""
        self._count()
        candidates = self.stage.candidates(self._grid)
        place = min(np.searchsorted(candidates, FAR * theta).item(), candidates.size - 1)
        return far_values_found(int(self._tally.counts[place]), self.stage.epsilon, keystream)

    def _count(self) -> None:
        counts, outside_, taken, pieces, singles = self._tally
        units = np.concatenate((*pieces, np.array(singles, dtype=np.int64)))
        if not units.size:
            return
        sizes = np.abs(units) if outside_.size else units
        if units.size <= _FEW:  # the last value of a window, often
            counts = self._with_few(counts, sizes)
        else:
            counts = counts + self.stage.above(sizes, self._grid)
        if outside_.size:
            outside_ = outside_ + outside_caps(units, self._scales)
        self._tally = _SelectionTally(counts, outside_, taken + len(singles), [], [])
        self._waiting = 0
        for piece in (*pieces, units):
            piece.fill(0)  # raw values are not kept longer than needed

    def _with_few(self, counts: IntArray, sizes: IntArray) -> IntArray:
        counts = counts.copy()
        last, parts = last_exceeded_in_tail(sizes, self.stage.candidates(self._grid))
        for place, part in zip(last.tolist(), parts.tolist(), strict=True):
            if place >= 0:
                counts[:place] += PARTS
                counts[place] += part
        return counts

    def wipe(self) -> None:
        """Erase the counts: they are kept no longer than needed."""
        self._count()
        self._tally.counts.fill(0)
        self._tally.outside.fill(0)

    def state(self) -> dict[str, Any]:
        """The state to resume from."""
        self._count()
        tally = self._tally
        facts = {**facts_of_share(self.share), "values": self.values, "taken": tally.taken}
        counts = {"counts": tally.counts.copy()}
        if tally.outside.size:
            counts["outside"] = tally.outside.reshape(-1).copy()
        return {**facts, **counts}

    @staticmethod
    def share_of(state: Mapping[str, Any]) -> Fraction:
        """The share of ε in a saved window."""
        if "share" in state:
            return Fraction(state["share"])
        return EARLY_SHARE if state["early"] else LATE_SHARE

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state."""
        tally = self._tally
        cut = state["outside"].reshape(tally.outside.shape) if tally.outside.size else tally.outside
        counts = state["counts"].astype(np.int64)  # a copy
        self._tally = _SelectionTally(counts, cut.astype(np.int64), state["taken"], [], [])


def stage_of_selection(
    pipeline: Pipeline, refinement: Refinement, values: int, share: Fraction, *, age: int
) -> tuple[TailQuantile, Fraction]:
    """The stage that chooses θ, or the scale of both caps; and the budget of their shape."""

    def found() -> tuple[TailQuantile, Fraction]:
        rule, perturber = pipeline.threshold, pipeline.perturber
        theta, *shape = (share * part for part in pipeline.choices)
        stage = refinement.choice(rule, perturber, values, theta, age=age)
        return stage, sum(shape) * perturber.epsilon if shape else Fraction(0)

    return pipeline.known.of(("stage", values, share, age), found)
