"""A shuffler between devices and server, and its privacy amplification, for information.

    reports → one per client and round → names off → random order ║ server

A server that sees reports in random order and without names learns less than each report costs: a
device hides among the others. Nothing rests on it here: every device is ε-private by itself, the
shuffler is one more party that would have to be trusted, and malicious clients are nobody to hide
among (count the honest ones). So `amplified` is stated beside the guarantee, never in its place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from tidegate.errors import InputError, SettingError
from tidegate.exact_numbers import Number, positive, whole
from tidegate.guarantee import Guarantee
from tidegate.lattice import IntArray
from tidegate.local.announcements_and_reports import Report
from tidegate.local.integer_weights import WORDS
from tidegate.local.question_assignment import slot_of
from tidegate.randomness import Randomness, secure

_LEAST_DELTA = Fraction(1, 10**100)


@dataclass(frozen=True)
class Shuffled:
    """Reports of one round in random order, without names: arrays of integers.

    >>> Shuffled("r1", np.array([0, 0]), np.array([1.5, 2]))
    Traceback (most recent call last):
        ...
    tidegate.errors.InputError: reports must be whole numbers, one for each slot
    """

    round: str
    slots: IntArray = field(repr=False)
    reports: IntArray = field(repr=False)

    def __post_init__(self) -> None:
        for name in ("slots", "reports"):
            try:
                numbers = np.asarray(getattr(self, name))
            except (ValueError, OverflowError):  # rows of different lengths
                numbers = np.empty((0, 0))
            if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
                raise InputError(f"{name} must be whole numbers, one for each slot")
            if numbers.dtype == np.uint64:  # beyond every domain anyway
                numbers = np.minimum(numbers, np.uint64(WORDS))
            object.__setattr__(self, name, numbers.astype(np.int64, copy=False))
        if self.slots.size != self.reports.size:
            raise InputError("every report needs its slot")


class Shuffler:
    """Collects the reports of one round, one from each client, and returns them shuffled.

    Where questions go by name, the server cannot see any more whether a report is to the right
    one: tell the shuffler how many `slots` there are, so that it does (see
    `tidegate.local.question_assignment`).

    >>> from fractions import Fraction
    >>> fields = dict(round="r1", phase="stream", epsilon=Fraction(1), slot=0)
    >>> shuffler = Shuffler("r1")
    >>> [shuffler.add(Report(**fields, client=name, report=1)) for name in ("a", "b", "a")]
    [True, True, False]
    >>> shuffler.release().reports
    array([1, 1])
    """

    def __init__(
        self,
        round: str,  # noqa: A002  # as in messages
        randomness: Randomness | None = None,
        *,
        slots: int | None = None,
    ) -> None:
        self.round = round
        self._slots = slots
        self._randomness = secure() if randomness is None else randomness
        self._reports: dict[str, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._reports)

    def __repr__(self) -> str:
        return f"<Shuffler round={self.round} reports={len(self)}>"

    def add(self, report: Report) -> bool:
        """Take a report; False if it is of another round, not its client's first, or to another
        question than goes with its client's name."""
        if report.round != self.round:
            return False
        if self._slots and report.slot != slot_of(self.round, report.client, self._slots):
            return False
        return self.add_pair(report.client, report.slot, report.report)

    def add_pair(self, client: str, slot: int, report: int) -> bool:
        """Take a report to a slot that was checked elsewhere; False: not its client's first."""
        if client in self._reports:
            return False
        self._reports[client] = slot, report
        return True

    def release(self) -> Shuffled:
        """All reports in random order; the shuffler forgets them and their senders."""
        pairs = np.array(list(self._reports.values()), dtype=np.int64).reshape(-1, 2)
        words = self._randomness.new_epoch().keystream("local/shuffle", b"").at()
        keys: Any = words.take(len(pairs))
        while np.unique(keys).size < keys.size:  # equal keys would keep their order
            keys = words.take(len(pairs))
        pairs = pairs[np.argsort(keys)]
        self._reports = {}
        return Shuffled(self.round, pairs[:, 0], pairs[:, 1])


def amplified(epsilon: Number, reports: int, delta: Number) -> Guarantee:
    """The central (ε, δ) of a batch of reports that went through a shuffler.

    The bound, a closed form of the clones argument (Feldman, McMillan, Talwar, 2021). Let R be an
    ε₀-private question that all n devices of the batch answer, and let one device's value be x or
    x'. Let τ = tanh(ε₀/2), L = ln(2/δ).

    1. Every other device is a clone of it with probability e^(−ε₀): as R(y) ≥ e^(−ε₀)·R(x) and
       ≥ e^(−ε₀)·R(x') pointwise, R(y) is e^(−ε₀)·½(R(x) + R(x')) mixed with something else. Say
       of every device whether it is a clone, and give away those that are not: this only helps
       the adversary. There are C ~ Binomial(n − 1, e^(−ε₀)) clones.
    2. As R(x) and R(x') are within e^ε₀ of each other, R(x) = q·Q + (1 − q)·Q' and R(x') =
       (1 − q)·Q + q·Q' for q = e^ε₀/(1 + e^ε₀) and two distributions. A clone is Q or Q' with
       probability ½ each. Give away how many of the C + 1 reports are of the kind Q: K. In random
       order nothing else depends on x.
    3. P[K = k | x]/P[K = k | x'] = (h + sτ)/(h − sτ), for h = (C + 1)/2 and s = k − h, because
       binomial weights of neighbours are as k : C + 1 − k. By Hoeffding s ≤ ½ + √(CL/2) but with
       probability δ/2; by Chernoff C ≥ c := m − √(2mL), m = (n − 1)e^(−ε₀), but with probability
       δ/2. The ratio at that s falls in C ≥ 1.

    So ε = 2·artanh(τ·(1 + √(2cL))/(c + 1)), and never more than ε₀. Different questions of a round
    do not hide each other: n is the number of reports to one of them. A value is in one batch, so
    a stream of batches has the (ε, δ) of one.

    >>> print(amplified(1, 100_000, "1/1000000000"))
    ε = 0.032..., δ = 1e-09 per event (exact arithmetic, shuffled model)
    >>> amplified(1, 10, 1e-9).epsilon  # too few to hide among
    Fraction(1, 1)
    """
    exact_epsilon, exact_delta = positive("epsilon", epsilon), positive("delta", delta)
    if not _LEAST_DELTA <= exact_delta < 1:
        raise SettingError("delta", f"must be at least {float(_LEAST_DELTA):g} and less than 1")
    count = whole("reports", reports, 1)
    local, length = float(exact_epsilon), math.log(2 / float(exact_delta))
    clones = (count - 1) * math.exp(-local)
    sure = math.ceil(clones - math.sqrt(2 * clones * length))
    apart = 1.0
    if sure >= 1:
        apart = math.tanh(local / 2) * (1 + math.sqrt(2 * sure * length)) / (sure + 1)
    if apart >= math.tanh(local / 2):
        return Guarantee(epsilon=exact_epsilon, model="local")
    mixed = 2 * math.atanh(apart) * (1 + 1e-12)  # floats: rounded against us
    return Guarantee(epsilon=mixed, delta=exact_delta, model="shuffled")


def least_hidden(epsilons: Sequence[Fraction], counts: IntArray, delta: Number) -> Guarantee | None:
    """The amplified guarantee of the reports that are hidden least; None: no reports."""
    promises = [
        amplified(epsilon, int(count), delta)
        for epsilon, count in zip(epsilons, counts, strict=True)
        if count
    ]
    return max(promises, key=lambda promise: promise.epsilon, default=None)
