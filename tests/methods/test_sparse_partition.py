"""Online partition: segments cost what they say, sums have their scale, error bars are honest."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import tidegate as tg
from tests.methods.coverage import coverage
from tests.methods.enumerated import worst_loss
from tidegate.errors import SettingError
from tidegate.methods.sparse_partition import OnlinePartition, sparse_partition

WRONG = (0.7, 1.3)
THETA = 30


def run_of(stage, seed=7, threshold=THETA):
    keystream = tg.seeded(seed).new_epoch().keystream("perturb", b"")
    return stage.start(threshold, threshold, keystream)


def sparse(count, seed=1):
    random = np.random.default_rng(seed)
    return np.where(random.random(count) < 0.03, random.integers(1, THETA, size=count), 0)


def test_by_hand():
    """Without noise and with a limit of 50: 30 + 20 is not above it, one more is."""
    run = run_of(OnlinePartition(epsilon=2, limit="5/3", horizon=9))
    nothing = np.zeros(1024, dtype=np.int64)
    run._noise.at = lambda position: ([nothing, nothing], 0)
    run._sums.next_noises = lambda count: np.full(count, 1000)
    found = run.push(np.array([0, 30, 20, 0, 1, 99, 20, 0, 0]))  # 99 counts as 30
    assert found.sums.tolist() == [1051, 1050]
    assert found.spans.tolist() == [5, 4]
    assert found.marks.tolist() == [1, 2]  # the second would go on, but its horizon is over
    assert (run.total, run.filled, run._sums.position) == (0, 0, 0)


def probability(stage, values, closed):
    """Exactly that the segments are closed here, from the scale of the stage and the rule."""
    scale, public = stage.test_scale(1), stage.public_limit(1)
    reach = 40 * scale
    places = np.arange(-reach, reach + 1)
    weights = np.exp(-np.abs(places) / scale)
    law = weights / weights.sum()
    tail = np.cumsum(law)  # P(noise ≤ place)
    total, chance, content, opened = 1.0, law.copy(), 0, True
    for value, close in zip(values, closed, strict=True):
        if opened:
            chance, content, opened = law.copy(), 0, False
        content += value
        stays = tail[np.clip(public + places - content + reach, 0, 2 * reach)]
        chance *= 1 - stays if close else stays
        if close:
            total, opened = total * chance.sum(), True
    return total if opened else total * chance.sum()


@pytest.mark.parametrize(("epsilon", "limit"), [(2, "1/2"), (2, 3), (1, "1/2"), ("1/2", 1)])
def test_tests_cost_their_share_enumerated(epsilon, limit):
    """θ = 1, five values, all neighbours, all decisions: at most ε_t is lost, and nearly all is."""
    stage = OnlinePartition(epsilon=epsilon, limit=limit)
    share = float(stage.epsilon * stage.share)
    decisions = list(product((False, True), repeat=5))
    table = {}
    for values in product((0, 1), repeat=5):
        table[values] = np.array([probability(stage, values, one) for one in decisions])
        assert abs(table[values].sum() - 1) < 1e-9
    assert 0.9 * share < worst_loss(table) <= share * (1 + 1e-9)


def test_decisions_follow_that_law():
    """How often the first value of a segment closes it: 150,000 zeros."""
    stage = OnlinePartition(epsilon=2, limit=3)
    found = run_of(stage).push(np.zeros(150_000, dtype=np.int64))
    alone = np.count_nonzero(found.spans == 1) / found.spans.size

    def chance(factor):
        """P(test > T + limit) for two Laplace laws of one scale."""
        gap = stage.public_limit(THETA) / (factor * stage.test_scale(THETA))
        return math.exp(-gap) * (2 + gap) / 4

    error = math.sqrt(chance(1) * (1 - chance(1)) / found.spans.size)
    assert found.spans.size > 1000
    assert abs(alone - chance(1)) < 4.5 * error
    assert all(abs(alone - chance(factor)) > 4.5 * error for factor in WRONG)


def test_scale_of_the_sums():
    """The first sum of a stream has one draw, of the counter's own share: 500 streams."""
    stage = OnlinePartition(epsilon=1, horizon=2)
    zeros = np.zeros(2, dtype=np.int64)
    noise = np.array([run_of(stage, seed).push(zeros).sums[0] for seed in range(600)])
    size, error = np.abs(noise).mean() / (4 * THETA), 1 / math.sqrt(600)  # ε/2, and half of that
    assert abs(size - 1) < 5 * error
    assert all(abs(size / factor - 1) > 5 * error for factor in WRONG)


