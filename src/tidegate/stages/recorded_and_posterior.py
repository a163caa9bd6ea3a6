"""Released data as estimators get it, and their answers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from tidegate.lattice import FloatArray, IntArray
from tidegate.stages.layout import Layout
from tidegate.stages.noisy import NO_SUMS
from tidegate.state_as_bytes import State

if TYPE_CHECKING:
    from tidegate.stages.stage_protocols import Perturber


NO_NUMBERS: FloatArray = np.empty(0)  # no predictions


class Cells(NamedTuple):
    """How values were published, cell by cell: equal values, then one that corrects the total.

    Attributes:
        predictions: for each completed cell, what a value of the next one is published as.
        totals: what the values of each completed cell add up to; empty: the noisy sums.
        widths: values in each completed cell; empty: the perturber's `block`.
    """

    predictions: FloatArray
    totals: IntArray
    widths: IntArray


NO_CELLS = Cells(NO_NUMBERS, NO_SUMS, NO_SUMS)


class Block(NamedTuple):
    """A block that was begun, in a record."""

    start: int  # position of its first value
    layout: Layout
    choice: int  # which option that was
    model_weights: int  # packed, of the estimator's models when it began
    first: int  # number of its first leaf


class Spans(NamedTuple):
    """Released numbers over spans that the method chose, oldest first (`Perturber.irregular`).

    Leaf i lies in [edges[i], edges[i + 1]). Its values are published as levels[i], but the last one
    as levels[i + 1].
    """

    edges: IntArray  # positions, one more than leaves
    numbers: IntArray  # what was measured of the last value; 0 where nothing was
    marks: IntArray  # what the perturber says about each; 0: nothing was measured
    levels: FloatArray  # one more than leaves


class Leaves(Protocol):
    """The released sums of one phase, leaf by leaf."""

    closed: int  # leaves completed
    oldest: int  # the first leaf that is still known

    def sums(self, leaves: IntArray) -> IntArray:
        """The sum of all leaves before each of these positions."""
        ...

    def between(self, first: IntArray, last: IntArray, most: float = ...) -> FloatArray:
        """The sums of leaves [first, last), also where 64 bits could overflow."""
        ...

    def predictions(self, leaves: IntArray) -> FloatArray:
        """The predicted value in each leaf."""
        ...

    def squares(self, leaves: IntArray) -> FloatArray:
        """The sum of squared residuals of all leaves before each of these positions."""
        ...

    def spans(self) -> Spans:
        """The stored leaves, of a perturber with irregular spans."""
        ...


class Recorded(NamedTuple):
    """What was released with one threshold: all that an estimator answers from.

    Attributes:
        perturber: how it was measured.
        threshold: θ in lattice units, counted from the lowest value that counts.
        ceiling: the largest value above 0 that can count: the bound.
        step: one lattice unit, in the unit of the data.
        origin: where the stretch begins.
        end: the position after the last released value.
        leaves: the released sums.
        blocks: those that are kept, oldest first.
        below: how much of θ lies below 0, in lattice units.
        depth: how far below 0 values can count: the lower bound.
        grain: how many lattice units thresholds are apart, at the least.
        sizes: numbers of events by size, a row for each piece, oldest first.
    """

    perturber: Perturber
    threshold: int
    ceiling: int
    step: float
    origin: int
    end: int
    leaves: Leaves
    blocks: Sequence[Block]
    below: int = 0
    depth: int = 0
    grain: int = 1
    sizes: tuple[IntArray, ...] = ()


class Excess(NamedTuple):
    """Estimates of what truncation took from range sums, in the unit of the data; all parts add up.

    Attributes:
        expected: the estimate. It may also be 0.
        fallen: the same for values below the floor, as a positive number.
        variance: added by chance, since few values make up an excess.
        most: what it would be if all values that the released sums allow above the cap were at
            the bound.
        upper: what it hardly exceeds: the end of a 95 % interval.
        lower: the same for `fallen`.
    """

    expected: FloatArray
    fallen: FloatArray
    variance: FloatArray
    most: FloatArray
    upper: FloatArray
    lower: FloatArray

    @classmethod
    def nothing(cls, count: int) -> Excess:
        """The excess of `count` ranges without truncated values."""
        return cls(*np.zeros((6, count)))


class Aim(NamedTuple):
    """What a threshold was chosen from, and what later phases show: positions and released sums.

    Attributes:
        share: the share of values above θ that the choice aimed at; 0: as the estimator says.
        wider: how much further up an interval reaches, by the tail that thresholds have shown.
        later: the highest mean of a later phase with a higher cap, in lattice units; 0: none.
        following: the mean of the phase that a full cap began, in lattice units; 0: none yet.
        lowest: of the levels of the values that chose the floor, in lattice units; with `highest`.
        highest: the same of the upper end. NaN: not known, or no value below 0 counts.
        left: the share above θ that upper ends count with: less than `share`, if the choice leaves
            less whatever it could see.
    """

    share: float = 0.0
    wider: float = 1.0
    later: float = 0.0
    following: float = 0.0
    lowest: float = math.nan
    highest: float = math.nan
    left: float = 1.0


NO_AIM = Aim()


@dataclass(frozen=True)
class Parts:
    """The contribution of one phase to range sums of capped values, in the unit of the data.

    `largest_variance` is that of the noisiest single draw. `excess` is to be added for the sum of
    the values themselves; None: it is not known.
    """

    estimate: FloatArray
    noise_variance: FloatArray
    prediction_variance: FloatArray
    largest_variance: float
    excess: Excess | None = None


Ranges = tuple[IntArray, IntArray]  # starts and ends


class Posterior(ABC):
    """The posterior of the past, given what was released up to some position."""

    @abstractmethod
    def parts(self, starts: IntArray, ends: IntArray) -> Parts:
        """The sums over [start, end), which must lie within what is recorded."""

    def aim_at(self, aim: Aim) -> None:  # noqa: B027  # few estimate what truncation took away
        """Use this aim in later answers: how θ was chosen. The base class ignores it."""

    def prepare(self, others: Sequence[Any]) -> None:  # noqa: B027  # few have work to share
        """Precompute what the first answers of this and `others` of its class need.

        The answers are the same, bit for bit; only sooner for many than one by one.
        """

    def parts_of_each(self, others: Sequence[Any], ranges: Sequence[Ranges]) -> list[Parts]:
        """`parts` of this and of `others` of its class, each over its own ranges."""
        every = zip((self, *others), ranges, strict=True)
        return [one.parts(*each) for one, each in every]

    def smoothed(self) -> dict[str, Any] | None:
        """The result of smoothing the whole record. None: there is nothing to store.

        Plain data with arrays.
        """
        return None

    def take_smoothed(self, state: State) -> None:  # noqa: B027  # few give something
        """Use what `smoothed` returned for the same record, instead of computing it again."""


class BlockBudgets(Protocol):
    """How blocks divide their budget, if they also pay for choices of θ."""

    @property
    def epsilon(self) -> Fraction:
        """The budget of every value."""
        ...

    @property
    def horizon(self) -> int:
        """The number of values that the trees are made for."""
        ...

    def part_of(self, choice: int, length: int, threshold: int, ceiling: int) -> Fraction:
        """The share of ε for the sums of a block with this tree; below 0: for a warm-up."""
        ...
