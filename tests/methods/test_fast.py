"""FAST: at most M measurements in a horizon, noise of the right scale, the filter by hand."""

import math
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tidegate.errors import SettingError
from tidegate.estimate.sample_and_hold import MeasuredLeaves
from tidegate.methods._kalman_and_controller import KalmanFeedback, KalmanLevel
from tidegate.methods.fast import AdaptiveSampling, fast

WRONG = (0.7, 1.3)
THETA = 40


def released(values, seed=2, **settings):
    pipeline = fast(**{"epsilon": 100, "bound": THETA, "horizon": 120, "resolution": 1, **settings})
    release = pipeline.start(tg.seeded(seed))
    out = release.push(values)
    return pipeline.perturber, release, out, release.record.segments[0].leaves.spans()


def wave(count):
    return np.rint(20 + 15 * np.sin(np.arange(count) / 40))


@pytest.mark.parametrize(("horizon", "samples"), [(50, 1), (50, 7), (120, None), (30, 30)])
@pytest.mark.parametrize("epsilon", ["1/2", 500])
def test_no_horizon_has_more_than_its_measurements(horizon, samples, epsilon):
    stage, _, _, spans = released(wave(900), horizon=horizon, samples=samples, epsilon=epsilon)
    measured = spans.edges[1:][spans.marks > 0] - 1
    inside = [np.count_nonzero((measured >= at) & (measured < at + horizon)) for at in range(900)]
    assert 0 < max(inside) <= stage.most
    assert (spans.marks[spans.marks > 0] == stage.scale(THETA)).all()
    assert stage.most * Fraction(THETA, stage.scale(THETA)) <= stage.epsilon


def test_a_greedy_controller_gets_no_more():
    """The limit is the perturber's, whatever the interval is."""
    stage = AdaptiveSampling(epsilon=1, horizon=20, samples=3)
    sampler = stage.sampler(9, tg.seeded(1).new_epoch().keystream("perturb", b""))
    taken = []
    for position in range(200):
        sampler.due = 0
        if sampler.push(5, position):
            sampler.measured(5, 1, 1)
            taken.append(position)
    assert taken[:3] == [0, 1, 2]
    assert all(later - first >= 20 for first, later in zip(taken, taken[3:], strict=False))


def test_scale_of_the_noise():
    """Black box: 1,500 measured values and more."""
    values = np.random.default_rng(3).integers(0, 2, size=6000) * THETA  # a surprise each time
    _, _, _, spans = released(values, horizon=100, samples=100, epsilon=500, movement=1)
    measured = spans.marks > 0
    noise = spans.numbers[measured] - values[spans.edges[1:][measured] - 1]
    claimed = 100 * THETA / 500
    assert noise.size > 1500
    q = math.exp(-1 / claimed)
    expected = 2 * q / (1 - q * q)  # the mean of |noise|
    error = 1 / math.sqrt(noise.size)
    ratio = float(np.abs(noise).mean()) / expected
    assert abs(ratio - 1) < 5 * error
    assert all(abs(ratio / factor - 1) > 5 * error for factor in WRONG)


def test_the_filter_by_hand():
    """θ = 12, so a mean of 6 and a variance of 12 at first; steps of variance 1.44."""
    levels, feedback = (kind(12, Fraction(1, 10)) for kind in (KalmanLevel, KalmanFeedback))
    numbers, spans, marks = np.array([[0, 11], [5, 1], [0, 3]])
    gain = (19.2 + 1.44) / (19.2 + 1.44 + 2 * 3**2)
    assert levels.push(MeasuredLeaves(numbers, spans, marks)).tolist() == [6, round(6 + gain * 5)]
    feedback.follow(0, 5, 0)
    assert feedback.variance == pytest.approx(12 + 5 * 1.44)  # time passes
    feedback.follow(11, 1, 3)
    for one in (levels, feedback):
        assert one.exact == pytest.approx(6 + gain * 5)
        assert one.variance == pytest.approx((1 - gain) * 20.64)
    error = gain * 5 / (6 + gain * 5)
    expected = max(1, 1 + 10 * (1 - math.exp(error / 0.1 - 1)))
    assert feedback.interval == pytest.approx(expected)


def test_the_interval_is_that_of_decimals():
    """Shortcuts change no bit of it: where e^x is not needed, and how it is computed."""
    feedback, interval, errors = KalmanFeedback(100, Fraction(1, 100)), 1.0, []
    random = np.random.default_rng(4)
    calm = 0
    for number in (50 + random.laplace(0, 12, 3000)).astype(np.int64).tolist():
        before = feedback.exact
        feedback.follow(number, 1, 1)
        error = abs(feedback.exact - before) / max(feedback.exact, 1.0)
        errors = [*errors, error][-5:]
        assert feedback.errors == errors
        power = (0.9 * error + 0.1 * (math.fsum(errors) / len(errors)) - 0.1) / 0.1
        growth = 1 - float(Decimal(min(power, 50.0)).exp(Context(prec=30)))
        interval = max(1.0, interval + 10.0 * growth)
        assert feedback.interval == interval
        calm += interval > 1
    assert 300 < calm < 2700


def test_a_calm_stream_is_measured_less_often():
    calm = released(np.full(1200, 20.0), epsilon=10**5, samples=120)[3]
    lively = released(np.tile([5.0, 35.0], 600), epsilon=10**5, samples=120)[3]
    counts = [np.count_nonzero(spans.marks) for spans in (calm, lively)]
    assert counts[0] < counts[1] / 5


@pytest.mark.parametrize("kind", ["wave", "independent"])
def test_intervals_hold_what_they_say(kind):
    random = np.random.default_rng(1)
    values = wave(1500) if kind == "wave" else random.integers(0, THETA, size=1500)
    starts = random.integers(0, 1400, size=60)
    ends = np.minimum(starts + random.integers(1, 700, size=60), 1500)
    exact = np.concatenate(([0], np.cumsum(values)))
    truth = exact[ends] - exact[starts]
    for epsilon in (20, 1000):
        hits = []
        for seed in range(8):
            _, release, out, _ = released(values, seed=seed, epsilon=epsilon)
            found = release.queries(starts, ends)
            hits.append(((found.low <= truth) & (truth <= found.high)).mean())
            published = np.concatenate(([0], np.cumsum(out)))
            np.testing.assert_allclose(found.estimate, published[ends] - published[starts])
        assert np.mean(hits) > 0.92


def test_no_plan_for_what_is_decided_as_it_goes():
    with pytest.raises(SettingError, match="pipeline: has errors that depend on what it will"):
        tg.plan.expect(fast(1, THETA), [10])