def test_budgets():
    stage = OnlinePartition(epsilon="1/3", share="1/4")
    assert stage.guarantee.epsilon == Fraction(1, 3)
    assert stage.counter.epsilon == Fraction(1, 4)
    assert Fraction(THETA, stage.test_scale(THETA)) == Fraction(1, 12)


def test_published_values_add_up_to_the_sums():
    pipeline = sparse_partition(8, THETA, holdout=0, horizon=500, resolution=1)
    release = pipeline.start(tg.seeded(3))
    out = release.push(sparse(2000))
    spans = release.record.segments[0].leaves.spans()
    running = np.concatenate(([0], np.cumsum(out)))
    assert spans.marks.size > 5
    assert (np.diff(running[spans.edges]) == spans.numbers).all()


def test_lower_bounds_are_counted_for_every_value():
    """Segments of many values below 0: what is published is right on average."""
    values = np.where(sparse(4000) > 0, -12, 0)
    more = {"lower": -20, "limit": 2000, "resolution": 1}
    pipeline = sparse_partition(400, THETA, holdout=0, horizon=500, **more)
    release = pipeline.start(tg.seeded(3))
    out = release.push(values)
    assert abs(out.sum() - values.sum()) < 150
    assert abs(release.query(0, 4000).estimate - values.sum()) < 150


def test_a_stored_record_answers_alike_after_forgetting():
    pipeline = sparse_partition(20, THETA, holdout=0, horizon=40, history=80, resolution=1)
    release = pipeline.start(tg.seeded(3))
    release.push(sparse(700))
    record = tg.load_record(release.save_record())
    assert record.start > 0
    starts = np.arange(record.start, 680, 7)
    one, other = (source.queries(starts, starts + 15) for source in (release, record))
    for column in ("estimate", "noise_error", "low", "high"):
        assert getattr(one, column).tolist() == getattr(other, column).tolist()


@pytest.mark.parametrize("dense", [False, True])
def test_intervals_hold_what_they_say(dense):
    values = np.random.default_rng(2).integers(0, THETA, size=600) if dense else sparse(600)
    pipeline = sparse_partition(6, THETA, holdout=0, horizon=256, resolution=1)
    starts, ends = np.arange(0, 480, 13), np.arange(60, 540, 13)
    assert coverage(pipeline, values, starts, ends, releases=25) > 0.93


def test_better_than_a_tree_over_all_values_where_little_comes():
    """What it is for: a long stream in which next to nothing happens."""
    values = np.zeros(2**16)
    values[:: 2**12] = 1
    truth = np.cumsum(values)
    errors = []
    for preset in (sparse_partition, tg.hybrid_counter):
        pipeline = preset(1, 1, holdout=0, resolution=1)
        runs = [pipeline.start(tg.seeded(seed)).push(values) for seed in range(4)]
        errors.append(np.mean([np.square(np.cumsum(out) - truth).mean() for out in runs]))
    assert errors[0] < errors[1] / 4


def test_settings_that_cannot_be():
    with pytest.raises(SettingError, match="share"):
        sparse_partition(1, 1, share=1)
    with pytest.raises(SettingError, match="limit"):
        sparse_partition(1, 1, limit=-1)
    with pytest.raises(SettingError, match="estimator: needs a perturber"):
        tg.Pipeline(
            threshold=tg.threshold.Fixed(3),
            perturber=tg.perturb.Flat(epsilon=1),
            estimator=sparse_partition(1, 1).estimator,
        )
