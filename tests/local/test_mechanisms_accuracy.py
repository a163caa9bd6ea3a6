"""Unbiased, and with the variance that is stated: at every ε, on every range."""

from fractions import Fraction

import numpy as np
import pytest

from tests.depth import in_turn
from tidegate.errors import SettingError
from tidegate.local.mechanisms import (
    hybrid,
    hybrid_variance,
    laplace,
    laplace_variance,
    optimal,
    piecewise,
    piecewise_variance,
    square_wave,
    stochastic_rounding,
    stochastic_rounding_variance,
)
from tidegate.local.questions import TailQuestion
from tidegate.randomness import seeded

EPSILONS = [Fraction(text) for text in ("0.1", "0.5", "1", "2", "5")]
FORMULAS = {
    "laplace": (laplace, laplace_variance),
    "stochastic rounding": (stochastic_rounding, stochastic_rounding_variance),
    "piecewise": (piecewise, piecewise_variance),
    "hybrid": (hybrid, hybrid_variance),
}
BUILDERS = {name: build for name, (build, _) in FORMULAS.items()} | {"optimal": optimal}
COUNT = 200_000
SIGMAS = 5


def words(name):
    return seeded(11).new_epoch().keystream(name, b"").at()


def row_mixture(question, value):
    """The exact probabilities of the reports of one value."""
    x = 2 * value / question.threshold - 1
    weights = np.array(question.weights) / question.total
    return np.array([np.interp(x, question.means, column) for column in weights.T])


def moment_errors(question, value, reports):
    """How far mean and variance are off, in their standard deviations, for claims to compare."""
    decoded = question.decoded
    shares = row_mixture(question, value)
    mean = shares @ decoded
    fourth = shares @ (decoded - mean) ** 4
    x = np.array([2 * value / question.threshold - 1])
    stated = float(question.variance(x)[0]) * (question.threshold / 2) ** 2
    sample = decoded[reports]

    def error(claimed_mean, claimed_variance):
        spread = np.sqrt(fourth - stated**2)
        return (
            (sample.mean() - claimed_mean) / np.sqrt(stated / COUNT),
            (np.mean((sample - value) ** 2) - claimed_variance) / (spread + 1e-300) * COUNT**0.5,
        )

    return error, stated


@pytest.mark.parametrize("epsilon", in_turn(EPSILONS, 0), ids=str)
@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_reports_have_the_mean_and_the_variance_that_are_stated(build, epsilon):
    for threshold in (1, 37, 3_000_000):
        question = build(threshold, epsilon)
        for value in sorted({0, threshold // 3, threshold}):
            reports = question.answers(np.full(COUNT, value), words(f"{threshold} {value}"))
            error, stated = moment_errors(question, value, reports)
            assert np.abs(error(value, stated)).max() < SIGMAS
            for factor in (0.7, 1.3):
                assert abs(error(value, factor * stated)[1]) > SIGMAS
            shift = 0.3 * stated**0.5  # a bias of 30 % of the noise is seen
            assert abs(error(value + shift, stated)[0]) > SIGMAS


@pytest.mark.parametrize("epsilon", ["0.1", "0.3", "0.61", "0.62", "1", "1.7", "2", "3", "4", "5"])
@pytest.mark.parametrize(("build", "formula"), FORMULAS.values(), ids=FORMULAS)
def test_integer_tables_are_within_one_percent_of_the_continuous_formulas(build, formula, epsilon):
    x = np.linspace(-1, 1, 2_001)
    ratio = build(100, Fraction(epsilon)).variance(x) / formula(x, Fraction(epsilon))
    assert 0.99 < ratio.min() <= ratio.max() < 1.01


def test_formulas_at_points_worked_out_by_hand():
    two = Fraction(2)  # t = e
    e = np.e
    zero, one = np.zeros(1), np.ones(1)
    assert piecewise_variance(zero, two)[0] == pytest.approx((e + 3) / (3 * (e - 1) ** 2))
    assert piecewise_variance(one, two)[0] == pytest.approx(
        1 / (e - 1) + (e + 3) / (3 * (e - 1) ** 2)
    )
    corner = ((e**2 + 1) / (e**2 - 1)) ** 2
    assert stochastic_rounding_variance(one, two)[0] == pytest.approx(corner - 1)
    paper = (corner + (e + 3) / (3 * (e - 1))) / e
    assert hybrid_variance(one, two)[0] == pytest.approx(paper)
    assert hybrid_variance(zero, two)[0] == pytest.approx(paper)


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_a_tail_question_estimates_the_share_above_without_bias(epsilon):
    question = TailQuestion.at(20.0, epsilon, dither=1.0)
    values = np.repeat([0, 50], [COUNT * 3 // 4, COUNT // 4])
    ones = question.answers(values, words("tail")).sum()
    lie = question.lie / 2**32
    deviation = np.sqrt(lie * (1 - lie) / COUNT) / (1 - 2 * lie)
    assert abs(question.share_above(ones, COUNT) - 0.25) < SIGMAS * deviation
    assert lie == pytest.approx(1 / (np.exp(float(epsilon)) + 1), rel=1e-6)


def test_messages_stay_small():
    for build in BUILDERS.values():
        for epsilon in EPSILONS:
            question = build(100, epsilon)
            assert len(question.weights) * question.reports <= 6_000
            assert question.total == 2**32  # no word is ever thrown away
            assert question.at(7) == build(7, epsilon)


@pytest.mark.parametrize("build", [*BUILDERS.values(), square_wave])
def test_settings_that_make_no_sense_are_refused_by_name(build):
    for epsilon in (Fraction(0), Fraction(-1), Fraction(11), Fraction(1, 10**9)):
        with pytest.raises(SettingError, match="epsilon"):
            build(100, epsilon)
    for threshold in (0, -5):
        with pytest.raises(SettingError, match=r"threshold|top"):
            build(threshold, Fraction(1))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_the_optimal_generalised_piecewise_mechanism_is_piecewise_made_unbiased(epsilon):
    """Its published constants: density e^(ε/2) on a plateau of 2C, C = (e^(ε/2) − 1)/(2e^ε − 2)."""
    plateau = (np.exp(epsilon / 2) - 1) / (np.exp(epsilon) - 1)
    assert np.exp(epsilon / 2) * plateau + np.exp(-epsilon / 2) * (1 - plateau) == pytest.approx(1)
    question = piecewise(100, Fraction(epsilon))
    middle = np.array(question.weights[len(question.weights) // 2]) / 2**32
    inside = middle > middle.max() * 0.999  # cells that lie in the plateau altogether
    assert inside.mean() == pytest.approx(plateau, abs=2 / middle.size)
    density = middle * middle.size  # of the range
    assert density.max() == pytest.approx(np.exp(epsilon / 2), rel=1e-6)
    assert density.min() == pytest.approx(np.exp(-epsilon / 2), rel=1e-6)
