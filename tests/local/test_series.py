"""Series of users: what a user's reports cost, exactly; what the server makes of them."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tidegate.errors import InputError, RefusedError, SettingError
from tidegate.local.integer_weights import WORDS, coin_weights
from tidegate.local.series import Changes, PopulationDivision, Updates, simulate
from tidegate.local.series import devices as devices_module
from tidegate.local.series import randomized_response as coins
from tidegate.local.series.collectors import PopulationCollector
from tidegate.local.series.devices import ChangeDevices, PopulationDevices, UpdateDevices

STEPS = 16
USERS = 20_000


def words(name: str = "series") -> Any:
    return tg.seeded(5).new_epoch().keystream(name, b"").at()


# -- what a user's reports cost -------------------------------------------------------------------


def signs_law(scheme: Changes, series: tuple[int, ...]) -> dict[tuple[Any, ...], Fraction]:
    """P(level, signs) of one user, in exact fractions, from the words of the docstring."""
    lie, truth = (Fraction(weight, WORDS) for weight in coin_weights(scheme.epsilon))
    changes = [
        (step, now - before) for step, (before, now) in enumerate(itertools.pairwise((0, *series)))
        if now != before
    ]  # fmt: skip
    found: dict[tuple[Any, ...], Fraction] = {}
    for level, kept in itertools.product(range(scheme.levels), range(scheme.changes)):
        nodes = len(series) >> level
        held = dict([changes[kept]]) if kept < len(changes) else {}
        signs = {step >> level: change for step, change in held.items()}
        plus = [
            Fraction(1, 2) if node not in signs else truth if signs[node] > 0 else lie
            for node in range(nodes)
        ]
        for outcome in itertools.product((False, True), repeat=nodes):
            chance = Fraction(1, scheme.levels * scheme.changes)
            for up, share in zip(outcome, plus, strict=True):
                chance *= share if up else 1 - share
            found[level, outcome] = found.get((level, outcome), Fraction(0)) + chance
    return found


def worst_loss(scheme: Changes) -> float:
    laws = [signs_law(scheme, series) for series in itertools.product((0, 1), repeat=4)]
    return max(
        math.log(first[outcome] / second[outcome])
        for first, second in itertools.permutations(laws, 2)
        for outcome in first
    )


def test_changes_cost_a_whole_series_at_most_epsilon() -> None:
    """All pairs of series of four steps, all outcomes."""
    one = Changes(epsilon=1, horizon=4, changes=1)
    assert 0.9 < worst_loss(one) <= 1 + 1e-12  # one change: ε is attained
    assert worst_loss(Changes(epsilon=1, horizon=4, changes=2)) <= 1
    assert one.guarantee.epsilon == 1
    assert one.guarantee.neighbours.startswith("two streams that differ in one user's whole series")


def test_devices_draw_the_law_of_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frequencies of (level, signs) of 40,000 users with one series; a planted 30 % is seen."""
    scheme = Changes(epsilon=2, horizon=4, changes=2)
    series = (0, 1, 1, 0)

    def excess() -> float:
        law = signs_law(scheme, series)
        devices = ChangeDevices(scheme, 40_000, words())
        sent: list[list[bool]] = [[] for _ in range(40_000)]
        for value in series:
            users, plus = devices.push(np.full(40_000, bool(value)))
            for user, up in zip(users.tolist(), plus.tolist(), strict=True):
                sent[user].append(up)
        seen: dict[tuple[Any, ...], int] = {}
        for level, signs in zip(devices.levels.tolist(), sent, strict=True):
            seen[level, tuple(signs)] = seen.get((level, tuple(signs)), 0) + 1
        expected = {outcome: 40_000 * float(chance) for outcome, chance in law.items()}
        chi = sum((seen.get(key, 0) - mean) ** 2 / mean for key, mean in expected.items())
        return (chi - len(expected)) / math.sqrt(2 * len(expected))

    assert abs(excess()) < 4
    right = coins.coin_weights
    monkeypatch.setattr(coins, "coin_weights", lambda epsilon: right(epsilon * Fraction(13, 10)))
    assert excess() > 4


