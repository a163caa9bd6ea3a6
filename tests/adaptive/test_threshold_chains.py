"""`benchmarks.threshold_chains`: thresholds by their law are those of releases."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from benchmarks.threshold_chains import Phases, Stream, chains, drawn
from tests.privacy.test_tail_quantile import law
from tidegate.lattice import Lattice
from tidegate.threshold import TailQuantile


@pytest.mark.parametrize(("claimed", "fits"), [(2.0, True), (2.6, False), (1.5, False)])
def test_choices_have_their_law(claimed: float, fits: bool) -> None:
    """χ² of 5,000 draws against permute-and-flip at ε = 2, and at rates that are 30 % off."""
    lattice = Lattice(Fraction(4), Fraction(1))
    stage = TailQuantile(epsilon=2, bound=4, holdout=4, horizon=4, stream_epsilon=2)
    above = stage.above(np.array([0, 1, 2, 4]), lattice)
    found = drawn(np.random.default_rng(1), 5000, stage, above, lattice)
    grid, scores, denominator = stage.scores(above, lattice)
    expected = 5000 * np.array(law(scores, denominator, claimed))
    counts = np.bincount(np.searchsorted(grid, found), minlength=grid.size)
    assert (float(((counts - expected) ** 2 / expected).sum()) < 20.0) == fits


def test_chains_are_those_of_releases() -> None:
    """Of the same stream: the same phases, and mean logarithms within 4 standard errors."""
    values = np.random.default_rng(1).exponential(20, size=4096)
    pipeline = tg.adaptive(epsilon=1, bound=1000, horizon=4096)
    units = pipeline.lattice.units(values)
    found = chains(pipeline, units, 400, np.random.default_rng(2))
    runs = [pipeline.start(tg.seeded(seed)) for seed in range(60)]
    for run in runs:
        run.push(values)
    step = float(pipeline.lattice.step)
    for number, (start, thetas) in enumerate(zip(found.starts, found.thresholds, strict=True)):
        assert all(run.phases[number].start == start for run in runs)
        real = np.log([run.phases[number].threshold for run in runs])
        drawn = np.log(thetas * step)
        doubt = np.hypot(real.std() / np.sqrt(real.size), drawn.std() / np.sqrt(drawn.size))
        assert abs(real.mean() - drawn.mean()) < 4 * doubt + 1e-9
    assert len(found.starts) >= 3


def test_the_error_is_what_is_cut_and_the_noise() -> None:
    """Values of 10 and a θ of 4 from the middle on: a running sum that falls behind by 6 each."""
    stream = Stream(np.full(2048, 10), epsilon=1.0)
    phases = Phases([0, 1024], [np.array([10]), np.array([4])], [0.5, 1.0])
    noise = (10 / 0.5) ** 2 / 2 + 4**2 / 2
    whole, cut = stream.errors(phases, tree=7.0), stream.errors(phases, tree=0.0)
    assert whole - cut == pytest.approx(7 * noise)
    added = 3.2 / 2048 * np.where(np.arange(2048) < 1024, 10, 4)
    lost = np.cumsum(np.where(np.arange(2048) < 1024, 0.0, 6.0) - added)
    assert cut == pytest.approx(2 * lost.var(), rel=0.01)
    assert stream.best(tree=7.0) == pytest.approx(7 * 10**2 + 2 * (3.2 * 10) ** 2 / 12, rel=0.01)
