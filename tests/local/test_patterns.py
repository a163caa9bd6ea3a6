"""Series of users as lines: what reports cost, exactly; what the server makes of them."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tidegate.errors import InputError, RefusedError
from tidegate.local.series import Patterns, simulate
from tidegate.local.series.collectors import PatternCollector
from tidegate.local.series.devices import PatternDevices


def words(name: str = "patterns") -> Any:
    return tg.seeded(5).new_epoch().keystream(name, b"").at()


def report_law(scheme: Patterns, value: int) -> list[Fraction]:
    """The chance of each column for a value, from the table and the rule that mixes its rows."""
    question = scheme.question()
    row, coin = question.place(value)
    upper = Fraction(coin, 1 << 32)
    rows = (question.weights[row], question.weights[row + 1])
    return [
        ((1 - upper) * low + upper * high) / question.total for low, high in zip(*rows, strict=True)
    ]


def test_any_window_costs_at_most_epsilon() -> None:
    """All pairs of series of two steps that are asked in both, all outcomes: exact fractions."""
    scheme = Patterns(epsilon=1, window=2, top=4)
    assert scheme.guarantee.epsilon == 1
    assert scheme.guarantee.unit == "window of 2 consecutive values"
    laws = [report_law(scheme, value) for value in range(5)]
    one = max(
        first[column] / second[column]
        for first, second in itertools.permutations(laws, 2)
        for column in range(len(laws[0]))
    )
    # Reports of two steps are independent given the values: the worst pair is worst in both.
    assert 0.95 < 2 * math.log(one) <= 1
    scheme.question().check(Fraction(1, 2))
    with pytest.raises(RefusedError):
        scheme.question().check(Fraction(1, 2) / Fraction(13, 10))


def test_a_device_refuses_a_third_report_in_a_window_whatever_the_server_asks() -> None:
    """Asked at random for 300 steps: no window of four has more than two reports."""
    devices = PatternDevices(Patterns(epsilon=1, window=4), 6, words())
    random = np.random.default_rng(1)
    given, refused = np.zeros((300, 6), dtype=np.int64), 0
    for step in range(300):
        devices.push(np.zeros(6, dtype=np.bool_))
        for user in random.integers(0, 6, size=4):
            try:
                devices.report(np.array([user]))
                given[step, user] += 1
            except RefusedError:
                refused += 1
    windows = sum(given[start : start + 297] for start in range(4))
    assert windows.max() == 2
    assert given.max() == 1
    assert refused > 100
    devices = PatternDevices(Patterns(epsilon=1, window=4), 6, words())
    devices.push(np.zeros(6, dtype=np.bool_))
    for twice_or_nobody in ([5, 5], [5, -1], [6], [[4], [5]]):
        with pytest.raises(RefusedError):
            devices.report(np.array(twice_or_nobody))


def test_the_server_asks_nobody_who_would_refuse() -> None:
    scheme = Patterns(epsilon=8, window=5, top=9)
    devices, server = PatternDevices(scheme, 60, words()), PatternCollector(scheme, 60, words("s"))
    random = np.random.default_rng(2)
    asked = 0
    for _ in range(200):
        devices.push(random.integers(0, 10, 60))
        users = server.begin()
        server.collect(devices.report(users))
        asked += users.size
    assert 1.2 < asked / 200 / 60 * 5 < 2  # reports of a user within a window


def test_devices_draw_the_law_of_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frequencies of 40,000 reports of one value; 30 % more budget is seen."""
    scheme = Patterns(epsilon=4, window=3, top=10)

    def excess(made: Patterns) -> float:
        devices = PatternDevices(made, 40_000, words())
        devices.push(np.full(40_000, 7))
        seen = np.bincount(devices.report(np.arange(40_000)), minlength=scheme.question().reports)
        expected = 40_000 * np.array([float(chance) for chance in report_law(scheme, 7)])
        chi = float((np.square(seen - expected) / expected).sum())
        return (chi - expected.size) / math.sqrt(2 * expected.size)

    assert abs(excess(scheme)) < 4
    table = Patterns(epsilon="26/5", window=3, top=10).question()
    monkeypatch.setattr(Patterns, "question", lambda self: table)
    with pytest.raises(RefusedError, match="would cost more than epsilon"):
        excess(scheme)  # the device checks the table that it is given


def test_a_line_by_hand() -> None:
    """Two users, windows of one step: both report in every step, in turn."""
    scheme = Patterns(epsilon=8, window=1, top=10)
    server, question = PatternCollector(scheme, 2, words()), scheme.question()
    assert server.begin().tolist() == [0, 1]
    reports = np.array([0, question.reports // 2])
    values = question.decoded[reports] / 10
    server.collect(reports)
    assert server.mean == pytest.approx(values.mean())
    # Level 1/2, of variance 0.95²/12 + 1e-4 (the slope's) + 1e-5: a report moves it by its gain.
    variance = 0.95**2 / 12 + 1e-4 + 1e-5
    gain = variance / (variance + question.variance(np.array([0.0]))[0] / 4)
    assert server.lines == pytest.approx(np.clip(0.5 + gain * (values - 0.5), 0, 1))


def test_the_mean_is_unbiased() -> None:
    """Where the mean of held reports would not be: one user in ten has a yes."""
    series = np.zeros((24, 6000), dtype=np.bool_)
    series[:, :600] = True
    runs = np.array(
        [simulate(Patterns(epsilon=4, window=4), series, tg.seeded(seed)) for seed in range(10)]
    )
    off = runs.mean(axis=1) - 0.1
    assert abs(off.mean()) < 3 * off.std(ddof=1) / 10**0.5
    assert abs(off.mean()) < 0.005


def test_lines_follow_users_where_epsilon_is_large() -> None:
    """Numbers that move in straight lines, bent twice: nearer than any constant line would be."""
    random = np.random.default_rng(3)
    corners = random.integers(0, 101, size=(4, 500))
    at = np.linspace(0, 3, 96)
    series = np.stack([np.interp(at, range(4), corners[:, user]) for user in range(500)], axis=1)
    scheme = Patterns(epsilon=16, window=8, top=100)
    devices, server = PatternDevices(scheme, 500, words()), PatternCollector(scheme, 500, words())
    errors = []
    for values in np.rint(series).astype(np.int64):
        devices.push(values)
        server.collect(devices.report(server.begin()))
        errors.append(np.square(server.lines - values / 100).mean())
    still = np.square(series / 100 - series.mean(axis=0) / 100).mean()
    assert np.mean(errors[16:]) < still / 3


def test_mistakes_are_refused() -> None:
    devices = PatternDevices(Patterns(epsilon=1, window=3), 4, words())
    with pytest.raises(InputError, match="4 whole numbers"):
        devices.push(np.zeros(4))
    devices.push(np.zeros(4, dtype=np.int64))
    with pytest.raises(RefusedError, match="2 times in 3 steps"):
        devices.report(np.array([1, 1]))
    with pytest.raises(InputError, match="must be a table"):
        simulate(Patterns(epsilon=1, window=3), np.zeros((3, 3)))