def test_a_user_votes_and_reports_no_more_often_than_its_budget_says() -> None:
    scheme = Updates(epsilon=4, epoch=2, votes=2, updates=3)
    assert 2 * scheme.votes * scheme.vote_epsilon == 2
    assert scheme.updates * scheme.report_epsilon == 2
    assert scheme.guarantee.epsilon == 4
    devices = UpdateDevices(scheme, USERS, words())
    truth = []
    for _ in range(5):
        for _ in range(scheme.epoch):
            devices.push(np.ones(USERS, dtype=np.bool_))
        votes = devices.vote(Fraction(0))  # always out of date
        truth.append(coins.share_of_responses(int(votes.sum()), USERS, scheme.vote_epsilon))
        devices.close()
    assert np.abs(np.array(truth) - [1, 1, 0, 0, 0]).max() < 0.2
    reported = []
    for _ in range(5):
        for _ in range(scheme.epoch):
            devices.push(np.ones(USERS, dtype=np.bool_))
        reported.append(devices.report().mean())
        devices.close()
    lie, truth_weight = coin_weights(scheme.report_epsilon)
    expected = [truth_weight / WORDS] * 3 + [0.5] * 2  # then fair coins
    assert np.abs(np.array(reported) - expected).max() < 5 * 0.5 / USERS**0.5
    assert lie < truth_weight


