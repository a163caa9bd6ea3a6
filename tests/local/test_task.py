"""Tasks by time: rounds of the calendar, tallies, and intervals that hold what they say."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tests.depth import in_turn
from tests.local.devices import device
from tidegate.errors import RefusedError, SettingError
from tidegate.local.device_memory import Memory
from tidegate.local.mechanisms import hybrid, stochastic_rounding
from tidegate.local.questions import TailQuestion
from tidegate.local.server_collection import STREAM, THRESHOLD, Slot
from tidegate.local.task import RoundCalendar, RoundSums, Task, TaskRound, sums_by_time
from tidegate.local.task.task_round import round_slot_as_plain, round_slot_from_plain
from tidegate.local.topl import Topl

EPSILON = Fraction(1)
NOON = 1_763_380_800  # 2025-11-17T12:00Z


@pytest.mark.parametrize("every", ["1d", "1h", "15min", "2d", "1w"])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu", "+02:00"])
def test_rounds_follow_one_another_without_gap_or_overlap(every: str, zone: str) -> None:
    calendar = RoundCalendar(every=every, zone=zone)
    rng = np.random.default_rng(1)
    for now in rng.integers(1_700_000_000, 1_800_000_000, 50).tolist():
        number = calendar.number(now)
        assert calendar.opens(number) <= now < calendar.closes(number)
        assert calendar.number(calendar.opens(number)) == number
        assert calendar.number(calendar.closes(number) - 1) == number
        assert calendar.accepted_until(number) == calendar.closes(number) + calendar.length // 4


def test_days_are_those_of_the_zone_even_where_clocks_change() -> None:
    days = RoundCalendar(zone="Europe/Berlin", grace="2h")
    lengths = [
        days.closes(number) - days.opens(number)
        for number in range(days.number(1_711_700_000), days.number(1_711_700_000) + 4)
    ]
    assert sorted(lengths) == [82_800, 86_400, 86_400, 86_400]  # 31 March 2024
    assert days.text(days.opens(days.number(NOON))) == "2025-11-17T00:00:00+01:00"


@pytest.mark.parametrize(
    "wrong",
    [{"every": "1mo"}, {"every": "10s"}, {"every": "36h"}, {"every": "x"}, {"zone": "Mars"},
     {"grace": "60d"}, {"grace": "soon"}],
)  # fmt: skip
def test_wrong_calendars_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(SettingError, match=next(iter(wrong))):
        RoundCalendar(**wrong)


def _answered(value: object, asked: int, others: int, rng: np.random.Generator) -> RoundSums:
    """A round in which `asked` devices reported, and `others` answered for the threshold."""
    question = hybrid(50, EPSILON)
    tail = TailQuestion.at(20.0, EPSILON, dither=1.0)
    slots = [Slot(question, STREAM, EPSILON), Slot(tail, THRESHOLD, EPSILON)]
    opened = TaskRound(1)
    part = opened.open(0, slots, 0.0)
    words = tg.seeded(int(rng.integers(1 << 60))).new_epoch().keystream("test", b"").at()
    reports = question.answers(np.asarray(value)[:asked], words)
    part.counts[0] += np.bincount(reports, minlength=question.reports)
    part.counts[1][0] += others
    before = opened.open(1, slots[1:], 0.0)  # before there was a threshold
    before.counts[0][1] += others
    return RoundSums.of(opened, 1.0), RoundSums.of(opened, 1.0, 4 * (asked + 2 * others))


def _coverage(scale: float = 1.0) -> tuple[float, float]:
    """How often the 90 % intervals hold the truth; with errors that are `scale` times as large."""
    rng = np.random.default_rng(7)
    rounds, asked, others = 300, 300, 60
    held = np.zeros(2)
    for _ in range(rounds):
        population = rng.gamma(1.5, 6, 4 * (asked + 2 * others)).clip(0, 50).astype(np.int64)
        everybody = population[: asked + 2 * others]
        truths = (everybody.sum(), population.sum())
        for place, found in enumerate(_answered(everybody, asked, others, rng)):
            answer = sums_by_time([[found]], 0.9)
            half = scale * float(answer.high[0] - answer.estimate[0])
            held[place] += abs(float(answer.estimate[0]) - truths[place]) <= half
    return tuple(held / rounds)


def test_intervals_hold_what_they_say_and_would_not_if_they_were_30_percent_shorter() -> None:
    sums, totals = _coverage()
    deviation = math.sqrt(0.9 * 0.1 / 300)
    assert 0.9 - 3 * deviation < sums
    assert 0.9 - 3 * deviation < totals
    shorter = _coverage(0.7)
    assert max(shorter) < 0.9 - 3 * deviation  # a planted error is seen
    assert min(sums, totals) > max(shorter) + 3 * deviation


@pytest.mark.parametrize("reports", in_turn([1, 2, 8, 64], 0))
def test_a_few_reports_do_not_speak_for_a_whole_population(reports: int) -> None:
    """At ε = 8 reports have hardly any noise: what is not known are the other 10,000 devices."""
    rng, question, held = np.random.default_rng(8), hybrid(50, Fraction(8)), 0
    for _ in range(200):
        population = 50 * (rng.random(10_000) < 0.5)
        opened = TaskRound(1)
        part = opened.open(0, [Slot(question, STREAM, Fraction(8))], 0.0)
        words = tg.seeded(int(rng.integers(1 << 60))).new_epoch().keystream("test", b"").at()
        given = question.answers(population[:reports], words)
        part.counts[0] += np.bincount(given, minlength=question.reports)
        answer = sums_by_time([[RoundSums.of(opened, 1.0, 10_000)]])
        held += bool(answer.low[0] <= population.sum() <= answer.high[0])
    assert held / 200 > 0.9


def test_rounds_survive_json() -> None:
    slots = (
        Slot(stochastic_rounding(20, EPSILON), STREAM, EPSILON),
        Slot(TailQuestion.at(20.0, EPSILON, dither=1.0), THRESHOLD, Fraction(1, 2)),
    )
    opened = TaskRound(5)
    part = opened.open(3, slots, 0.25)
    part.handed = 9
    part.counts[0][1] += 4
    opened.open(-1, slots[:1], 0.0)
    known = {
        name: round_slot_from_plain(json.loads(json.dumps(round_slot_as_plain(slot))))
        for name, slot in zip(part.names, part.slots, strict=True)
    }
    again = TaskRound.from_plain(json.loads(json.dumps(opened.plain())), known)
    assert again.plain() == opened.plain()
    assert again.parts[0].slots == slots
    assert [opened.unanswered(slot) for slot in range(4)] == [1, 4, 0, 0]


def test_a_device_spends_its_epsilon_once_however_often_it_is_asked_and_whatever_is_lost() -> None:
    """Stickiness, retries and grace cost nothing more: the transcript is one pinned report."""
    task = Task("T" * 43, Topl(epsilon=1, bound=100, threshold=20), RoundCalendar())
    client, said = device(Memory.volatile(), lifetime=2), set()
    handed = task.hand_out(NOON)
    assert handed is not None
    for value in range(50):  # asked again and again, whatever its value is by then
        said.add(client.answer(task.announcement(*handed), value, event="today").json())
    assert len(said) == 1
    other = task.hand_out(NOON + 86_400)  # the next round, about the same event
    assert other is not None
    with pytest.raises(RefusedError, match="reported on in another round"):
        client.answer(task.announcement(*other), 7, event="today")
    part = task.rounds[handed[0]].open(7, task.collection.slots, 0.0)
    with pytest.raises(RefusedError, match="another announcement"):  # not sticky: it refuses
        client.answer(task.announcement(handed[0], part.first), 7, event="today")
    assert [pin.epsilon for pin in client.ledger] == [EPSILON]
