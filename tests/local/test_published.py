"""The paper's choice of the threshold, piece by piece."""

from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tidegate.errors import SettingError
from tidegate.local.mechanisms import square_wave
from tidegate.local.questions import WaveQuestion
from tidegate.local.square_wave_survey import (
    Objective,
    best_wave_threshold,
    prune_square_wave,
    square_wave_threshold,
)

R = 2**20


def test_prune_zeroes_what_comes_after_five_small_shares():
    density = np.array([0.5, 0.3, 0.00005, 0.1, 0, 0, 0.00009, 0, 0, 0.0999])
    assert prune_square_wave(density).tolist() == [0.5, 0.3, 0.00005, 0.1, 0, 0, 0, 0, 0, 0]
    four = np.array([0.5, 0.3, 0.1, 0, 0, 0, 0, 0.1])
    assert prune_square_wave(four).tolist() == four.tolist()
    assert prune_square_wave(np.array([0.7, 0.3])).tolist() == [0.7, 0.3]


def test_prune_never_takes_the_bulk():
    """The paper's rule would leave nothing of values that are all large."""
    late = np.array([0.0] * 20 + [0.5, 0.4, 0.08] + [0.0] * 20 + [0.02])
    assert prune_square_wave(late).tolist() == [0.0] * 20 + [0.5, 0.4, 0.08] + [0.0] * 21
    last = np.append(np.zeros(30), 1.0)
    assert prune_square_wave(last).tolist() == last.tolist()
    assert prune_square_wave(np.zeros(30)).tolist() == [0.0] * 30


def predicted(question, density, variance, theta, objective):
    """The error as in the notes, bin by bin."""
    excess = 0.0
    for each, share in enumerate(density):
        steps = [
            v for v in range(question.top + 1) if v * question.bins // (question.top + 1) == each
        ]
        middle = sum(steps) / len(steps)
        if middle > theta:
            excess += share * (middle - theta)
    if objective is Objective.CORRECTED:
        return R / 3 * (theta / 2) ** 2 * variance + R**2 / 6 * excess**2
    return R / 3 * theta**2 * variance + R**2 / 24 * excess**2


@pytest.mark.parametrize("objective", [Objective.CORRECTED, Objective.AUTHORS])
def test_the_threshold_has_the_least_predicted_error_of_all_bins(objective):
    random = np.random.default_rng(4)
    for bins, top in ((16, 99), (7, 6), (30, 300)):
        question = WaveQuestion(top=top, bins=bins, half=1, high=2**26, low=2**25)
        decay = np.exp(-np.arange(bins) * random.uniform(0.1, 3))
        density = decay / decay.sum()
        chosen = best_wave_threshold(question, density, 4.3, R, objective)
        ends = {
            max(v for v in range(top + 1) if v * bins // (top + 1) == each) for each in range(bins)
        }
        errors = {
            theta: predicted(question, density, 4.3, theta, objective)
            for theta in (max(end, 1) for end in ends)
        }
        assert errors[chosen] == pytest.approx(min(errors.values()), rel=1e-9)


def test_the_authors_objective_fears_noise_sixteen_times_as_much():
    question = square_wave(999, Fraction(1), bins=100)
    decay = np.exp(-np.arange(100) / 3)
    density = decay / decay.sum()
    corrected = best_wave_threshold(question, density, 4.0, R, Objective.CORRECTED)
    authors = best_wave_threshold(question, density, 4.0, R, Objective.AUTHORS)
    assert authors < corrected
    assert authors == best_wave_threshold(question, density, 64.0, R, Objective.CORRECTED)


@pytest.mark.parametrize("smoothing", [False, True])
def test_from_reports_to_a_threshold(smoothing):
    question = square_wave(1657, Fraction(2))
    values = tg.synthetic.baskets(65_536)
    words = tg.seeded(1).new_epoch().keystream("wave", b"").at()
    counts = np.bincount(question.answers(values, words), minlength=question.reports)
    steps = []
    chosen = square_wave_threshold(
        question,
        counts,
        epsilon=Fraction(1),
        horizon=R,
        smoothing=smoothing,
        progress=lambda step, gain: steps.append(step),
    )
    assert steps == list(range(1, chosen.density.steps + 1))
    # The tail mass at which noise and bias balance is far below a percent, far above none.
    assert np.quantile(values, 0.95) < chosen.threshold < 10 * np.quantile(values, 0.999)
    assert (chosen.shares is chosen.density.shares) == smoothing


def test_values_that_are_all_large_get_a_large_threshold():
    """The empty prune: with nothing left, the smallest threshold would look perfect."""
    question = square_wave(10_000, Fraction(2))
    values = np.random.default_rng(1).integers(6_000, 6_500, size=65_536)
    words = tg.seeded(1).new_epoch().keystream("wave", b"").at()
    counts = np.bincount(question.answers(values, words), minlength=question.reports)
    chosen = square_wave_threshold(question, counts, epsilon=Fraction(1), horizon=R)
    assert chosen.threshold > 5_500


def test_a_horizon_below_one_is_refused():
    question = square_wave(99, Fraction(1), bins=10)
    with pytest.raises(SettingError, match="horizon"):
        best_wave_threshold(question, np.full(10, 0.1), 4.0, 0)


def test_a_percentile_is_the_first_bin_that_nine_tenths_lie_below():
    """S&P 2018, by hand: shares 0.5, 0.3, 0.15, 0.05 of four bins of five steps each."""
    question = square_wave(19, Fraction(1), 4)
    shares = np.array([0.5, 0.3, 0.15, 0.05])
    assert best_wave_threshold(question, shares, 4.0, 100, Objective.PERCENTILE) == 14
    assert (
        best_wave_threshold(question, np.array([1.0, 0, 0, 0]), 4.0, 100, Objective.PERCENTILE) == 4
    )


def test_a_survey_that_never_ends_leaves_an_empty_answer() -> None:
    """A fleet below the published hold-out of 65,536: an internal error said so."""
    found = tg.topl(epsilon=1, bound=12, scheme="published").simulate(np.ones(100), tg.seeded(1))
    assert found.released.size == 0
    answer = found.query(0, 0)
    assert (answer.estimate, answer.low, answer.high) == (0, 0, 0)
