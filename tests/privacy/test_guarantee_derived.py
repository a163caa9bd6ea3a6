"""The guarantee is computed from the stages: exactly, and never less than what is spent."""

import math
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import tidegate as tg
from tidegate.guarantee import (
    Guarantee,
    concentrated,
    concentrated_epsilon,
    free,
    parallel,
    sequential,
    simulated,
)

BUDGETS = st.fractions(min_value=Fraction(1, 1000), max_value=10, max_denominator=10**6)
EXACT = st.builds(Guarantee, epsilon=BUDGETS)


def pipelines(stage):
    return tg.Pipeline(threshold=tg.threshold.Fixed(20), perturber=stage)


# -- composition --------------------------------------------------------------------------------


@given(parts=st.lists(EXACT, min_size=1, max_size=6))
def test_composition_is_exact(parts):
    together, side_by_side = sequential(*parts), parallel(*parts)
    assert together.epsilon == sum(part.epsilon for part in parts)
    assert side_by_side.epsilon == max(part.epsilon for part in parts)
    assert isinstance(together.epsilon, Fraction)
    assert isinstance(side_by_side.epsilon, Fraction)


def test_a_tenth_ten_times_is_one():
    # Catches: floats, for which the sum is 0.9999999999999999.
    tenth = tg.tops(epsilon=0.1, bound=10).guarantee
    assert sequential(*[tenth] * 10).epsilon == 1
    assert sequential(tenth, free()) == tenth == parallel(tenth, free())


def test_deltas_add_and_are_capped():
    part = Guarantee(epsilon=Fraction(1), delta=Fraction(2, 5))
    assert sequential(part, part).delta == Fraction(4, 5)
    assert sequential(part, part, part).delta == 1
    assert parallel(part, Guarantee(epsilon=Fraction(3))) == Guarantee(
        epsilon=Fraction(3), delta=Fraction(2, 5)
    )


@pytest.mark.parametrize("compose", [sequential, parallel])
def test_weaknesses_propagate(compose):
    sound, rough = (
        Guarantee(epsilon=Fraction(1)),
        Guarantee(epsilon=Fraction(1), arithmetic="float"),
    )
    assert compose(sound, sound).arithmetic == "exact"
    assert compose(sound, rough).arithmetic == compose(rough, sound).arithmetic == "float"
    pretend = compose(sound, simulated(sound))
    assert not pretend.holds
    assert pretend.epsilon == math.inf
    assert str(pretend).startswith("none (simulation)")
    for other in (
        Guarantee(epsilon=Fraction(1), unit="user"),
        Guarantee(epsilon=Fraction(1), model="local"),
    ):
        with pytest.raises(tg.SettingError):
            compose(sound, other)


# -- stages -------------------------------------------------------------------------------------


@st.composite
def stages(draw):
    fanout, levels = draw(st.integers(2, 20)), draw(st.integers(1, 5))
    shares = draw(st.none() | st.lists(BUDGETS, min_size=levels, max_size=levels))
    skipped = draw(st.integers(0, 2))
    horizon = draw(st.integers(1, 10)) * fanout ** (skipped + levels - 1)
    return tg.perturb.Hierarchy(
        epsilon=draw(BUDGETS),
        horizon=horizon,
        fanout=fanout,
        skipped=skipped,
        levels=levels,
        shares=shares,
        consistent=draw(st.booleans()),
    )


@given(stage=stages(), threshold=st.integers(1, 10**6))
def test_the_levels_spend_at_most_epsilon(stage, threshold):
    # Catches: a scale rounded down, shares that do not add up to one, a level too many.
    forest = stage.noise_law(threshold)
    spent = sum(threshold / scale for scale in forest.scales)
    assert len(forest.scales) == stage.tree_levels
    assert all(isinstance(scale, Fraction) for scale in forest.scales)
    assert spent <= stage.guarantee.epsilon == stage.epsilon
    assert spent > stage.epsilon * (1 - Fraction(1, 10**5))


@given(stage=stages(), threshold=st.integers(1, 10**6))
def test_each_level_spends_its_share(stage, threshold):
    shares = stage.shares or [Fraction(1, stage.tree_levels)] * stage.tree_levels
    for share, scale in zip(shares, stage.noise_law(threshold).scales, strict=True):
        assert share * stage.epsilon * (1 - Fraction(1, 10**5)) < threshold / scale
        assert threshold / scale <= share * stage.epsilon


@given(
    epsilon=BUDGETS,
    block=st.integers(1, 50),
    horizon=st.integers(1, 10**6),
    threshold=st.integers(1, 10**6),
)
def test_flat_spends_at_most_epsilon(epsilon, block, horizon, threshold):
    stage = tg.perturb.Flat(epsilon=epsilon, horizon=horizon, block=block)
    (scale,) = stage.noise_law(threshold).scales
    assert (
        epsilon * (1 - Fraction(1, 10**5)) < threshold / scale <= stage.guarantee.epsilon == epsilon
    )


@given(stage=stages())
def test_a_pipeline_with_a_public_threshold_costs_its_stream(stage):
    try:
        pipeline = pipelines(stage)
    except tg.SettingError:
        assume(False)  # noise too large for 64 bits
    assert pipeline.guarantee == stage.guarantee
    assert pipeline.start().guarantee == pipeline.guarantee


@given(threshold_epsilon=BUDGETS, stream_epsilon=BUDGETS)
def test_holdout_and_stream_are_disjoint(threshold_epsilon, stream_epsilon):
    pipeline = tg.Pipeline(
        threshold=tg.threshold.NoisyMax(epsilon=threshold_epsilon, bound=10, holdout=3),
        perturber=tg.perturb.Flat(epsilon=stream_epsilon),
    )
    assert pipeline.guarantee.epsilon == max(threshold_epsilon, stream_epsilon)
    assert pipeline.guarantee.delta == 0
    assert pipeline.guarantee.arithmetic == "exact"


