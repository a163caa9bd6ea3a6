"""The specification, its guarantee and its simulation."""

from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tidegate.local.topl import Topl

VALUES = tg.synthetic.baskets(12_000)


def _small(**settings):
    """Quick: stochastic rounding needs no linear program."""
    return tg.topl(
        1,
        500,
        **{"holdout": 4000, "horizon": 2**15, "report": "stochastic-rounding", **settings},
    )


def test_the_guarantee_is_the_larger_of_the_budgets():
    assert _small(threshold_epsilon=2).guarantee.epsilon == 2
    assert _small(threshold_epsilon="1/3").guarantee.epsilon == 1
    assert _small(threshold_epsilon=2, threshold=30).guarantee.epsilon == 1  # nobody is asked
    assert _small().guarantee.model == "local"
    assert _small().guarantee.delta == 0


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"threshold_epsilon": 1000}, "threshold_epsilon"),
        ({"holdout": 5}, "holdout"),
        ({"scheme": "best"}, "scheme"),
        ({"report": "gaussian"}, "report"),
        ({"smoothing": True}, "smoothing"),
        ({"threshold": 501}, "threshold"),
        ({"threshold": 0}, "threshold"),
        ({"resolution": 1000}, "resolution"),
        ({"scheme": "published", "resolution": "1/100000000"}, "resolution"),
        ({"keep_asking": "no"}, "keep_asking"),
    ],
)
def test_wrong_settings_are_refused_by_name(settings, named):
    with pytest.raises(tg.SettingError) as caught:
        _small(**settings)
    assert caught.value.setting == named


@pytest.mark.parametrize("epsilon", [0, -1, "NaN", 1000])
def test_wrong_epsilons_are_refused(epsilon):
    with pytest.raises(tg.SettingError, match="epsilon"):
        tg.topl(epsilon, 500)


def test_settings_survive_a_round_trip():
    topl = _small(threshold_epsilon="1/3", scheme="published", smoothing=True, resolution=0.5)
    assert Topl.from_settings(topl.settings()) == topl
    with pytest.raises(tg.SettingError, match="theta"):
        Topl.from_settings({**topl.settings(), "theta": 3})


@pytest.mark.parametrize("scheme", ["adaptive", "published", "published-authors"])
def test_a_simulation_releases_one_number_for_every_value_after_the_holdout(scheme):
    simulation = _small(scheme=scheme).simulate(VALUES, tg.seeded(1))
    assert simulation.released.shape == (8000,)
    assert 5 < simulation.threshold < 200
    truth = np.minimum(VALUES[4000:], simulation.threshold)
    answer = simulation.query(0, 8000)
    assert answer.estimate == pytest.approx(simulation.released.sum())
    assert abs(answer.estimate - truth.sum()) < 4 * answer.standard_error
    assert simulation.guarantee.simulation
    assert "none" in str(simulation.guarantee)


def test_the_same_seed_gives_the_same_simulation_and_another_another():
    first, second, third = (
        _small().simulate(VALUES, tg.seeded(seed)).released for seed in (1, 1, 2)
    )
    assert np.array_equal(first, second)
    assert not np.array_equal(first, third)


def test_without_a_seed_the_guarantee_holds():
    simulation = _small(threshold=30).simulate(VALUES[:100])
    assert simulation.guarantee.holds
    assert simulation.guarantee.epsilon == Fraction(1)
    assert simulation.released.size == 100


def test_a_holdout_that_is_not_full_releases_nothing():
    simulation = _small().simulate(VALUES[:3999], tg.seeded(1))
    assert simulation.threshold is None
    assert simulation.decision is None
    assert simulation.advice is None
    assert simulation.released.size == 0


def test_input_policy_is_that_of_the_lattice():
    wild = VALUES.astype(np.float64)
    wild[4100], wild[4101], wild[4102] = np.nan, -5, 1e9
    tame = wild.copy()
    tame[4100], tame[4101], tame[4102] = 0, 0, 500
    outs = [_small().simulate(values, tg.seeded(1), clamp=True).released for values in (wild, tame)]
    assert np.array_equal(*outs)
    with pytest.raises(tg.SettingError, match=r"lower: 1 values .* position 4,101"):
        _small().simulate(wild, tg.seeded(1))
    with pytest.raises(tg.InputError, match="position 1"):
        _small().simulate([1, "x"], tg.seeded(1))
    with pytest.raises(tg.SettingError, match="randomness"):
        _small().simulate(VALUES, 7)


def test_the_unit_of_the_data_does_not_matter():
    """Cents or euros: the same reports, scaled."""
    whole = _small(resolution=1)
    one = whole.simulate(VALUES, tg.seeded(1))
    other = Topl.from_settings({**whole.settings(), "bound": "5", "resolution": "1/100"})
    # Other settings have other noise; so compare what does not depend on it.
    assert other.survey == whole.survey
    assert other.question(30) == whole.question(30)
    scaled = other.simulate(VALUES / 100, tg.seeded(1))
    assert scaled.threshold == pytest.approx(one.threshold / 100, rel=0.3)


def test_keep_asking_asks_half_of_the_first_eighth():
    asked, not_asked = (
        _small(keep_asking=keep).simulate(VALUES, tg.seeded(1)) for keep in (True, False)
    )
    assert np.array_equal(asked.released[0:4096:2], asked.released[1:4096:2])
    assert not np.array_equal(not_asked.released[0:4096:2], not_asked.released[1:4096:2])
    assert len(asked.collection.tallies) == 11
    assert len(not_asked.collection.tallies) == 5


def test_a_threshold_that_reports_left_open_comes_with_advice():
    vague = _small(threshold_epsilon=0.05, holdout=500, keep_asking=False)
    simulation = vague.simulate(VALUES, tg.seeded(1))
    assert simulation.decision.mostly_prior, simulation.decision
    assert "larger holdout" in simulation.advice
    assert simulation.decision.high > 4 * simulation.decision.low
    sure = _small(threshold_epsilon=10).simulate(VALUES, tg.seeded(1))
    assert sure.advice is None


def test_the_stream_runs_over_many_horizons():
    topl = _small(horizon=1000, threshold=30)
    released = topl.simulate(np.tile(VALUES, 5), tg.seeded(1)).released
    assert released.size == 60_000
    assert released[50_000:].mean() == pytest.approx(np.minimum(VALUES, 30).mean(), abs=2)


def test_a_report_is_unbiased_and_as_noisy_as_its_table_says():
    topl = _small(threshold=30)
    released = topl.simulate(np.full(200_000, 12), tg.seeded(1)).released
    variance = 15**2 * float(topl.question(30).variance(np.array([2 * 12 / 30 - 1]))[0])
    assert released.mean() == pytest.approx(12, abs=4 * np.sqrt(variance / 200_000))
    assert released.var() == pytest.approx(variance, rel=0.02)
