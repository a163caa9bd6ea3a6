"""EM and EMS by running sums, against the matrix written out."""

from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tidegate.errors import InputError, SettingError
from tidegate.local.mechanisms import square_wave
from tidegate.local.questions import WaveQuestion
from tidegate.local.square_wave_density import estimate_density


def matrix_of(question):
    matrix = np.full((question.reports, question.bins), question.low / question.total)
    for each in range(question.bins):
        matrix[each : each + 2 * question.half + 1, each] = question.high / question.total
    return matrix


def dense(question, counts, steps, smoothing):
    """The algorithm as it is written in papers."""
    matrix = matrix_of(question)
    kernel = np.zeros((question.bins, question.bins))
    for each in range(question.bins):
        for other, weight in ((each - 1, 1), (each, 2), (each + 1, 1)):
            if 0 <= other < question.bins:
                kernel[each, other] = weight
    kernel /= kernel.sum(axis=1, keepdims=True)
    shares = np.full(question.bins, 1 / question.bins)
    for _ in range(steps):
        shares = shares * (matrix.T @ (counts / (matrix @ shares)))
        shares /= shares.sum()
        if smoothing:
            shares = kernel @ shares
            shares /= shares.sum()
    return shares


def counts_of(question, values, seed=1):
    words = tg.seeded(seed).new_epoch().keystream("wave", b"").at()
    return np.bincount(question.answers(values, words), minlength=question.reports)


@pytest.mark.parametrize("smoothing", [False, True])
@pytest.mark.parametrize("epsilon", ["0.2", "1", "4"])
def test_same_answer_as_the_dense_matrix(epsilon, smoothing):
    question = square_wave(1657, Fraction(epsilon), bins=256)
    counts = counts_of(question, tg.synthetic.baskets(20_000))
    density = estimate_density(question, counts, smoothing=smoothing)
    assert density.converged
    expected = dense(question, counts, density.steps, smoothing)
    assert np.abs(density.shares - expected).max() < 1e-10
    assert density.shares.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("half", [0, 1, 7, 30])
def test_windows_of_all_widths_and_few_bins(half):
    question = WaveQuestion(top=9, bins=8, half=half, high=2**24, low=2**22)
    counts = np.random.default_rng(half).integers(0, 50, size=question.reports)
    density = estimate_density(question, counts, steps=50, gain=1e-300)
    assert np.abs(density.shares - dense(question, counts, 50, False)).max() < 1e-12


def test_the_likelihood_never_falls_and_the_rule_stops_it():
    question = square_wave(1657, Fraction(1), bins=128)
    counts = counts_of(question, tg.synthetic.baskets(20_000))
    seen = []
    density = estimate_density(question, counts, progress=lambda step, gain: seen.append(gain))
    assert len(seen) == density.steps
    rule = 1e-3 * question.high / question.low
    assert min(seen) > -1e-9
    assert seen[-1] < rule <= min(seen[:-1])
    # The gain that is reported is that of the log-likelihood, with the matrix written out.
    likelihoods = [
        counts @ np.log(matrix_of(question) @ dense(question, counts, steps, False))
        for steps in (3, 4)
    ]
    assert seen[4] == pytest.approx(likelihoods[1] - likelihoods[0], rel=1e-6)
    shortened = estimate_density(question, counts, steps=3)
    assert (shortened.steps, shortened.converged) == (3, False)


def test_the_density_is_found_when_there_are_many_reports():
    question = square_wave(999, Fraction(3), bins=10)
    truth = np.array([0.4, 0.25, 0.15, 0.1, 0.05, 0.03, 0.02, 0, 0, 0])
    values = np.random.default_rng(1).choice(10, size=400_000, p=truth) * 100 + 50
    shares = estimate_density(question, counts_of(question, values), gain=1e-6).shares
    assert np.abs(shares - truth).max() < 0.01


def test_one_bin_is_no_question():
    question = WaveQuestion(top=1, bins=1, half=1, high=2**30, low=2**29)
    for smoothing in (False, True):
        density = estimate_density(question, np.array([1, 2, 3]), smoothing=smoothing)
        assert density.shares.tolist() == [1.0]


def test_bad_counts_are_refused():
    question = square_wave(99, Fraction(1), bins=10)
    good = np.ones(question.reports, dtype=np.int64)
    for counts in (good[1:], good * 0, -good, good * 1.0, good[None]):
        with pytest.raises(InputError, match="counts must"):
            estimate_density(question, counts)
    for wrong in ({"gain": 0.0}, {"gain": float("nan")}, {"steps": 0}):
        with pytest.raises(SettingError, match="gain"):
            estimate_density(question, good, **wrong)
    flat = WaveQuestion(top=9, bins=10, half=1, high=2**24, low=2**24)
    with pytest.raises(SettingError, match="high"):
        estimate_density(flat, np.ones(flat.reports, dtype=np.int64))
