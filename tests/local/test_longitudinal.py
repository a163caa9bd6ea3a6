"""Attacks over time, measured: what a memory prevents, what it cannot, what the lifetime bounds."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tidegate.errors import RefusedError
from tidegate.local.announcements_and_reports import Announcement
from tidegate.local.client import Client
from tidegate.local.device_memory import Memory
from tidegate.local.mechanisms import stochastic_rounding
from tidegate.local.questions import TailQuestion, ValueQuestion
from tidegate.randomness import seeded

ONE = Fraction(1)
QUESTION = stochastic_rounding(100, ONE)


def asked(question: Any = QUESTION, name: str = "r1", **changed: Any) -> Announcement:
    fields: dict[str, Any] = {"phase": "stream", "epsilon": ONE, "bound": Fraction(100)}
    fields |= {"resolution": ONE, "slot": 0, "round": name, "question": question}
    return Announcement(**{**fields, **changed})


def device(**changed: Any) -> Client:
    return Client(**{"epsilon": 1, "bound": 100, "memory": Memory.volatile(), **changed})


def words(seed: int) -> Any:
    return seeded(seed).new_epoch().keystream("test", b"").at()


def test_averaging_reveals_a_value_that_is_reported_on_again_and_again() -> None:
    """Without a memory: 10,000 answers of ε = 1 each tell the value to about one percent."""
    secret, errors = 37, []
    for seed in range(5):
        reports = QUESTION.answers(np.full(10_000, secret), words(seed))
        errors.append(QUESTION.decoded[reports].mean() - secret)
    assert np.abs(errors).max() < 5  # of a range of 100
    single = QUESTION.decoded[QUESTION.answers(np.full(10_000, secret), words(9))]
    assert single.std() > 90  # while one answer tells next to nothing


def test_asking_again_tells_nothing_to_a_device_with_a_memory() -> None:
    client = device()
    reports = {client.answer(asked(), 37).report for _ in range(200)}
    assert len(reports) == 1


def test_a_round_does_not_show_that_a_value_changed() -> None:
    """The report is pinned to the round, not to the value: with a memo per value, a report that
    changes says that the value did."""
    for before, after in ((0, 100), (0, 0)):
        client = device()
        first = client.answer(asked(), before)
        assert client.answer(asked(), after) == first


class MemoPerValue:
    """What we do not do: 1,000 devices that remember a report for each value."""

    def __init__(self) -> None:
        self._memos: dict[int, Any] = {}

    def answers(self, value: int) -> Any:
        if value not in self._memos:
            seed = len(self._memos)
            self._memos[value] = QUESTION.answers(np.full(1000, value), words(seed))
        return self._memos[value]


def test_a_memo_per_value_would_show_changes() -> None:
    """Half of all changes are seen at once, and none where there is none: that is no ε at all."""
    devices = MemoPerValue()
    seen = devices.answers(0) != devices.answers(100)
    assert 450 < np.count_nonzero(seen) < 700
    assert np.array_equal(devices.answers(0), devices.answers(0))


def test_new_rounds_are_averaged_up_to_the_lifetime_and_no_further() -> None:
    """A server that names the same question anew: every device stops at its lifetime."""
    client = device(lifetime=4)
    taken = 0
    for number in range(50):
        try:
            client.answer(asked(name=f"r{number}"), 37, event=f"day {number}")
            taken += 1
        except RefusedError:
            pass
    assert taken == 4
    assert client.left == 0


@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_what_all_rounds_together_tell_is_bounded_by_their_sum(rounds: int) -> None:
    """The best guess between two values from k adaptive one-bit questions of ε/k each, exactly.

    Every question costs ε/k, asked at the level between the two values: no guess is right more
    often than e^ε/(1 + e^ε), and together they come near that only for k = 1.
    """
    share = Fraction(1, rounds)
    question = TailQuestion.at(50.0, share, dither=0.0)
    lie = question.lie / 2**32
    right = 0.0
    for ones in range(rounds + 1):
        ways = math.comb(rounds, ones)
        high = ways * (1 - lie) ** ones * lie ** (rounds - ones)
        low = ways * lie**ones * (1 - lie) ** (rounds - ones)
        right += max(high, low) / 2
    limit = math.e / (1 + math.e)
    assert 0.5 < right <= limit + 1e-9
    assert right == pytest.approx(limit, abs=1e-6) or rounds > 1


def test_an_adaptive_server_learns_no_more_than_the_lifetime_allows() -> None:
    """Binary search for the value, one bit of ε = 1/4 a round: four answers, then silence."""
    quarter = Fraction(1, 4)
    right, devices = 0, 400
    for index in range(devices):
        secret = 90 if index % 2 else 10
        client, low, high = device(randomness=seeded(index)), 0.0, 100.0
        for number in range(12):
            question = TailQuestion.at((low + high) / 2, quarter, dither=0.0)
            announcement = asked(question, f"r{number}", epsilon=quarter, phase="threshold")
            try:
                bit = client.answer(announcement, secret, event=str(number)).report
            except RefusedError:
                break
            low, high = ((low + high) / 2, high) if bit else (low, (low + high) / 2)
        assert len(client.ledger) == 4
        right += ((low + high) / 2 > 50) == (secret > 50)
    # e/(1 + e) = 0.731 is the most that a total of ε = 1 allows; 4.5 sigma above it fails.
    assert right / devices < 0.731 + 4.5 * math.sqrt(0.731 * 0.269 / devices)
    assert right / devices > 0.5


def test_every_table_is_legal_but_not_their_sum() -> None:
    """Rounds that each stay within ε: refused when together they would exceed the lifetime."""
    client = device(lifetime="3/2")
    client.answer(asked(name="a"), 10, event="a")
    with pytest.raises(RefusedError, match="1/2 of its lifetime"):
        client.answer(asked(name="b"), 10, event="b")
    half = Fraction(1, 2)
    cheaper = stochastic_rounding(100, half)
    assert isinstance(cheaper, ValueQuestion)
    client.answer(asked(cheaper, "c", epsilon=half), 10, event="c")
    assert client.left == 0


def test_two_slots_of_a_round_cannot_both_be_asked() -> None:
    """Questions that differ by slot could be combined: a device answers one of them."""
    client = device(lifetime=10)
    levels = [TailQuestion.at(level, ONE, dither=0.0) for level in (25.0, 50.0, 75.0)]
    client.answer(asked(levels[0], slot=0), 60, event="a")
    for slot, level in enumerate(levels[1:], 1):
        with pytest.raises(RefusedError, match="another announcement"):
            client.answer(asked(level, slot=slot), 60, event="b")
