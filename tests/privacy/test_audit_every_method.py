"""Every registered method, audited as a black box: what runs on two neighbours show of its ε.

Methods are found as the laws find them. Short streams, end to end: one value (or all of a window)
is 0 or the bound, everything else the same. An attacker learns from half of the runs how to weigh
what is released. What the other half shows of ε, at 99.9 % confidence, must stay below the claim;
at twenty times the ε, so with a twentieth of the noise, it must not. That is coarse: few runs, one
way to weigh. `test_audit`, `test_couplings_of_rivals` and the enumerations of single methods see
far smaller faults.
"""

from __future__ import annotations

import math
from inspect import signature
from typing import Any

import numpy as np
import pytest
from scipy import stats

import tidegate as tg
from tests.depth import in_turn
from tidegate import methods
from tidegate.units import Window

BOUND, HORIZON, HELD, WINDOW = 20, 8, 8, 3
BLOCKS = 16  # values after a hold-out: such methods release sums of blocks
RUNS = 600
REGISTERED = {one.preset.__name__: one for one in methods.registered()}
CENTRAL = [  # in exact arithmetic: the others are for comparison
    name
    for name, one in REGISTERED.items()
    if one.model == "central" and one.guarantee.arithmetic == "exact"
]
NOTHING = {"zeros"}
TOO_MUCH = 20  # times ε: a twentieth of the noise


def made(name: str, epsilon: int) -> tg.Pipeline:
    """A small pipeline of any method; all that can be without a hold-out is."""
    preset: Any = REGISTERED[name].preset
    given = {
        "epsilon": epsilon,
        "bound": BOUND,
        "horizon": HORIZON,
        "resolution": 1,
        "holdout": 0,
        "unit": Window(length=WINDOW),
    }
    taken = signature(preset).parameters
    own = {key: value for key, value in given.items() if key in taken}
    if REGISTERED[name].unit == "event":
        own.pop("unit", None)
    try:
        found: tg.Pipeline = preset(**own)
    except tg.SettingError:
        found = preset(**{**own, "holdout": HELD})
    return found


def released(pipeline: tg.Pipeline, size: int, whole: bool, seed: int) -> np.ndarray:
    """What each run publishes of a stream in which `size` values are 0, or all the bound."""
    held = np.full(pipeline.threshold.holdout, BOUND)
    length = BLOCKS if held.size else max(HORIZON, 2 * size)
    stream = np.concatenate((held, np.zeros(length)))
    stream[held.size + 1 : held.size + 1 + size] = BOUND * whole
    # Some publish 0 for what is held out, others nothing.
    runs = (pipeline.start(tg.seeded(seed + run)).push(stream) for run in range(RUNS))
    return np.array([found[-length:] for found in runs], dtype=np.float64)


def features(rows: np.ndarray) -> np.ndarray:
    """What an attacker looks at: values, running sums, and how near each of them is to either."""
    looked = np.concatenate((rows, np.cumsum(rows, axis=1)), axis=1)
    nearer = np.abs(looked - BOUND) - np.abs(looked)
    return np.concatenate((looked, nearer), axis=1)


def shown(pipeline: tg.Pipeline, size: int) -> float:
    """A lower bound on ε, at the claimed δ."""
    delta = float(pipeline.guarantee.delta or 0)
    none = features(released(pipeline, size, False, 0))
    all_of = features(released(pipeline, size, True, 10**6))
    learnt = [one[: RUNS // 2] for one in (none, all_of)]
    spread = np.cov(np.concatenate([one - one.mean(axis=0) for one in learnt]).T)
    ridge = 1e-6 * np.trace(spread) + 1e-9
    weights = np.linalg.solve(
        spread + ridge * np.eye(len(spread)), learnt[1].mean(axis=0) - learnt[0].mean(axis=0)
    )
    scores = [one @ weights for one in (none, all_of)]
    cuts = np.unique(np.quantile(np.concatenate([one[: RUNS // 2] for one in scores]), CUTS))
    way, cut = max(
        ((way, cut) for way in (1, -1) for cut in cuts.tolist()),
        key=lambda at: _bound(*_seen(scores, at[0], at[1], slice(0, RUNS // 2)), delta),
    )
    return _bound(*_seen(scores, way, cut, slice(RUNS // 2, RUNS)), delta)


CUTS = np.linspace(0.01, 0.99, 99)


def _seen(scores: list[np.ndarray], way: int, cut: float, runs: slice) -> tuple[int, int, int]:
    """How often each of both neighbours was beyond the cut, the likelier one first."""
    less, more = ((way * (one[runs] - cut) >= 0).sum() for one in scores[::way])
    return int(more), int(less), runs.stop - runs.start


def _bound(more: int, less: int, runs: int, delta: float) -> float:
    """Clopper and Pearson, for both, at 99.9 % together: ln((p − δ)/q)."""
    low = stats.beta.ppf(0.0005, more, runs - more + 1) if more else 0.0
    high = stats.beta.ppf(0.9995, less + 1, runs - less) if less < runs else 1.0
    return math.log((low - delta) / high) if low > delta else -math.inf


def size_of(name: str) -> int:
    """How many values are replaced at once."""
    if REGISTERED[name].unit == "event":
        return 1
    return HORIZON if name == "fast" else WINDOW


@pytest.mark.parametrize("name", in_turn(CENTRAL, 0, of=4))
def test_no_method_shows_more_than_it_says(name: str) -> None:
    pipeline = made(name, 1)
    claim = pipeline.guarantee.epsilon
    assert shown(pipeline, size_of(name)) <= float(claim)


@pytest.mark.parametrize("name", in_turn([one for one in CENTRAL if one not in NOTHING], 2, of=4))
def test_a_fraction_of_the_noise_is_noticed(name: str) -> None:
    assert shown(made(name, TOO_MUCH), size_of(name)) > 1