def test_updates_cost_a_whole_series_at_most_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pairs of series of four epochs along all courses of what is published: ε is attained."""
    scheme = Updates(epsilon=3, epoch=1, votes=1, updates=2, moved="1/2")
    series = np.array(list(itertools.product((False, True), repeat=4))).T  # 16 users
    told: list[tuple[Any, Fraction]] = []  # the bits that coins are tossed for, and their ε

    def recorded(bits: Any, epsilon: Fraction, _: Any) -> Any:
        told.append((bits.copy(), epsilon))
        return bits

    def fair(count: int, _: Any) -> Any:
        told.pop()  # what is sent does not depend on these bits
        return np.zeros(count, dtype=np.bool_)

    monkeypatch.setattr(devices_module, "randomized_bits", recorded)
    monkeypatch.setattr(devices_module, "fair_response", fair)
    worst = Fraction(0)
    for means in itertools.product((Fraction(0), Fraction(1)), repeat=4):
        for updates in itertools.product((False, True), repeat=4):
            told.clear()
            devices = UpdateDevices(scheme, 16, words())
            for values, mean, update in zip(series, means, updates, strict=True):
                devices.push(values)
                devices.vote(mean)
                if update:
                    devices.report()
                devices.close()
            losses = sum((bits[:, None] != bits) * epsilon for bits, epsilon in told)
            worst = max(worst, np.asarray(losses).max())
    assert worst == 3  # a device that counted 30 % less would be above


def test_a_device_refuses_to_report_twice_within_a_window() -> None:
    scheme = PopulationDivision(epsilon=1, window=3)
    devices = PopulationDevices(scheme, 4, words())
    values = np.array([True, False, True, False])
    asked = np.array([0, 1])
    devices.push(values)
    assert devices.report(asked).size == 2
    for _ in range(2):
        devices.push(values)
        with pytest.raises(RefusedError, match="may report once in 3 steps"):
            devices.report(asked)
    devices.push(values)
    assert devices.report(asked).size == 2
    for twice_or_nobody in ([3, 3], [3, -1], [4], [[2], [3]], [False, True], [2.0]):
        with pytest.raises(RefusedError):
            devices.report(np.array(twice_or_nobody))
    assert devices.report(np.array([2, 3])).shape == (2,)
    assert scheme.guarantee.unit == "window of 3 consecutive values"


def test_an_array_that_is_written_to_again_is_no_other_series() -> None:
    """The steps of one buffer are the steps of a table."""
    scheme = Changes(epsilon=8, horizon=4, changes=1)
    table = np.zeros((4, 500), dtype=np.bool_)
    table[1:] = True
    buffer, sent = np.empty(500, dtype=np.bool_), []
    devices = [ChangeDevices(scheme, 500, words()) for _ in range(2)]
    for row in table:
        buffer[:] = row
        for device, values in zip(devices, (row, buffer), strict=True):
            sent.append([column.tolist() for column in device.push(values)])
    assert sent[::2] == sent[1::2]


def test_no_error_tells_how_often_a_bit_was_set() -> None:
    """An epoch that goes on too long is refused, and nothing of it is lost."""
    devices = UpdateDevices(Updates(epsilon=4, epoch=2), 3, words())
    values = np.array([True, False, True])
    for _ in range(2):
        devices.push(values)
    with pytest.raises(RefusedError, match="an epoch has 2 steps"):
        devices.push(values)
    assert devices.vote(Fraction(0)).size == devices.report().size == 3
    devices.close()
    devices.push(values)


@pytest.mark.parametrize("epsilon", ["1/10", "1", "3"])
def test_a_told_bit_costs_at_most_epsilon(epsilon: str) -> None:
    cost = Fraction(epsilon)
    lie, truth = coin_weights(cost)
    assert math.log(Fraction(truth, lie)) <= float(cost) * (1 + 1e-12)
    share = coins.randomized_bits(np.ones(USERS, dtype=np.bool_), cost, words()).mean()
    spread = 0.5 / USERS**0.5
    assert abs(share - truth / WORDS) < 4 * spread
    planted = coin_weights(cost * Fraction(13, 10))[1] / WORDS
    if cost >= 1:  # at 1/10, 30 % of ε are 0.7 % of the coin
        assert abs(share - planted) > 4 * spread


# -- what the server makes of them ----------------------------------------------------------------

SERIES = tg.synthetic.user_series(users=USERS, steps=STEPS * 4, seed=1)


def test_by_hand_one_change_of_all_users() -> None:
    """All users set their bit at step 2 of 4: the mean goes from 0 to 1, in the tree as well."""
    scheme = Changes(epsilon=8, horizon=4, changes=1)
    series = np.zeros((4, USERS), dtype=np.bool_)
    series[2:] = True
    published = simulate(scheme, series, tg.seeded(2))
    # Var = levels·(nodes of the prefix)/(contrast²·users), at most.
    spread = math.sqrt(3 * 2 / coins.response_contrast(Fraction(8)) ** 2 / USERS)
    assert np.abs(published - [0, 0, 1, 1]).max() < 5 * spread


def test_means_are_near_the_truth_and_unbiased() -> None:
    truth = SERIES.mean(axis=1)
    assert SERIES.dtype == np.bool_
    changes = Changes(epsilon=4, horizon=64, changes=4)
    runs = np.array([simulate(changes, SERIES, tg.seeded(seed)) for seed in range(8)])
    spread = runs.std(axis=0, ddof=1) / 8**0.5
    assert np.abs((runs.mean(axis=0) - truth) / spread).mean() < 2
    for division in ("absorption", "uniform"):
        scheme = PopulationDivision(epsilon=2, window=8, division=division)
        published = simulate(scheme, SERIES, tg.seeded(3))
        assert np.abs(published - truth).mean() < 0.06


def test_absorption_beats_uniform_where_little_changes() -> None:
    """The published order: LPA before LPU on a stable stream."""
    still = np.zeros((STEPS * 4, USERS), dtype=np.bool_)
    still[:, : USERS // 3] = True
    errors = {}
    for division in ("absorption", "uniform"):
        scheme = PopulationDivision(epsilon=1, window=16, division=division)
        published = simulate(scheme, still, tg.seeded(4))
        errors[division] = float(np.square(published - 1 / 3)[STEPS:].mean())
    assert errors["absorption"] < errors["uniform"] / 2


def test_updates_follow_a_jump_and_rest_otherwise() -> None:
    series = np.zeros((96, USERS), dtype=np.bool_)
    series[48:, : USERS * 9 // 10] = True
    scheme = Updates(epsilon=8, epoch=8, votes=2, updates=3)
    published = simulate(scheme, series, tg.seeded(5))
    updated = (np.flatnonzero(np.diff(published)) + 2).tolist()  # steps count from 1
    assert updated[0] == 8
    assert 56 in updated
    assert len(updated) <= 3
    assert abs(published[-1] - 0.9) < 0.05


def test_nobody_is_asked_who_would_refuse() -> None:
    """Whatever the reports say: here they are noise alone."""
    scheme = PopulationDivision(epsilon="1/5", window=5)
    devices, server = (
        PopulationDevices(scheme, 40, words()),
        PopulationCollector(scheme, 40, words("server")),
    )
    for _ in range(200):
        devices.push(np.zeros(40, dtype=np.bool_))
        first = server.begin()
        assert first.size == server.group == 4
        server.publish(devices.report(server.collect(devices.report(first))))


def test_mistakes_are_refused() -> None:
    with pytest.raises(InputError, match="must be a table of booleans"):
        simulate(Updates(epsilon=1), np.zeros((3, 3)))
    with pytest.raises(SettingError, match="is shorter than the series"):
        simulate(Changes(epsilon=1, horizon=2), np.zeros((3, 3), dtype=np.bool_))
    with pytest.raises(SettingError, match="is too long for 3 users"):
        simulate(PopulationDivision(epsilon=1, window=4), np.zeros((3, 3), dtype=np.bool_))
    with pytest.raises(SettingError, match="must be Changes, Patterns, "):
        simulate(object(), np.zeros((3, 3), dtype=np.bool_))
    with pytest.raises(InputError, match="one for each user"):
        UpdateDevices(Updates(epsilon=1), 4, words()).push(np.zeros(3, dtype=np.bool_))
