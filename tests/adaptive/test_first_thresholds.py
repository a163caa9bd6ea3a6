"""Where θ may begin, and rows of a warm-up that was finished early."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

import tidegate as tg
from tidegate.lattice import Lattice
from tidegate.run.refinement import later_length, least_threshold, lifted
from tidegate.threshold import TailQuantile


def test_the_least_threshold_is_public_and_fades_with_what_is_known() -> None:
    lattice = Lattice(Fraction(1000), Fraction(1))
    least = [
        least_threshold(TailQuantile(epsilon=1, bound=1000, holdout=count, horizon=1000), lattice)
        for count in (1, 14, 20, 100)
    ]
    assert least == [1000, 135, 18, 1]  # 1000/exp((count − 3 − 5)/3)
    far = Lattice(Fraction(10**6), Fraction(1))
    few = TailQuantile(epsilon=1, bound=10**6, holdout=14, horizon=1000)
    assert least_threshold(few, far) == 128  # of 135,335: whole numbers are a unit of the data


def test_values_that_are_mostly_zero_lift_a_later_threshold_once_they_can_be_seen() -> None:
    stage = TailQuantile(epsilon=1, bound=1000, holdout=1000, horizon=4000, stream_epsilon=1)
    assert stage.target == Fraction(25, 4)  # 25 values: 13.75/2 e-folds, too few to lift it
    assert lifted(stage, Lattice(Fraction(10**4), Fraction(1)), 25) == 1
    assert lifted(stage, Lattice(Fraction(10**4), Fraction(1)), 26) == 6  # 10⁴/exp(14.75/2)
    assert lifted(stage, Lattice(Fraction(10**6), Fraction(1)), 26) == 128


def test_rows_of_a_later_warm_up_that_was_finished_are_published_once() -> None:
    values = np.repeat([100, 400], 600)
    release = tg.adaptive(30, 1000, horizon=1200).start(tg.seeded(1))
    out = [*release.push(values[:600])]
    while release.warming != later_length(Fraction(30), 1200, at=len(out)) - 5:
        out.append(release.push(400))
        assert len(out) < 700
    placeholders = sum(out[-5:])
    assert placeholders > 400  # forecasts of the level before
    release.finish()
    out += [*release.push(values[len(out) :])]
    assert abs(sum(out) - release.query(0, 1200).estimate) < placeholders / 4
