"""`Answer`: the result of one range query; and messages for ranges that cannot be answered."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tidegate.record import answer_text


@dataclass(frozen=True)
class Answer:
    """The sum over one range.

    Attributes:
        start, end: the range, half-open, counted from the first released value.
        estimate: the sum of the published values (before debts, if they are made non-negative); for
            an adaptive release, the best estimate given everything released, including what
            truncation took away.
        noise_error: standard deviation of the noise of the completed blocks: exact. For an adaptive
            release, the posterior standard deviation from noise and forecasts.
        prediction_error: estimated standard error of predictions in blocks that the range cuts.
        standard_error: all three together.
        low, high: the interval that holds the sum with `confidence`; if `capped`, that of the
            capped values. It reaches further up than down where much may have been truncated.
        threshold: larger values counted as this, in the part of the range where it was lowest.
        highest: the same where it was highest. (None: as `threshold`.)
        full: the sum if every value were at the upper cap. (None: rows times `threshold`.)
        floor: smaller values counted as this, in the part of the range where it was highest.
        lowest_floor: the same where it was lowest. (None: as `floor`.)
        empty: the sum if every value were at the lower cap. (None: rows times `floor`.)
        truncation_error: standard error of what truncation took away.
        capped: whether all of this is about the sum of capped values: then what truncation took
            away is unknown, and in no interval.
        unseen: how much larger the sum may be if too few values chose the threshold to see large
            ones; `high` includes it. 0 if enough did.
        limit: the sum if every value that may have been capped lay at the bound: the largest that
            released sums allow, for any tail. `high` assumes more (`assumption`). None: unknown.
        note: a note about a range of time: late rows, no rows at one end.
        span: the queried range of time as text; empty for a query by position.
        bound, lower: the public bounds of a value. No end of an interval lies beyond rows × these.
            (None: not known.)
    """

    start: int
    end: int
    estimate: float
    noise_error: float
    prediction_error: float
    low: float
    high: float
    confidence: float
    threshold: float
    highest: float | None = None
    full: float | None = None
    floor: float = 0.0
    lowest_floor: float | None = None
    empty: float | None = None
    truncation_error: float = 0.0
    capped: bool = True
    unseen: float = 0.0
    limit: float | None = None
    note: str = ""
    span: str = field(default="", compare=False)
    bound: float | None = None
    lower: float = 0.0

    @property
    def standard_error(self) -> float:
        """√(noise_error² + prediction_error² + truncation_error²)."""
        return math.hypot(self.noise_error, self.prediction_error, self.truncation_error)

    @property
    def crowded(self) -> bool:
        """Whether the mean lies close to the threshold, as if most values were capped there.

        A function of the answer: free. Then the true sum may be much larger than any interval
        says.
        """
        full = self.threshold * (self.end - self.start) if self.full is None else self.full
        return self.estimate > answer_text.CROWDED * full > 0

    @property
    def crowded_below(self) -> bool:
        """Whether the mean lies close to the lower cap: the true sum may be much smaller then."""
        empty = self.floor * (self.end - self.start) if self.empty is None else self.empty
        return self.estimate < answer_text.CROWDED * empty < 0

    @property
    def blind(self) -> bool:
        """Whether too few values chose the threshold, so that `high` is far up: a mere limit.

        A function of what was released (`tidegate.record.unseen_values`): free.
        """
        return self.unseen > answer_text.MUCH * abs(self.estimate)

    @property
    def assumption(self) -> str:
        """The assumption behind `high`, as text; empty if there is none.

        `low` never depends on it: what truncation took away only adds to a sum, unless values below
        0 count.
        """
        return answer_text.assumption(self)

    @property
    def beyond_bound(self) -> str:
        """How values beyond the public bound count, where the cap reached it, as text."""
        return answer_text.beyond_bound(self)

    @property
    def cut(self) -> str:
        """Where values were capped, as text."""
        return answer_text.cut_sentence(self)

    @property
    def warning(self) -> str:
        """A warning if most values lie at a cap; else empty."""
        if self.crowded:
            return answer_text.CUT_ABOVE if self.floor else answer_text.CUT
        return answer_text.CUT_BELOW if self.crowded_below else ""

    def __str__(self) -> str:
        return answer_text.sentence(self)

    def _repr_html_(self) -> str:
        return answer_text.answer_as_html(self)


def answer_out_of_range(start: int, end: int, oldest: int, newest: int) -> str:
    """The error for [start, end), where only [oldest, newest) can be answered."""
    if start > end:
        return f"range [{start}, {end}) ends before it starts"
    if end > newest:
        return f"range [{start}, {end}) reaches beyond the {newest} values released so far"
    if start < 0:
        return f"range [{start}, {end}) starts before the first released value"
    return (
        f"range [{start}, {end}) is older than the record, which begins at {oldest}: ask a "
        "stored record, or keep more with `history` (a fork's record begins where it branched)"
    )
