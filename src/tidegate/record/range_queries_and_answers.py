"""`Answers`, the results of many queries; `RangeQueries`, the methods that query."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tidegate.errors import QueryError
from tidegate.lattice import FloatArray, IntArray
from tidegate.record.answer import Answer
from tidegate.record.answers_facts import ERRORS, AnswersFacts
from tidegate.record.range_tables import RangeTables
from tidegate.stages import Excess
from tidegate.tables.table_input import table_column_has_times

if TYPE_CHECKING:
    from tidegate.record.times.time_ranges_and_tables import Moment

_FARTHEST = (1 << 63) - 1
TIMES = (str, date, np.datetime64)  # a datetime, and a Timestamp of pandas, is a date


@dataclass(frozen=True, repr=False)
class Answers(AnswersFacts):
    """The sums over many ranges: the attributes of `Answer`, as arrays.

    `threshold` is the lowest of all ranges; `caps` has a row for each: lowest,
    highest, and the sum of the thresholds of all values; then the same for the floors,
    from the highest on. `unseen` is None where nothing is unseen, `limit` where nothing is known of
    it. `note` says what else matters about a range of time.
    """

    start: IntArray
    end: IntArray
    estimate: FloatArray
    noise_error: FloatArray
    prediction_error: FloatArray
    truncation_error: FloatArray
    low: FloatArray
    high: FloatArray
    confidence: float
    threshold: float
    caps: FloatArray | None = None
    capped: bool = True
    unseen: FloatArray | None = None
    limit: FloatArray | None = None
    note: str = ""
    span: str = ""
    bound: float | None = None
    lower: float = 0.0

    @classmethod
    def around(
        cls,
        estimate: FloatArray,
        start: IntArray,
        end: IntArray,
        noise: FloatArray,
        prediction: FloatArray,
        *,
        errors: FloatArray | float,
        confidence: float,
        threshold: float,
        allowance: FloatArray | float = 0.0,
        excess: Excess | None = None,
        caps: FloatArray | None = None,
        unseen: FloatArray | None = None,
    ) -> Answers:
        """Intervals of `errors` standard errors to both sides, extended for truncation.

        `noise` and `prediction` are variances. `allowance` is what the estimate adds for values
        that truncation took away, which `low` takes back (`high`, where it is negative): an
        interval of the capped sum. `excess` is still to be added, and makes it one of the sum
        itself. It is no noise that would average out: its ends grow as the range does.
        """
        below: FloatArray = np.square(errors) * (noise + prediction)
        above, missing, limit = below, np.zeros_like(estimate), None
        if excess is not None:
            times = normal_quantile(confidence)
            lost, fallen = excess.expected, excess.fallen
            limit = estimate + np.sqrt(above) + excess.most
            estimate = estimate + lost - fallen
            chance = times**2 * excess.variance
            power = times / normal_quantile(0.95)
            upper, lower = (
                end_of_excess_in_answers(lost, excess.upper, power),
                end_of_excess_in_answers(fallen, excess.lower, power),
            )
            below = below + chance + np.square(lost) + np.square(lower - fallen)
            above = above + chance + np.square(upper - lost) + np.square(fallen)
            missing = truncation_errors_of_answers(excess)
        high = estimate + np.sqrt(above) - np.minimum(allowance, 0.0)
        return cls(
            start=start,
            end=end,
            estimate=estimate,
            noise_error=np.sqrt(noise),
            prediction_error=np.sqrt(prediction),
            truncation_error=missing,
            low=estimate - np.sqrt(below) - np.maximum(allowance, 0.0),
            high=high,
            confidence=confidence,
            threshold=threshold,
            caps=caps,
            capped=excess is None,
            unseen=unseen,
            limit=limit if limit is None else np.maximum(limit, high),
        )

    def within_bounds(self, rows: IntArray) -> Answers:
        """The answers with intervals limited to what their rows can add up to.

        Every row counts as a number from `lower` to `bound`, so rows × lower ≤ sum ≤ rows × bound
        holds for sure. An end outside is moved there: that removes impossible sums only, so an
        interval that held the true sum still does. The estimate stays, even outside: the estimates
        of parts add up to that of the whole. Bounds and numbers of rows are public: it is free.

        `low` ≤ `estimate` ≤ `high` stays. A tick of events has no largest sum: of these, only lower
        ends are moved, and only where no event counts below 0.
        """
        if self.bound is None:
            return self
        summed = self.caps is not None and bool(np.isinf(self.caps[:, 2]).any())  # events
        low, high, limit = self.low, self.high, self.limit
        if not summed or not self.lower:
            low = np.maximum(low, np.minimum(rows * self.lower, self.estimate))
        if not summed:
            most = np.maximum(rows * self.bound, self.estimate)
            high = np.minimum(high, most)
            limit = None if limit is None else np.minimum(limit, most)
        return replace(self, low=low, high=high, limit=limit)

    def __len__(self) -> int:
        return self.start.size

    def __getitem__(self, index: int) -> Answer:
        columns = ("estimate", *ERRORS, "low", "high")
        numbers: dict[str, Any] = {name: float(getattr(self, name)[index]) for name in columns}
        numbers["threshold"] = numbers["highest"] = self.threshold
        if self.caps is not None:
            names = ("threshold", "highest", "full", "floor", "lowest_floor", "empty")
            numbers |= zip(names, self.caps[index].tolist(), strict=True)
        some = (("unseen", self.unseen), ("limit", self.limit))
        numbers |= {name: float(found[index]) for name, found in some if found is not None}
        numbers |= {"confidence": self.confidence, "capped": self.capped, "note": self.note}
        numbers |= {"bound": self.bound, "lower": self.lower}
        return Answer(int(self.start[index]), int(self.end[index]), span=self.span, **numbers)


@lru_cache(maxsize=64)  # a table asks for the same one for every key
def normal_quantile(confidence: float) -> float:
    """How many standard deviations around the mean hold a normal variable with this confidence."""
    from statistics import NormalDist  # on demand: importing it is slow

    return NormalDist().inv_cdf((1 + confidence) / 2)


def truncation_errors_of_answers(excess: Excess) -> FloatArray:
    """Standard errors of the truncated excess: of its factor, to first order, and by chance."""
    ends = np.square(excess.upper - excess.expected) + np.square(excess.lower - excess.fallen)
    return np.asarray(np.sqrt(excess.variance + ends / normal_quantile(0.95) ** 2))


def end_of_excess_in_answers(expected: FloatArray, upper: FloatArray, power: float) -> FloatArray:
    """The end of an excess: `upper` at 95 %, elsewhere by the quantile of a log-normal factor."""
    if power == 1.0:
        return upper
    some = (upper > expected) & (expected > 0)
    found = upper.copy()
    found[some] = expected[some] * np.power(upper[some] / expected[some], power)
    return found


class RangeQueries(RangeTables):
    """Answers range queries from a record, which `_answered` provides."""

    def query(
        self,
        start: Moment | None = None,
        end: Moment | None = None,
        confidence: float = 0.95,
        *,
        from_: Moment | None = None,
        to: Moment | None = None,
        as_of: int | None = None,
    ) -> Answer:
        """The sum of the released values [start, end), counted from 0, with its interval.

        Where values have times, `from_` and `to` ask by time: all rows with from ≤ time < to. So
        do `start` and `end` if they are texts or dates: `query("2024-02-01", "2024-03-01")`.
        Without any of them, the sum of everything that was released.
        `as_of=t`: as it would have been answered when t values were released.
        """
        start, end, from_, to = query_places_or_times(start, end, from_, to)
        if start is not None and end is not None and from_ is None and to is None:
            return self._answered(lambda record: record.answers([start], [end], confidence, as_of))[
                0
            ]
        if start is None and end is None and from_ is None and to is None:
            return self._answered(
                lambda record: record.answers(
                    [0], [record.end if as_of is None else as_of], confidence, as_of
                )
            )[0]
        if start is not None or end is not None:
            raise QueryError("give a range: start and end, or from_ and to for a range of time")
        return self._answered(lambda record: record.answers_between(from_, to, confidence, as_of))[
            0
        ]

    def queries(
        self,
        starts: ArrayLike,
        ends: ArrayLike,
        confidence: float = 0.95,
        *,
        as_of: int | None = None,
    ) -> Answers:
        """The sums over many ranges [start, end) at once: see `Record.answers`.

        Texts and dates ask by time, as in `query`: `queries(["2024-02-01"], ["2024-03-01"])`.
        """
        if table_column_has_times(starts) or table_column_has_times(ends):
            return self._answered(
                lambda record: record.answers_by_time(starts, ends, confidence, as_of)
            )
        return self._answered(lambda record: record.answers(starts, ends, confidence, as_of))


def query_places_or_times(
    start: Any, end: Any, from_: Moment | None, to: Moment | None
) -> tuple[int | None, int | None, Moment | None, Moment | None]:
    """The range of a query as positions or as times; refuses both together."""
    if isinstance(start, TIMES) or isinstance(end, TIMES):
        if from_ is not None or to is not None:
            raise QueryError("give a range once: start and end, or from_ and to")
        return None, None, start, end
    return _query_place("start", start), _query_place("end", end), from_, to


def _query_place(name: str, place: Any) -> int | None:
    if place is None or type(place) is int:
        return place
    whole = isinstance(place, np.integer | int) or (
        isinstance(place, float | np.floating) and float(place).is_integer()
    )
    if not whole:
        raise QueryError(
            f"{name} must be a position, a whole number; or a time, such as '2024-02-01'"
        )
    return int(place)


def paired(starts: ArrayLike, ends: ArrayLike) -> tuple[IntArray, IntArray]:
    """Starts and ends as integer arrays of equal length."""
    pair = []
    for name, positions in (("starts", starts), ("ends", ends)):
        array = np.asarray(positions)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise QueryError(
                f"{name} must be a one-dimensional array of integer positions. By time, ask "
                "query(from, to), or table(every)"
            )
        if array.dtype == np.uint64:  # may not fit int64; such positions are beyond every release
            array = np.minimum(array, np.uint64(_FARTHEST))
        pair.append(array.astype(np.int64))
    begin, end = pair
    if begin.size != end.size:
        raise QueryError(f"{begin.size} starts but {end.size} ends")
    return begin, end