def test_a_float_is_taken_by_what_it_says():
    # Catches: Fraction(0.1), a little more than a tenth: the budget would be overspent.
    for spelling in (0.1, "0.1", "1/10", Fraction(1, 10)):
        assert tg.tops(epsilon=spelling, bound=10).guarantee.epsilon == Fraction(1, 10)


# -- presets ------------------------------------------------------------------------------------


def test_guarantees_of_the_presets():
    tops = tg.tops(epsilon="0.3", bound=100).guarantee
    mixture = tg.pak_with_tops_threshold(epsilon="0.3", bound=100).guarantee
    for pure in (tops, mixture):
        assert (pure.epsilon, pure.delta, pure.arithmetic) == (Fraction(3, 10), 0, "exact")
    for preset in (tg.pak, tg.pak_with_tops_stream):
        default = preset(epsilon="0.3", bound=100, horizon=1000).guarantee
        assert (default.epsilon, default.arithmetic) == (Fraction(3, 10), "float")
        assert default.delta == Fraction(1, 1000**2)
        chosen = preset(epsilon="0.3", bound=100, horizon=1000, delta="1e-5").guarantee
        assert chosen.delta == Fraction(1, 10**5)
        assert "δ = 1e-05" in str(chosen)


def test_the_papers_noisy_max_says_that_it_uses_floats():
    stage = tg.threshold.NoisyMax(epsilon=1, bound=10, selection="laplace")
    pipeline = tg.Pipeline(threshold=stage, perturber=tg.perturb.Flat(epsilon=1))
    assert pipeline.guarantee.arithmetic == "float"
    assert "float arithmetic" in str(pipeline.start().guarantee)


def test_forks_add_deltas_and_keep_the_weakest_arithmetic():
    release = tg.pak(epsilon=1, bound=10, horizon=100, holdout=5).start()
    early = release.guarantee
    release.fork()
    assert release.guarantee.epsilon == 2
    assert release.guarantee.delta == 2 * early.delta
    assert release.guarantee.arithmetic == "float"


@given(
    epsilon=st.fractions(min_value=Fraction(1, 100), max_value=2, max_denominator=100),
    digits=st.integers(2, 14),
)
def test_smooth_sensitivity_keeps_its_delta(epsilon, digits):
    # The law of the noise by itself: slide by one sensitivity, stretch by e^β; the mass where the
    # loss exceeds ε must be at most δ, or the setting refused.
    delta = Fraction(1, 10**digits)
    try:
        stage = tg.threshold.SmoothQuantile(epsilon=epsilon, delta=delta, bound=100, holdout=100)
    except tg.SettingError:
        assume(False)
    half, beta = float(epsilon) / 2, stage.decay
    limit = (half + beta) / math.expm1(beta)  # |Z| beyond it: stretching costs more than e^(ε/2)
    assert math.exp(half - limit) <= float(delta) * (1 + 1e-9)


# -- what it speaks of --------------------------------------------------------------------------


def test_neighbours_are_those_of_the_unit():
    """A window or a user is not "one value at one position"."""
    said = {
        unit: tg.tops(epsilon=1, bound=10, unit=unit).guarantee.neighbours
        for unit in (tg.units.Event(), tg.units.Window(length=96), tg.units.UserHorizon(most=3))
    }
    event, window, user = said.values()
    assert "one value at one position" in event
    assert "96 consecutive values" in window
    assert "one user and horizon" in user
    assert "one value" not in window + user
    assert "device" in tg.topl(epsilon=1, bound=10).guarantee.neighbours


# -- concentrated differential privacy ------------------------------------------------------------


def test_concentrated_epsilon_is_opendps():
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    for scale in (1.0, 10.0, 300.0):
        curve = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=scale)).map(1.0)
        for delta in (1e-3, 1e-6, 1e-9):
            ours = concentrated_epsilon(1 / (2 * Fraction(scale) ** 2), delta)
            assert ours == pytest.approx(curve.epsilon(delta), rel=1e-5)


def test_concentrated_guarantees_compose_by_rho():
    delta = Fraction(1, 10**6)
    part = concentrated(Fraction(1, 200), delta)
    twice = sequential(part, part)
    assert (twice.rho, twice.delta) == (Fraction(1, 100), delta)
    assert part.epsilon < twice.epsilon < 2 * part.epsilon  # better than adding ε
    assert parallel(part, part) == part
    assert Guarantee.from_plain(part.plain()).rho == part.rho
    # Pure ε is worth ρ = ε²/2; an approximate part has no ρ, and (ε, δ) add up.
    pure = Guarantee(epsilon=Fraction(1, 10))
    assert sequential(part, pure).rho == Fraction(1, 100)
    loose = sequential(part, Guarantee(epsilon=Fraction(1), delta=delta))
    assert loose.rho is None
    assert (loose.epsilon, loose.delta) == (part.epsilon + 1, 2 * delta)
    assert sequential(pure, pure).rho is None


def test_groups_under_concentrated_privacy_cost_the_square():
    delta = Fraction(1, 10**6)
    unit = tg.units.Window(length=3)
    assert unit.widen(concentrated(Fraction(1, 200), delta)).rho == Fraction(9, 200)
    assert unit.widen(concentrated(Fraction(1, 200), delta)).delta == delta
    assert simulated(concentrated(Fraction(1, 200), delta)).rho is None
