"""Late choices of θ: which they are, their price, and that nothing before them changes."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tests.laws.catalogue import bits
from tests.privacy.scores import check_scores
from tests.privacy.test_tail_quantile import worst_loss_of_windows
from tidegate.keyed import refined_columns
from tidegate.keyed.refined_choices import RefinedChoices
from tidegate.lattice import Lattice
from tidegate.ownership import Ownership
from tidegate.record.threshold_evidence import evidence_aims
from tidegate.run.refinement_schedule import Refinement
from tidegate.run.release import Release
from tidegate.stages import late_choices, late_from
from tidegate.threshold import TailQuantile
from tidegate.threshold.price_of_thresholds import SCORE_PARTS, late_price, threshold_penalties

LATTICE = Lattice(Fraction(6), Fraction(1))


@pytest.fixture
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Late choices in short streams, so that a test sees some."""
    monkeypatch.setattr(late_choices, "LATE", 512)
    monkeypatch.setattr(late_choices, "LONG", 4096)


def values_of(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).geometric(1 / 40, size=count)


def test_positions_and_horizons() -> None:
    assert late_from(1 << 20) == late_from(1 << 19) == 65_536
    assert late_from((1 << 19) - 1) > 1 << 60


@pytest.mark.parametrize(
    ("horizon", "count", "digest"),
    [(1 << 20, 65_536, "1b1166c2ad838f17"), (1 << 18, 1 << 17, "3b271b5a72116cad")],
)
def test_nothing_before_a_late_choice_changes(horizon: int, count: int, digest: str) -> None:
    """The bits are those without late choices: up to 65,536 values, or with a shorter horizon."""
    pipeline = tg.adaptive("1/10", 4000, horizon=horizon, resolution=1)
    release = replace(pipeline, reselect=Refinement()).start(tg.seeded(3))  # without late looks
    found = hashlib.sha256(release.push(values_of(count)).tobytes())
    found.update(repr([(one.start, one.threshold) for one in release.phases]).encode())
    assert found.hexdigest()[:16] == digest


