"""The parts of the default scheme, each against what must come out."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tidegate.local.integer_weights import WORDS, coin_weights
from tidegate.local.questions import TailQuestion
from tidegate.local.survey import SurveyTally
from tidegate.local.tail.tail_bits import TailBits, weighted_tail_quantiles
from tidegate.local.tail.tail_location_and_posterior import (
    Tails,
    located_tail,
    location_levels,
    tail_posterior,
)
from tidegate.local.tail.threshold_decision import (
    best_share_above_threshold,
    candidates_for_decision,
    decide_threshold,
    excesses_above_thresholds,
    shares_to_decide_threshold,
)

LIE = coin_weights(Fraction(1))[0] / WORDS


def _bits(share, levels, count=200_000):
    """What devices with S(x) = share(x) answer, without the chance."""
    levels = np.array(levels, dtype=np.float64)
    chance = LIE + (1 - 2 * LIE) * np.array([share(level) for level in levels])
    counts = np.full(levels.size, float(count))
    return TailBits(levels, chance * counts, counts, np.full(levels.size, LIE))


# ------------------------------------------------------------------------------------- target


def test_the_best_share_is_that_of_the_note():
    variances = {0.2: 100.7, 0.5: 16.67, 1.0: 4.294, 2.0: 1.0366}  # of the hybrid mechanism
    found = [round(best_share_above_threshold(one, 2**20), 4) for one in variances.values()]
    assert found == [0.0120, 0.0049, 0.0025, 0.0012]


def test_two_rungs_where_three_would_crowd():
    low = pytest.approx(0.036)
    assert shares_to_decide_threshold(0.0120) == (0.12, low, low)
    low = pytest.approx(0.0147)
    assert shares_to_decide_threshold(0.0049) == (0.12, pytest.approx(0.042), low, low)
    assert shares_to_decide_threshold(0.25) == (0.12,)


# --------------------------------------------------------------------------------------- bits


def test_bits_are_read_from_tallies_and_lies_taken_into_account():
    question = TailQuestion.at(20.0, Fraction(1), dither=1.0)
    tally = SurveyTally(questions=(question,), counts=((600, 400),))
    bits = TailBits.of([tally, SurveyTally(questions=(question,), counts=((0, 0),))])
    assert bits.count.tolist() == [1000]
    shares = np.linspace(0.01, 0.99, 99)[:, None]
    likeliest = float(shares[np.argmax(bits.log_likelihood(shares)), 0])
    assert likeliest == pytest.approx(question.share_above(400, 1000), abs=0.03)


def test_more_devices_say_more_but_a_round_is_never_certain():
    few, many = (_bits(lambda _: 0.1, [10], count) for count in (1000, 100_000_000))
    shares = np.array([[0.1], [0.12]])
    drops = [-np.diff(bits.log_likelihood(shares))[0] for bits in (few, many)]
    assert drops[1] > drops[0]
    assert drops[1] < 1  # a fifth more is less than one standard deviation of drift


# ----------------------------------------------------------------------------------- location


@pytest.mark.parametrize("median", [0.7, 8.0, 900.0])
def test_the_tail_is_located_over_orders_of_magnitude(median):
    top, slope = 50_000, 2.5
    bits = _bits(lambda x: 1 / (1 + (x / median) ** slope), location_levels(top))
    shares = (0.12, 0.042, 0.0147)
    found = located_tail(bits, top, shares).levels
    wanted = [median * (1 / share - 1) ** (1 / slope) for share in shares]
    assert found == pytest.approx(wanted, rel=0.1)


def test_levels_never_exceed_the_bound():
    bits = _bits(lambda _: 1.0, location_levels(100))  # all values at the bound
    assert max(located_tail(bits, 100, (0.12, 0.01)).levels) <= 100


# ------------------------------------------------------------------------------------- family

TAILS = {
    "power law": lambda x: 0.1 * (x / 20) ** -2.0,
    "exponential": lambda x: 0.1 * math.exp(-3 * (x / 20 - 1)),
    "like the normal": lambda x: 0.1 * math.exp(-3 * ((x / 20) ** 2 - 1) / 2),
}


@pytest.mark.parametrize("name", TAILS)
def test_the_posterior_finds_the_tail(name):
    """Where it asked, it knows S within 15 %; beyond, it errs towards the prior, but not far."""
    share, best = TAILS[name], 0.0025
    fine = np.linspace(18, 400, 4000)
    at = [next(x for x in fine if share(x) <= wanted) for wanted in (3 * best, best)]
    rungs = np.linspace(18.0, at[0], 6)
    tails = tail_posterior(_bits(share, np.tile(rungs, 6)), 20.0, 0.12)
    asked, beyond = tails.mean_shares(np.array(at))
    assert asked == pytest.approx(3 * best, rel=0.15)
    assert best / 1.7 < beyond < best * 1.7
    assert tails.weights.sum() == pytest.approx(1)
    for other in TAILS:
        if other != name:  # the wrong tails are far off at the same level
            assert not best / 1.7 < TAILS[other](at[1]) < best * 1.7


def _two_scales(x):
    """One value in fifty is of a scale twenty times as large."""
    return 0.98 * math.exp(-x / 10) + 0.02 * math.exp(-((x / 200) ** 1.5))


def _exponential(x):
    return math.exp(-x / 10)


def test_a_second_scale_that_answers_show_is_found_and_moves_the_threshold_so_far():
    shares = {
        "two scales": _two_scales,
        "one": _exponential,
        "a cliff": lambda x: 0.12 if x < 38 else 0.0,
    }
    chances, thetas, simple = {}, {}, {}
    for name, share in shares.items():
        bits = _bits(share, np.tile([21.0, 30.0, 39.0, 60.0], 6), count=8_000)
        tails = tail_posterior(bits, 21.0, 0.12)
        chances[name] = tails.weights[tails.second > 0].sum()
        settings = {"top": 5000, "horizon": 180_000, "variance": 4.3}
        thetas[name] = decide_threshold(tails, **settings).threshold
        simple[name] = decide_threshold(tails.of_one_scale(), **settings).threshold
    assert chances["two scales"] > 0.33  # 0.2 before any answer
    assert chances["one"] < 0.1
    assert chances["a cliff"] < 0.01
    assert 1.4 * simple["two scales"] < thetas["two scales"] <= 1.6 * simple["two scales"] + 1
    assert thetas["one"] < 1.2 * simple["one"]


def test_a_second_scale_that_answers_cannot_show_is_not_hoped_for():
    """200 answers a question: three standard deviations of a share are above a tenth."""
    tails = tail_posterior(
        _bits(_two_scales, np.tile([21.0, 30.0, 39.0], 2), count=200), 21.0, 0.12
    )
    assert not tails.second.any()
    assert tails.of_one_scale() is tails


def test_without_bits_the_prior_speaks():
    nothing = TailBits.of([])
    tails = tail_posterior(nothing, 20.0, 0.12)
    assert tails.mean_shares(np.array([20.0]))[0] == pytest.approx(0.12, rel=0.8)
    assert math.exp(tails.weights @ np.log(tails.slope)) == pytest.approx(1.8, rel=0.2)
    assert math.exp(tails.weights @ np.log(tails.curvature.clip(0.1))) == pytest.approx(
        0.8, rel=0.2
    )


def test_the_family_has_the_shapes_that_it_names():
    tails = Tails(
        anchor=10.0,
        log_share=np.log([0.1, 0.1]),
        slope=np.array([2.0, 3.0]),
        curvature=np.array([0.0, 1.0]),
        weights=np.array([0.5, 0.5]),
    )
    assert tails.shares_above(np.array([10.0, 30.0, 1e-6])) == pytest.approx(
        np.array([[0.1, 0.1 / 9, 1.0], [0.1, 0.1 * math.exp(-6), 1.0]])
    )


# ----------------------------------------------------------------------------------- decision


def _single(slope, curvature, share=0.1, anchor=20.0):
    one = [np.array([value]) for value in (math.log(share), slope, curvature, 1.0)]
    return Tails(anchor, *one)


def test_excess_is_the_integral_of_the_tail():
    tails = _single(3.0, 1.0)
    levels = candidates_for_decision(tails, 2000)
    exact = 0.1 * (20 / 3) * np.exp(-3 * (levels / 20 - 1))
    above = levels >= 20
    assert excesses_above_thresholds(tails, levels)[0, above][:30] == pytest.approx(
        exact[above][:30], rel=0.03
    )


def test_a_known_tail_gets_the_threshold_of_least_error():
    horizon, variance = 2**20, 4.3
    chosen = decide_threshold(_single(3.0, 1.0), 2000, horizon=horizon, variance=variance)
    levels = np.arange(21, 300)
    excess = 0.1 * (20 / 3) * np.exp(-3 * (levels / 20 - 1))
    left = (0.2**2 + 0.5**2) * excess**2  # 0.8 is added back, 0.5 of it is not known
    error = horizon / 3 * variance * levels**2 / 4 + horizon**2 / 6 * left
    assert chosen.threshold == pytest.approx(levels[np.argmin(error)], rel=0.05)
    assert chosen.offset == pytest.approx(0.8 * excess[chosen.threshold - 21], rel=0.1)
    assert not chosen.mostly_prior
    assert chosen.low == chosen.high


def test_more_noise_or_a_shorter_horizon_lowers_the_threshold():
    base = decide_threshold(_single(2.0, 0.0), 2000, horizon=2**20, variance=4.3)
    noisier = decide_threshold(_single(2.0, 0.0), 2000, horizon=2**20, variance=100.0)
    shorter = decide_threshold(_single(2.0, 0.0), 2000, horizon=2**14, variance=4.3)
    assert noisier.threshold < base.threshold
    assert shorter.threshold < base.threshold
    assert base.threshold <= 2000


def test_a_threshold_that_two_tails_disagree_on_is_mostly_prior():
    unsure = Tails(
        20.0,
        np.log([0.1, 0.1]),
        np.array([1.2, 6.0]),
        np.array([0.0, 1.0]),
        np.array([0.5, 0.5]),
    )
    chosen = decide_threshold(unsure, 10_000, horizon=2**20, variance=4.3)
    assert chosen.mostly_prior
    assert chosen.low < chosen.threshold < chosen.high


def test_weighted_quantiles():
    columns = np.array([[3.0, 1.0], [1.0, 2.0], [2.0, 9.0]])
    weights = np.array([0.5, 0.3, 0.2])
    assert weighted_tail_quantiles(columns, weights, (0.25, 0.5, 0.9)).tolist() == [
        [1.0, 1.0],
        [2.0, 1.0],
        [3.0, 9.0],
    ]
