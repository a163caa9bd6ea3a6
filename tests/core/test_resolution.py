"""Nobody has to choose a resolution: decimals are kept, whole numbers stay whole, bounds stay."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tidegate.lattice import COARSE, FINE, Lattice, default_resolution

BOUNDS = ["12.5", "1", "0.3", "100", "1657", "30000", "12.345", "10000000000", "1/3", "1e-6"]


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("steps", [COARSE, FINE])
def test_the_default_keeps_the_bound_and_whole_numbers(bound: str, steps: int) -> None:
    exact = Fraction(bound)
    resolution = default_resolution(exact, steps)
    lattice = Lattice(exact, resolution)
    assert lattice.top * resolution == exact
    assert resolution == 1 or lattice.top >= steps
    if bound != "1/3":
        assert (1 / resolution).denominator == 1  # whole numbers are multiples of it
        assert lattice.top <= max(exact, 100 * steps)  # and 64 bits stay roomy


@pytest.mark.parametrize("bound", ["12.5", "0.3", "2.0001"])
def test_a_bound_that_is_no_multiple_is_rounded_up(bound: str) -> None:
    """It became 12 for 12.5: every value above was cut, and nobody was told."""
    lattice = Lattice(Fraction(bound), Fraction(1, 4))
    assert Fraction(bound) <= Fraction(lattice.top, 4) < Fraction(bound) + Fraction(1, 4)
    assert lattice.unit(float(Fraction(bound))) >= lattice.top - 1


def total_error(pipeline: tg.Pipeline, values: np.ndarray[Any, Any]) -> float:
    """Of the sum of all that was released, relative to the truth, without a hold-out's rows."""
    release = pipeline.start(tg.seeded(5))
    out = release.push(values)
    true = values[values.size - out.size :]
    return abs(float(out.sum() / true.sum()) - 1)


@pytest.mark.parametrize("scale", [0.04, 1.0, 4000.0])
def test_decimals_just_work(scale: float) -> None:
    """A bound of 12.5 was taken as 12 and values as whole numbers: a total 30 % too low."""
    values = scale * np.random.default_rng(1).gamma(3.0, 1.0, 16_000)
    settings: dict[str, Any] = {"holdout": 2_000, "horizon": 14_000}
    bound = round(12.5 * scale, 2)
    assert total_error(tg.adaptive(1, bound, **settings), values) < 0.02
    if scale <= 1:  # the paper's rule has a constant in the unit of the data
        assert total_error(tg.tops(1, bound, **settings), values) < 0.05


def test_the_local_model_keeps_decimals() -> None:
    """Values of 0 to 0.49 with bound 1 all became 0."""
    values = 0.49 * np.random.default_rng(1).random(60_000)
    simulation = tg.topl(2, 1, holdout=4096, horizon=2**15).simulate(values, tg.seeded(3))
    true = values[-simulation.released.size :].sum()
    assert simulation.released.sum() == pytest.approx(true, rel=0.1)


def test_the_default_leaves_room_for_sums() -> None:
    """As fine as sums and noise allow, and never a refusal that resolution 1 would not have met."""
    for horizon, epsilon in ((2**42, 1), (2**20, "0.00001"), (2**30, "0.00001")):
        pipeline = tg.adaptive(epsilon, 100, horizon=horizon, holdout=10**9)
        assert pipeline.resolution <= 1
        tg.adaptive(epsilon, 100, horizon=horizon, holdout=10**9, resolution=1)
    known = tg.adaptive(1, 100, holdout=65_536)
    assert (known.threshold_step, known.resolution) == (Fraction(1, 10**5), Fraction(1, 10**8))
    short = tg.adaptive(1, 100)  # a first choice of 80 values
    assert (short.threshold_step, short.resolution) == (Fraction(1, 100), Fraction(1, 10**8))
    loose = tg.adaptive(1, 10**8)
    assert (loose.threshold_step, loose.resolution) == (1, Fraction(1, 100))
    assert tg.adaptive(1, 10**10).resolution == 1  # noise is drawn quickly up to 2⁴⁰
    paper = tg.tops(1, 1657)  # its thresholds are whole numbers, as they were
    assert (paper.threshold_step, paper.resolution) == (1, Fraction(1, 10**6))


def test_a_rule_that_knows_little_gets_fewer_steps() -> None:
    """θ can climb e^(ε·hold-out/7) steps: on a finer lattice it would stay at nothing."""
    poor, rich = (tg.adaptive(1, 1000, holdout=holdout, horizon=4096) for holdout in (50, 5000))
    assert (poor.lattice.grains, rich.lattice.grains) == (10_000, 10_000_000)
    again = tg.adaptive(1, 1000, holdout=5000, start_early=50, horizon=10_000)
    assert again.lattice.grains == 10_000


def test_what_was_decided_is_a_setting_like_any_other() -> None:
    chosen = tg.adaptive(1, "12.5", holdout=300, horizon=1024)
    assert chosen.settings()["resolution"] == str(chosen.resolution)
    assert tg.Pipeline.from_settings(chosen.settings()) == chosen
    given = tg.adaptive(1, "12.5", holdout=300, horizon=1024, resolution="0.01")
    assert given == replace(chosen, resolution="0.01", threshold_step=None)
    assert tg.Pipeline.from_settings(given.settings()) == given
    with pytest.raises(tg.SettingError, match="threshold_step: must be a multiple"):
        replace(chosen, resolution="0.000003")
    topl = tg.topl(1, 1)
    assert topl == tg.topl(1, 1, resolution=topl.resolution)
