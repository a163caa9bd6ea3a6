"""Audits, end to end, of what the first ones leave out: the edges of ticks, a θ that keys share,
several columns, windows. As there: below the claim, not far below, and above it with a fault.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.privacy.measured_blocks import leaves_of
from tidegate.randomness import Epoch
from tidegate.run import column_budgets
from tidegate.run.event_log import EventLog
from tidegate.units import Window


def likelier(released: Any, moved: int) -> Any:
    """How much more a noisy sum speaks for 0 than for `moved`, in units."""
    return np.abs(np.asarray(released) - moved) - np.abs(released)


# -- events at the edges of ticks -----------------------------------------------------------------

THETA, KEYS, LEAVES = 23, [str(key) for key in range(16)], 256
SECOND, NANO = np.timedelta64(10**9, "ns"), np.timedelta64(1, "ns")
START = np.datetime64("2024-02-01T00:00", "ns")
CLOCK = {"every": "1s", "start": "2024-02-01"}


def leaves_that_meet(seed: int, shift: np.timedelta64 | None) -> np.ndarray:
    """Sums of pairs of leaves of 4 ticks; where the two meet there is an event, or none.

    It comes at the first nanosecond of the second leaf, or (shifted by −1) at the last one of the
    first. The clock stops at the very time of an event, is asked twice, and goes on.
    """
    how = {"fixed": True, "resolution": 1, "horizon": 64, "nodes": (4,), **CLOCK}
    release = tg.keyed(tg.events(epsilon=1, bound=THETA, **how), keys=KEYS).start(tg.seeded(seed))
    when = START + np.arange(4, 4 * LEAVES, 8) * SECOND + (shift or 0 * NANO)
    if shift is not None:
        names, times = np.repeat(KEYS, when.size), np.tile(when, len(KEYS))
        release.push(names.tolist(), times, np.full(times.size, THETA))
    for _ in range(2):
        release.advance(str(when[LEAVES // 4]))
    release.advance(str(START + 4 * LEAVES * SECOND))
    found = []
    for key in KEYS:
        leaves = dict(leaf for one in release.record(key).segments for leaf in leaves_of(one))
        found += [
            (leaves[edge - 4, edge], leaves[edge, edge + 4])
            for edge in range(4, 4 * LEAVES, 8)
            if (edge - 4, edge) in leaves and (edge, edge + 4) in leaves
        ]
    return np.array(found)


@pytest.fixture(scope="module")
def quiet() -> np.ndarray:
    return leaves_that_meet(1, None)


@pytest.mark.parametrize(("shift", "leaf"), [(0 * NANO, 1), (-NANO, 0)], ids=["first", "last"])
def test_an_event_at_the_edge_of_a_tick_is_in_one_of_both(
    tools: Any, quiet: Any, monkeypatch: pytest.MonkeyPatch, shift: Any, leaf: int
) -> None:
    def bounds() -> tuple[float, float]:
        """From the leaf that the event is in, and from both together."""
        found = [likelier(one, THETA) for one in (quiet, leaves_that_meet(2, shift))]
        alone = tools.lower_bound_of_epsilon(*(one[:, leaf] for one in found))
        return alone, tools.lower_bound_of_epsilon(*(one.sum(axis=1) for one in found))

    alone, both = bounds()
    assert 0.6 < alone < 1
    assert both < 1
    add, other = EventLog.add, 2 * leaf - 1

    def on_both_sides(log: EventLog, ticks: Any, units: Any) -> None:
        """Planted: what happens at the edge counts in the tick on its other side, too."""
        add(log, ticks, units)
        add(log, ticks - other, units)

    with monkeypatch.context() as patch:
        patch.setattr(EventLog, "add", on_both_sides)
        assert bounds()[1] > 1.1


# -- a threshold that keys share ------------------------------------------------------------------

RUNS, PAIRS = 1800, 2000


def shared(keys: list[str]) -> tg.Keyed:
    """θ is 1 or 2, from one held-out row of {0, 1, 2}; the public part of scores is negligible."""
    choice = tg.threshold.NoisyMax(epsilon=1, bound=2, holdout=1, horizon=4, scale=10**12)
    pipeline = tg.Pipeline(
        threshold=choice,
        perturber=tg.perturb.Flat(epsilon=1, horizon=4),
        estimator=tg.estimate.Unsmoothed(),
    )
    return tg.keyed(pipeline, keys=keys, threshold="shared")


@pytest.mark.at_the_gate
def test_a_held_out_row_of_a_key_pays_once_for_the_threshold_of_all(tools: Any) -> None:
    keyed = shared(["a", "b"])
    assert keyed.guarantee.epsilon == 1

    def runs(rows: list[int], offset: int) -> np.ndarray:
        """θ and what is released of key b and of key a, one line a run; a row of a is held out."""
        found = []
        for seed in range(offset, offset + RUNS):
            release = keyed.start(tg.seeded(seed))
            out = release.push(["a", "b", "a"], rows)
            assert out.values.size == 2
            found.append((release.threshold, *out.values))
        return np.array(found)

    def speaks(found: np.ndarray) -> Any:
        """θ = 1 speaks for a held-out 0; rows are used as if they were the held-out one."""
        theta = found[:, 0]
        rows = [likelier(one, theta) / theta for one in found[:, 1:].T]
        return (theta == 1) * 1.0 + sum(rows)

    zeros, twos = runs([0, 0, 0], 0), runs([2, 0, 0], RUNS)
    assert 0.7 < tools.lower_bound_by_event(zeros[:, 0] == 1, twos[:, 0] == 1) < 1
    assert tools.lower_bound_of_epsilon(speaks(zeros), speaks(twos)) < 1
    # Planted: what was held out is released as well, as a row of both keys.
    assert tools.lower_bound_of_epsilon(speaks(zeros), speaks(runs([2, 2, 2], RUNS))) > 1.2


def test_a_row_of_a_key_stays_below_the_claim_whatever_other_keys_release(
    tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [str(number) for number in range(2 * PAIRS)]

    def pairs(seed: int, value: int) -> tuple[int, np.ndarray]:
        """θ, and rows of pairs of keys: of one key this value, of the other one 0."""
        release = shared(names).start(tg.seeded(seed))
        rows = [2, *[value, 0] * PAIRS]
        out = release.push(["0", *names], rows).values
        return int(release.threshold), out.reshape(-1, 2)

    def bounds(seeds: tuple[int, int]) -> tuple[float, float]:
        """From the row itself; and from how near it is to the row of the other key."""
        (theta, one), (same, two) = pairs(seeds[0], 0), pairs(seeds[1], 2)
        assert theta == same
        alone = likelier(one[:, 0], theta), likelier(two[:, 0], theta)
        near = (-np.abs(np.subtract(*rows.T)) for rows in (one, two))
        return tools.lower_bound_of_epsilon(*alone), tools.lower_bound_of_epsilon(*near)

    thetas: dict[int, list[int]] = {}
    for seed in range(20):
        theta = shared(["a"]).start(tg.seeded(seed))
        theta.push(["a"], [2])
        thetas.setdefault(int(theta.threshold), []).append(seed)
    seeds = next(tuple(found[:2]) for found in thetas.values() if len(found) > 1)
    alone, near = bounds(seeds)
    assert 0.65 < alone < 1
    assert near < 1
    with monkeypatch.context() as patch:  # planted: all keys have the same noise
        patch.setattr(Epoch, "of_key", lambda epoch, name: epoch)
        assert bounds(seeds)[1] > 3


# -- several columns ------------------------------------------------------------------------------

ROWS = 30_000


def columns(seed: int, value: int) -> Any:
    """What two columns of many rows say together, where every row has this value in both."""
    shares = column_budgets.shares_of(["fare", "tip"], {"fare": "0.7"})
    runs = []
    for at, share in enumerate(shares.values()):
        perturber = tg.perturb.Flat(epsilon=share, horizon=1000)
        pipeline = tg.Pipeline(
            threshold=tg.threshold.Fixed(THETA),
            perturber=perturber,
            estimator=tg.estimate.Unsmoothed(),
        )
        release = pipeline.start(tg.seeded(2 * seed + at))
        out = release.push(np.full(ROWS, value))
        runs.append(float(perturber.epsilon) * likelier(out, THETA) / THETA)
    return sum(runs)


def test_a_row_of_several_columns_pays_for_all_of_them(
    tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bound() -> float:
        return float(tools.lower_bound_of_epsilon(columns(1, 0), columns(2, THETA)))

    assert 0.6 < bound() < 1

    def whole(names: list[str], _: Any) -> dict[str, Fraction]:
        """Planted: every column spends all."""
        return dict.fromkeys(names, Fraction(1))

    with monkeypatch.context() as patch:
        patch.setattr(column_budgets, "shares_of", whole)
        assert bound() > 1.2


# -- windows --------------------------------------------------------------------------------------

WINDOW = 3  # values


def windows(perturber: Any, seed: int, value: int) -> Any:
    """What many windows say, of which all values are replaced at once."""
    pipeline = tg.Pipeline(
        threshold=tg.threshold.Fixed(THETA),
        perturber=perturber,
        estimator=tg.estimate.Unsmoothed(),
        unit=Window(length=WINDOW),
    )
    assert pipeline.guarantee.epsilon == WINDOW * perturber.epsilon
    out = pipeline.start(tg.seeded(seed)).push(np.full(WINDOW * ROWS, value))
    return likelier(out.reshape(-1, WINDOW), THETA).sum(axis=1)


@pytest.mark.parametrize(("epsilon", "least", "most"), [("1/3", 0.5, 1), (1, 1.5, 3)])
def test_all_values_of_a_window_together_stay_below_the_claim(
    tools: Any, epsilon: Any, least: float, most: float
) -> None:
    """ε of a window is that of its values together: with ε = 1 each it is more than 1."""
    perturber = tg.perturb.Flat(epsilon=epsilon, horizon=1000)
    both = windows(perturber, 1, 0), windows(perturber, 2, THETA)
    assert least < tools.lower_bound_of_epsilon(*both) < most