def test_a_late_choice_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same seeds: θ is lower on light tails, from the first late choice on and not before."""
    values, pipeline = values_of(8192), tg.adaptive(1, 4000, horizon=8192)

    def phases() -> list[list[tuple[int, float]]]:
        runs = [pipeline.start(tg.seeded(seed)) for seed in range(12)]
        for run in runs:
            run.push(values)
        return [[(one.start, one.threshold) for one in run.phases] for run in runs]

    before = phases()
    monkeypatch.setattr(late_choices, "LATE", 512)
    monkeypatch.setattr(late_choices, "LONG", 4096)
    after = phases()
    for old, new in zip(before, after, strict=True):
        assert [one for one in old if one[0] <= 512] == [one for one in new if one[0] <= 512]
    last = [np.mean([math.log(one[-1][1]) for one in runs]) for runs in (before, after)]
    assert last[1] < last[0] - 0.05


def test_the_price_follows_the_level() -> None:
    """10·r between 3 and 10: r is 1 where θ is the quantile of exponential values."""
    stage = TailQuantile(epsilon="1/10", bound=10**6, holdout=20_000, horizon=20_000).late
    folds = math.log(float(stage.holdout / stage.target))
    assert float(stage.target) == pytest.approx(250)
    for ratio, price in ((0.1, 3.0), (0.62, 6.25), (1.0, 10.0), (2.0, 10.0)):
        assert float(late_price(stage, ratio * 10_000 / folds, 10_000)) == price
    assert late_price(stage, -1.0, 10_000) == 3


def test_the_price_holds_up_to_half_as_much_again() -> None:
    """Of a factor of e, in values: 8/ε up to 1.5 times the present θ, 3/ε beyond."""
    stage = TailQuantile(epsilon="1/2", bound=10**6, holdout=20_000, horizon=20_000).late
    grid = stage.candidates(Lattice(Fraction(10**6), Fraction(1)))
    costs = threshold_penalties(stage, 10**6, 100, 10_000, 10_000, Fraction(8))
    slopes = np.diff(costs) / SCORE_PARTS / np.diff(np.log(grid))
    near, far = grid[1:] <= 15_000, grid[:-1] >= 15_000
    assert slopes[near & (grid[1:] > 100)] == pytest.approx(16, rel=1e-4)
    assert slopes[far] == pytest.approx(6, rel=1e-4)


def worst_loss(stage: TailQuantile, rate: float) -> float:
    facts = {"positive": 3, "climbing_to": 3, "late_price": Fraction(10)}
    return worst_loss_of_windows(stage, LATTICE, range(7), rate, **facts)


@pytest.mark.parametrize("epsilon", [3, 10])
def test_the_loss_is_at_most_epsilon(epsilon: int) -> None:
    """Enumerated; a selection at a rate that is 30 % too high would be noticed."""
    stage = TailQuantile(epsilon=epsilon, bound=6, holdout=3, horizon=1000).late
    loss = worst_loss(stage, epsilon)
    assert 0.8 * epsilon < loss <= epsilon * (1 + 1e-9)
    assert worst_loss(stage, 1.3 * epsilon) > epsilon


def test_scores_are_monotone_with_sensitivity_one() -> None:
    lattice = Lattice(Fraction(200), Fraction(1))
    stage = TailQuantile(epsilon="1/3", bound=200, holdout=50, horizon=500).late
    facts = 2, 20, 2, 30, False, Fraction(17, 2)
    check_scores(lambda all_: stage.scores(stage.above(all_, lattice), lattice, *facts), rounds=60)


@pytest.mark.usefixtures("early")
def test_keys_choose_like_releases_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys in arrays, row by row past late choices, stopped once; light and heavy tails: bits."""
    random, count = np.random.default_rng(4), 2200
    names = ["light", "counts", "heavy", "other"]
    columns = np.stack([
        random.geometric(1 / 40, size=count), random.poisson(100, size=count),
        np.minimum(4000, random.pareto(1.3, size=count) * 20).astype(np.int64),
        random.geometric(1 / 30, size=count),
    ])  # fmt: skip
    pipeline = tg.adaptive(1, 4000, horizon=8192)
    specification = tg.keyed(pipeline, keys=names)
    keyed = specification.start(tg.seeded(5), record=False)
    monkeypatch.setattr(refined_columns, "_TOGETHER", 1)
    chosen, choose_again = [], RefinedChoices.choose_again

    def counted(self: RefinedChoices, codes: np.ndarray) -> None:
        chosen.extend(self.mixture.position[codes].tolist())
        choose_again(self, codes)

    monkeypatch.setattr(RefinedChoices, "choose_again", counted)
    found = []
    for number, row in enumerate(columns.T):
        found.append(keyed.push(names, row).values)
        if number == 900:
            keyed = specification.resume(keyed.snapshot(brief=True))
    epoch = tg.seeded(5).new_epoch()
    for name, values, out in zip(names, columns, np.stack(found, axis=1), strict=True):
        alone = Release(pipeline, epoch.of_key(name), ownership=Ownership())
        assert bits(out) == bits(alone.push(values))
        assert sum(phase.start > 512 for phase in alone.phases) >= 1
    assert sum(at > 512 for at in chosen) >= len(names)  # by keys in arrays


@pytest.mark.usefixtures("early")
def test_answers_allow_for_more_above_a_late_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The share above θ grows with the price, up to √5 times, and not before."""
    release = tg.adaptive(1, 4000, horizon=8192).start(tg.seeded(2))
    release.push(values_of(8192))
    segments = release.record.segments
    late = [segment.origin > 512 for segment in segments]
    after = [aim.share for aim in evidence_aims(segments, None)]
    monkeypatch.setattr(late_choices, "LONG", 1 << 40)
    before = [aim.share for aim in evidence_aims(segments, None)]
    grown = [math.sqrt(5) if one else 1.0 for one in late]
    assert any(late)
    ratios = np.array(after) / np.array(before)
    assert ratios[~np.array(late)] == pytest.approx(1)
    assert (ratios[late] > 1.5).all()
    assert (ratios <= np.array(grown) + 1e-9).all()
