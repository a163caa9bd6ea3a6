"""`Mean`: a sum over the number of its rows; `Ratio`: one sum over another (Fieller's interval).

Let A and B be estimates with independent errors of half-widths a and b at some confidence. A ratio
r is in the interval if A − rB is no further from 0 than its own half-width:

    (A − rB)² ≤ a² + r²b²     a quadratic in r: (B² − b²)r² − 2ABr + (A² − a²) ≤ 0

For normal errors that is Fieller's exact interval: it holds r with the confidence of a and b,
however close B is to 0. Intervals of answers may reach further to one side: below the estimate of
r the error of A downwards and of B upwards count, above it the others. If B may be 0
(b ≥ |B|), every ratio is possible, and there is no answer.

Noise of different columns is independent. Errors of predictions are taken for independent too:
where both columns rise and fall together, the interval is too wide rather than too narrow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tidegate.errors import QueryError
from tidegate.record.answer import Answer


@dataclass(frozen=True)
class Mean:
    """The mean of the values of a range, with its interval; for events, of the sums of its ticks.

    Attributes:
        sum: of the range.
        rows: how many it has.

    >>> import tidegate as tg
    >>> release = tg.flat(epsilon=1, bound=10, holdout=0).start()
    >>> _ = release.push([4] * 100)
    >>> mean = Mean.of(release.query(0, 100))
    >>> mean.low < mean.estimate < mean.high
    True
    """

    sum: Answer
    rows: int

    @classmethod
    def of(cls, answer: Answer) -> Mean:
        """The mean from a sum, over all its rows.

        Raises:
            QueryError: it has none.
        """
        rows = answer.end - answer.start
        if not rows:
            raise QueryError("there is no row in this range, and so no mean")
        return cls(answer, rows)

    @property
    def estimate(self) -> float:
        """The mean."""
        return self.sum.estimate / self.rows

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.sum.low / self.rows

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.sum.high / self.rows

    @property
    def standard_error(self) -> float:
        """The standard error of the estimate."""
        return self.sum.standard_error / self.rows

    @property
    def confidence(self) -> float:
        """The probability that the interval contains the mean."""
        return self.sum.confidence

    def __str__(self) -> str:
        note = f". {self.sum.note}" if self.sum.note else ""
        return (
            f"mean of {self.rows:,} rows: {self.estimate:.6g} "
            f"({self.confidence:.0%}: {self.low:.6g} to {self.high:.6g}), "
            f"values were {self.sum.cut}{note}"
        )


@dataclass(frozen=True)
class Ratio:
    """A ratio of two sums over the same rows.

    Attributes:
        estimate: the ratio of the estimates.
        low, high: the interval that holds the ratio with `confidence`; of `capped` sums, the ratio
            of these.
        numerator, denominator: the sums.
    """

    estimate: float
    low: float
    high: float
    confidence: float
    numerator: Answer
    denominator: Answer

    @property
    def capped(self) -> bool:
        """Whether the sums are of capped values."""
        return self.numerator.capped or self.denominator.capped

    @property
    def warnings(self) -> list[str]:
        """Warnings about the two sums; may be empty."""
        parts = {"numerator": self.numerator, "denominator": self.denominator}
        return [f"{name}: {one.warning}" for name, one in parts.items() if one.warning]

    def __str__(self) -> str:
        what = "ratio of sums of capped values" if self.capped else "ratio"
        sure = f"{self.confidence:.0%}"
        said = "".join(f" ({warning})" for warning in self.warnings)
        rows = f"[{self.numerator.start}, {self.numerator.end})"
        interval = f"({sure}: {self.low:.5g} to {self.high:.5g})"
        return f"{what} over {rows}: {self.estimate:.5g} {interval}{said}"


def ratio(numerator: Answer, denominator: Answer) -> Ratio:
    """The ratio of two answers about the same rows with independent errors.

    Raises:
        QueryError: the denominator may be 0.
    """
    if numerator.confidence != denominator.confidence:
        raise QueryError("both sums of a ratio need the same confidence")
    sides = [(one.estimate, *_sides_of_mean(one)) for one in (numerator, denominator)]
    (a, a_below, a_above), (b, b_below, b_above) = sides
    if not denominator.low > 0 and not denominator.high < 0:
        raise QueryError(
            "the denominator may be 0 over this range: ask for a longer one, or give "
            "its column more of the budget"
        )
    sign = 1.0
    if b < 0:
        b, b_below, b_above, sign = -b, b_above, b_below, -sign
    if a < 0:
        a, a_below, a_above, sign = -a, a_above, a_below, -sign
    crossing = a < a_below  # then r may be negative, where the sides of B change places
    low = _root_of_ratio(a, a_below, b, max(b_below, b_above) if crossing else b_above, upper=False)
    high = _root_of_ratio(a, a_above, b, b_below, upper=True)
    if sign < 0:
        low, high = -high, -low
    return Ratio(sign * a / b, low, high, numerator.confidence, numerator, denominator)


def _sides_of_mean(answer: Answer) -> tuple[float, float]:
    """The reach of a sum's interval below and above, as errors that combine with others.

    An end that was moved to what is possible at most (`within_bounds`) is no error of chance: two
    of these do not average out, and the interval of a ratio would be too short. There the error of
    noise and prediction counts. Moved to 0 it may stay: r = 0 is then an end of the interval.
    """
    from statistics import NormalDist  # on demand: importing it is slow

    normal = NormalDist().inv_cdf((1 + answer.confidence) / 2)
    quantile = min(normal, -math.log(1 - answer.confidence) / math.sqrt(2))
    least = quantile * math.hypot(answer.noise_error, answer.prediction_error)
    below = answer.estimate - answer.low
    return below if answer.low == 0 else max(below, least), max(
        answer.high - answer.estimate, least
    )


def _root_of_ratio(a: float, a_half: float, b: float, b_half: float, *, upper: bool) -> float:
    """The solution of (A − rB)² = a² + r²b² below or above A/B."""
    square = b * b - b_half * b_half
    if square <= 0:
        return math.inf if upper else -math.inf
    middle = a * b / square
    spread = math.sqrt(max(0.0, middle * middle - (a * a - a_half * a_half) / square))
    return middle + spread if upper else middle - spread
