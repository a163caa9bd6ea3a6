"""Shuffling: one report per client, no names, a fair order; and what it is worth."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

import tidegate as tg
from tests.depth import in_turn
from tidegate.errors import SettingError
from tidegate.local.announcements_and_reports import Report
from tidegate.local.shuffle import Shuffler, amplified


def report(client: str, answer: int = 0, **changed: Any) -> Report:
    fields: dict[str, Any] = {"round": "r1", "phase": "stream", "epsilon": Fraction(1), "slot": 0}
    return Report(**{**fields, **changed}, client=client, report=answer)


def test_one_report_per_client_and_only_of_the_round() -> None:
    shuffler = Shuffler("r1")
    assert shuffler.add(report("a", 1))
    assert not shuffler.add(report("a", 2))  # the first one counts
    assert not shuffler.add(report("b", 3, round="r0"))
    assert shuffler.add(report("b", 4, slot=1))
    mixed = shuffler.release()
    assert mixed.round == "r1"
    pairs = sorted(zip(mixed.slots.tolist(), mixed.reports.tolist(), strict=True))
    assert pairs == [(0, 1), (1, 4)]


def test_names_do_not_leave_and_nothing_stays_behind() -> None:
    shuffler = Shuffler("r1")
    shuffler.add(report("account-17", 1))
    assert len(shuffler) == 1
    mixed = shuffler.release()
    assert "account" not in repr(vars(mixed)) + repr(vars(shuffler))
    assert len(shuffler) == 0
    assert shuffler.release().reports.size == 0


def test_every_order_is_as_likely_as_any_other() -> None:
    orders: dict[tuple[int, ...], int] = {}
    count = 2400
    for _ in range(count):
        shuffler = Shuffler("r1")
        for index in range(3):
            shuffler.add(report(str(index), index))
        order = tuple(shuffler.release().reports.tolist())
        orders[order] = orders.get(order, 0) + 1
    assert len(orders) == 6
    assert stats.chisquare(list(orders.values())).pvalue > 1e-6


def test_an_order_can_be_repeated_in_a_simulation() -> None:
    orders = []
    for _ in range(2):
        shuffler = Shuffler("r1", tg.seeded(4))
        for index in range(50):
            shuffler.add(report(str(index), index))
        orders.append(shuffler.release().reports.tolist())
    assert orders[0] == orders[1] != sorted(orders[0])


# -- what it is worth -----------------------------------------------------------------------------


def exact_delta(local: float, epsilon: float, count: int) -> float:
    """δ of the clones' pair of distributions at ε, summed up: what the closed form must not beat.

    P[C = c]·max(0, P[K = k | x] − e^ε·P[K = k | x']), over all c and k.
    """
    truth = math.exp(local) / (1 + math.exp(local))
    total = 0.0
    for clones in range(count):
        share = stats.binom.pmf(clones, count - 1, math.exp(-local))
        if share < 1e-18:
            continue
        kinds = np.arange(clones + 2)
        below, here = (stats.binom.pmf(kinds - 1, clones, 0.5), stats.binom.pmf(kinds, clones, 0.5))
        left, right = truth * below + (1 - truth) * here, (1 - truth) * below + truth * here
        total += share * np.maximum(left - math.exp(epsilon) * right, 0).sum()
    return total


BOUNDS = [
    (0.5, 500, 1e-4), (0.5, 1500, 1e-5), (1.0, 400, 1e-4), (2.0, 1500, 1e-3), (0.1, 300, 1e-6)
]  # fmt: skip


@pytest.mark.parametrize(
    ("local", "count", "delta"),
    in_turn(BOUNDS, 0),
)
def test_the_bound_holds_and_is_not_idle(local: float, count: int, delta: float) -> None:
    epsilon = float(amplified(local, count, delta).epsilon)
    assert epsilon < local
    assert exact_delta(local, epsilon, count) <= delta
    # Conservative, but by a factor of less than three: at a third of it the pair is further apart.
    assert exact_delta(local, epsilon / 3, count) > delta


def test_it_does_not_claim_what_a_real_question_breaks() -> None:
    """Randomized response of all devices: the number of ones, exactly."""
    local, count, delta = 1.0, 500, 1e-4
    epsilon = float(amplified(local, count, delta).epsilon)
    lie = 1 / (1 + math.e)
    others = stats.binom.pmf(np.arange(-1, count + 1), count - 1, lie)  # all others say no
    one, zero = others[:-1], others[1:]  # the device's bit is 1, or 0
    yes, no = (1 - lie) * one + lie * zero, lie * one + (1 - lie) * zero
    for left, right in ((yes, no), (no, yes)):
        assert np.maximum(left - math.exp(epsilon) * right, 0).sum() <= delta


def test_it_grows_with_epsilon_and_falls_with_the_crowd_and_with_delta() -> None:
    at = {n: float(amplified(1, n, 1e-9).epsilon) for n in (10**3, 10**4, 10**5, 10**6, 10**9)}
    assert sorted(at.values(), reverse=True) == list(at.values())
    # As one over the root of the crowd.
    assert at[10**9] == pytest.approx(at[10**5] / 100, rel=0.05)
    assert amplified(1, 10**5, 1e-12).epsilon > at[10**5] > amplified(1, 10**5, 1e-6).epsilon
    assert amplified(2, 10**5, 1e-9).epsilon > at[10**5] > amplified(0.5, 10**5, 1e-9).epsilon


@pytest.mark.parametrize(("local", "count"), [(1, 1), (1, 2), (1, 100), (12, 10**6), (50, 10**9)])
def test_where_nobody_hides_the_local_guarantee_stays(local: int, count: int) -> None:
    promise = amplified(local, count, 1e-9)
    assert (promise.epsilon, promise.delta, promise.model) == (local, 0, "local")


def test_the_amplified_guarantee_does_not_pass_for_another() -> None:
    promise = amplified(1, 10**5, 1e-9)
    assert promise.model == "shuffled"
    with pytest.raises(SettingError, match="models"):
        tg.sequential(promise, tg.Guarantee(epsilon=Fraction(1)))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("epsilon", (0, 10, 0.1)),
        ("epsilon", ("nan", 10, 0.1)),
        ("reports", (1, 0, 0.1)),
        ("reports", (1, 1.5, 0.1)),
        ("delta", (1, 10, 0)),
        ("delta", (1, 10, 1)),
        ("delta", (1, 10, "1e-101")),
    ],
)
def test_bad_settings_are_named(name: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(SettingError) as caught:
        amplified(*arguments)
    assert caught.value.setting == name
