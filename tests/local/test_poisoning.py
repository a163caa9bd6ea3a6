"""Malicious clients: the attack is mounted, the bound holds, and it is reached."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.local.devices import reply
from tidegate.local.mechanisms import hybrid, piecewise, stochastic_rounding
from tidegate.local.poisoning import poisoning_bound_of, tail_shift
from tidegate.local.questions import TailQuestion, ValueQuestion
from tidegate.local.server import Server
from tidegate.local.shuffle import Shuffled
from tidegate.local.topl import Topl
from tidegate.randomness import seeded

COUNT, FRACTION = 4000, 0.05
ATTACKERS = int(COUNT * FRACTION)


def words(seed: int) -> Any:
    return seeded(seed).new_epoch().keystream("test", b"").at()


def collected(server: Server, reports: Any) -> Server:
    received = server.collect_shuffled(Shuffled(server.round, np.zeros_like(reports), reports))
    assert received.accepted == len(reports)
    return server


def run(topl: Topl, value: int, column: int | None, seed: int) -> tuple[Server, float]:
    """A stream of one value; a fraction of its clients send `column` instead (None: none)."""
    server = topl.server()
    question = server.announcements[0].question
    reports = question.answers(np.full(COUNT, value), words(seed))
    if column is not None:
        reports[:ATTACKERS] = column
    return server, collected(server, reports).query(0, COUNT).estimate


@pytest.mark.parametrize("epsilon", ["1/2", "2"])
@pytest.mark.parametrize("report", ["stochastic-rounding", "piecewise", "hybrid"])
def test_the_attack_stays_within_the_bound_and_reaches_it(report: str, epsilon: str) -> None:
    topl = Topl(epsilon=epsilon, bound=1000, resolution=1, threshold=100, report=report)
    server = topl.server()
    question = server.announcements[0].question
    assert isinstance(question, ValueQuestion)
    bound = server.poisoning_bound(FRACTION)
    most, least = int(np.argmax(question.decoded)), int(np.argmin(question.decoded))
    for value, column in ((0, most), (100, least)):
        moved = []
        for seed in range(6):
            _, honest = run(topl, value, None, seed)
            _, attacked = run(topl, value, column, seed)
            moved.append(abs(attacked - honest))
            assert moved[-1] <= bound.sure(COUNT) * (1 + 1e-9)
        # Of the same honest randomness: what is left to chance is what the attackers would have
        # sent, ATTACKERS reports of the stated variance.
        noise = np.sqrt(ATTACKERS * 6 * question.variance(np.array([1.0]))[0]) * 50 / 6
        assert np.mean(moved) <= bound.expected(COUNT) + 5 * noise
        assert np.mean(moved) >= bound.expected(COUNT) - 5 * noise
        assert 5 * noise < bound.expected(COUNT) / 2  # else this would show nothing


def test_the_bound_speaks_of_the_largest_threshold_that_was_in_use() -> None:
    server = Topl(epsilon=1, bound=1000, resolution=1, threshold=100, report="hybrid").server()
    now = server.poisoning_bound(0.1)
    server.collection.collected.begin(250.0)
    later = server.poisoning_bound(0.1)
    assert later.threshold == 250
    assert later.expected(10) == pytest.approx(2.5 * now.expected(10))
    server.collection.collected.begin(50.0)
    assert server.poisoning_bound(0.1) == later


def test_no_other_column_does_more() -> None:
    question = hybrid(100, Fraction(1))
    bound = poisoning_bound_of(question, 1.0)
    assert bound.highest == question.decoded.max()
    assert bound.lowest == question.decoded.min()
    honest = [0.0, 100.0]
    shifts = [abs(worth - mean) for worth in question.decoded for mean in honest]
    assert max(shifts) == pytest.approx(bound.expected(1))


@pytest.mark.parametrize("epsilon", [Fraction(1, 5), Fraction(1), Fraction(3)])
def test_noise_amplifies_lies_as_stated(epsilon: Fraction) -> None:
    power = np.exp(float(epsilon))
    bound = poisoning_bound_of(stochastic_rounding(100, epsilon), 0.1)
    assert bound.amplification == pytest.approx(power / (power - 1), rel=1e-6)
    assert bound.by_lying(10) == pytest.approx(100)
    assert bound.expected(10) == pytest.approx(100 * power / (power - 1), rel=1e-6)
    assert poisoning_bound_of(piecewise(100, epsilon), 0.1).amplification > 1


def test_one_client_with_many_reports_counts_once() -> None:
    """The attack that deduplication is for."""
    topl = Topl(epsilon=1, bound=1000, resolution=1, threshold=100, report="hybrid")
    server, honest = run(topl, 0, None, 1)
    asked = server.announcements[0]
    question = asked.question
    assert isinstance(question, ValueQuestion)
    flood = reply(asked, "the-same", int(np.argmax(question.decoded)))
    received = server.collect_many([flood.json()] * 1000)
    assert (received.accepted, received.rejected) == (1, {"duplicate": 999})
    after = server.query(0, COUNT + 1).estimate
    assert after - honest == pytest.approx(question.decoded.max())


def test_values_beyond_every_report_cannot_be_sent() -> None:
    topl = Topl(epsilon=1, bound=1000, resolution=1, threshold=100, report="hybrid")
    server = topl.server()
    asked = server.announcements[0]
    report = reply(asked, "a", asked.question.reports)
    assert server.collect_many([report]).rejected == {"domain": 1}


def test_bits_that_are_all_yes_move_a_share_as_far_as_stated_and_no_further() -> None:
    question, count = TailQuestion.at(50.0, Fraction(1), dither=1.0), 200_000
    bits = question.answers(np.zeros(count, dtype=np.int64), words(3))
    honest = question.share_above(bits.sum(), count)
    bits[: int(FRACTION * count)] = 1
    moved = question.share_above(bits.sum(), count) - honest
    assert moved == pytest.approx(tail_shift(question, FRACTION), rel=0.02)


def test_a_small_fraction_moves_the_threshold_which_is_said_and_not_hidden() -> None:
    """Five in a hundred who always answer yes: the threshold rises to the bound, and no further."""
    topl = Topl(epsilon=1, bound=2000, holdout=20_000, keep_asking=False, report="hybrid")
    thresholds = []
    for fraction in (0.0, 0.05):
        collection = topl.collection()
        stream = words(5)
        values = np.random.default_rng(1).geometric(0.1, 20_000)
        at = 0
        while collection.threshold is None:
            left = collection.left
            assert left is not None
            slots = np.arange(left) % len(collection.slots)
            reports = np.zeros(left, dtype=np.int64)
            for index, slot in enumerate(collection.slots):
                mine = slots == index
                reports[mine] = slot.question.answers(values[at : at + left][mine], stream)
            reports[np.arange(left) % 100 < 100 * fraction] = 1
            collection.receive(slots, reports)
            at += left
        thresholds.append(collection.threshold)
    honest, attacked = thresholds
    assert honest < 200
    assert 10 * honest < attacked <= 2000
