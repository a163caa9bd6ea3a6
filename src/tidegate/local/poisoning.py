"""How far malicious clients can move an answer.

A client may send whatever it likes. What the server can do is to take one report from each and none
outside the question's domain; then a report is worth at least lo and at most hi, the smallest and
the largest column of the table. Let a fraction f of the positions of a range be malicious:

- Compared with the same run in which these clients are honest, the sum moves by at most
  f·length·(hi − lo): **sure**, whatever was drawn.
- An honest report has its value for its mean, between 0 and θ (from −θ⁻ on where values may lie
  below 0). So the **expected** sum moves by at most f·length·max(hi + θ⁻, θ − lo), and it does so
  if all of them send hi where others would have the least value.
- Clients who keep to the protocol and **lie** about their value move it by up to
  f·length·(θ + θ⁻), here as in any other system. `amplification`, the ratio of the two, is what
  noise on the device adds to that: e^ε/(e^ε − 1) for stochastic rounding, so much where ε is small.

θ itself comes from reports too: `tail_shift` says how far the share of values above a level, from
which the threshold is chosen, can be moved. Small fractions suffice to move θ, and with it the
error of all answers (up to the bound, which nothing exceeds): θ is no secret, so look at it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tidegate.errors import SettingError
from tidegate.local.integer_weights import WORDS
from tidegate.local.questions import TailQuestion, ValueQuestion


@dataclass(frozen=True, kw_only=True)
class PoisoningBound:
    """The effect of a fraction of malicious clients on range sums, in units of the data.

    Attributes:
        fraction: of the positions of a range.
        threshold: θ.
        lowest, highest: what a single report is worth at least and at most.
        least: −θ⁻: smaller values count as this.

    >>> bound = PoisoningBound(fraction=0.01, threshold=100.0, lowest=-58.0, highest=158.0)
    >>> bound.expected(1000), bound.sure(1000), bound.by_lying(1000)
    (1580.0, 2160.0, 1000.0)
    """

    fraction: float
    threshold: float
    lowest: float
    highest: float
    least: float = 0.0

    def expected(self, length: int) -> float:
        """The largest shift of the expected sum over `length` positions."""
        return self.amplification * self.by_lying(length)

    def sure(self, length: int) -> float:
        """The largest shift of the sum, whatever the honest clients draw."""
        return self.fraction * length * (self.highest - self.lowest)

    def by_lying(self, length: int) -> float:
        """The largest shift if malicious clients only lie about their values."""
        return self.fraction * length * (self.threshold - self.least)

    @property
    def amplification(self) -> float:
        """How many times further arbitrary reports shift a sum than lies about values."""
        farthest = max(self.highest - self.least, self.threshold - self.lowest)
        return farthest / (self.threshold - self.least)


def poisoning_bound_of(
    question: ValueQuestion, fraction: float, step: float = 1.0
) -> PoisoningBound:
    """The bound for reports that answer this question."""
    return PoisoningBound(
        fraction=_checked_poisoning(fraction),
        threshold=question.threshold * step,
        lowest=float(question.decoded.min()) * step,
        highest=float(question.decoded.max()) * step,
        least=question.lowest * step,
    )


def tail_shift(question: TailQuestion, fraction: float) -> float:
    """How far the expected share of values above a level moves at most, if this fraction of the
    answers to the question is malicious.

    Honest bits are 1 with probability lie to 1 − lie; malicious ones move their share by at most
    1 − lie, and the estimate divides by 1 − 2·lie. So fraction·e^ε/(e^ε − 1).

    >>> from fractions import Fraction
    >>> round(tail_shift(TailQuestion.at(20.0, Fraction(1), dither=1.0), 0.01), 4)
    0.0158
    """
    lie = question.lie / WORDS
    if lie >= 0.5:
        return math.inf
    return _checked_poisoning(fraction) * (1 - lie) / (1 - 2 * lie)


def _checked_poisoning(fraction: float) -> float:
    if isinstance(fraction, bool) or not isinstance(fraction, int | float):
        raise SettingError("fraction", "must be a number from 0 to 1")
    if not 0 <= fraction <= 1:
        raise SettingError("fraction", f"must lie between 0 and 1, not {fraction}")
    return float(fraction)
