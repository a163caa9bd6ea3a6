"""A θ that a burst led to stays once bursts have come again; a level that rose once may fall."""

from __future__ import annotations

import numpy as np
import pytest

import tidegate as tg
from tests.adaptive.replayed_mechanisms import ReplayedMechanisms
from tests.laws.catalogue import bits
from tidegate.estimate.mixture.outgrown_cap import CapWatch
from tidegate.keyed.refined_choices import RefinedChoices
from tidegate.ownership import Ownership
from tidegate.run.refinement_run import RefinementRun
from tidegate.run.release import Release

COUNT, EVERY = 100_000, 8000
PIPELINE = tg.adaptive(2, 2000, horizon=1 << 17, resolution=1)
HIGH = 1500  # what bursts need


def bursts(first: int = 20_000, times: int = 100, long: int = 300) -> np.ndarray:
    """Values of mean 15; from the `first` on, every 8,000, so many `times` some of mean 600."""
    random, at = np.random.default_rng(1), np.arange(COUNT)
    inside = (at >= first) & (at < first + EVERY * times) & ((at - first) % EVERY < long)
    rate = np.where(inside, 600, 15) * random.gamma(1.0, size=COUNT)
    return np.minimum(random.poisson(rate), 2000)


def released(values: np.ndarray, seed: int) -> tuple[np.ndarray, Release]:
    release = PIPELINE.start(tg.seeded(seed))
    return release.push(values), release


def run_of(release: Release) -> RefinementRun:
    assert isinstance(release._run, RefinementRun)
    return release._run


def lowest(release: Release, since: int) -> float:
    return min(phase.threshold for phase in release.phases if phase.start >= since)


def test_after_two_bursts_the_threshold_suits_the_next(monkeypatch) -> None:
    """Choices between bursts lower θ once, and no more."""
    values = bursts()
    before = [released(values, seed)[1] for seed in range(4)]
    for release in before:
        assert run_of(release).floor > HIGH, release.phases
        assert lowest(release, 30_000) < 600
        assert lowest(release, 38_000) > HIGH
    monkeypatch.setattr(CapWatch, "least_after", lambda watch, theta: 1)
    for seed in range(4):
        assert run_of(released(values, seed)[1]).floor < HIGH


def test_a_level_that_rose_once_holds_no_threshold() -> None:
    """One burst is followed, and θ comes down again."""
    values = bursts(first=28_000, times=1, long=1200)
    for seed in range(4):
        _, release = released(values, seed)
        assert run_of(release)._watch.highest > HIGH, release.phases
        assert release.phases[-1].threshold < 600, release.phases


def test_what_stays_follows_from_what_was_released(monkeypatch) -> None:
    """Zeros go in, and the mechanisms give what they gave before: the same bits, the same floor."""
    values = bursts()[:60_000]
    out, release = released(values, 0)
    assert run_of(release).floor > HIGH
    mechanisms = ReplayedMechanisms(monkeypatch)
    assert bits(released(values, 0)[0]) == bits(out)
    mechanisms.replay()
    again, other = released(np.zeros(values.size), 1)
    assert bits(again) == bits(out)
    assert not mechanisms.left
    assert run_of(other).floor == run_of(release).floor


@pytest.mark.parametrize(
    ("highest", "cap", "theta", "least"),
    [(0, 50, 400, 1), (400, 50, 300, 400), (300, 50, 400, 400), (50, 50, 400, 1)],
)
def test_the_least_threshold_after_a_full_cap(
    highest: int, cap: int, theta: int, least: int
) -> None:
    watch = CapWatch()
    watch.highest, watch.cap = highest, cap
    assert watch.least_after(theta) == least
    assert watch.highest == max(highest, theta)


def test_a_new_horizon_forgets_bursts() -> None:
    release = PIPELINE.start(tg.seeded(0))
    release.push(bursts())
    run = run_of(release)
    assert run._watch.highest > HIGH
    release.push(np.full((1 << 17) - COUNT, 15))
    assert (run_of(release)._watch.highest, run_of(release).floor) == (0, 1)


def test_keys_in_arrays_keep_the_same_thresholds(monkeypatch) -> None:
    """Their warm-ups end together; with a stop in the middle, and a state of an earlier version."""
    keys, seen = [f"k{number}" for number in range(16)], []
    rule = RefinedChoices._keep_floors

    def watched(columns, codes, thetas):
        before = columns.floor[codes].copy()
        rule(columns, codes, thetas)
        seen.extend((columns.floor[codes] > before).tolist())

    monkeypatch.setattr(RefinedChoices, "_keep_floors", watched)
    values = bursts()[:50_000]
    release = tg.keyed(PIPELINE, keys=keys).start(tg.seeded(3))
    out = []
    for number, part in enumerate(np.array_split(values, 7)):
        rows = release.push(np.tile(keys, part.size).tolist(), np.repeat(part, len(keys)))
        out.append([rows.of(key).values for key in keys])
        if number == 4:
            release = tg.keyed(PIPELINE, keys=keys).resume(release.snapshot())
    assert any(seen), "no warm-ups ended together where bursts had come again"
    epoch = tg.seeded(3).new_epoch()
    for at, key in enumerate(keys):
        alone = Release(PIPELINE, epoch.of_key(key), ownership=Ownership())
        assert bits(np.concatenate([part[at] for part in out])) == bits(alone.push(values))


def test_a_state_of_an_earlier_version_is_continued() -> None:
    values = bursts()
    release = PIPELINE.start(tg.seeded(1))
    release.push(values[:30_000])
    run = run_of(release)
    state = run.state(brief=False)
    assert state["watch"].pop("highest") > 0
    again = RefinementRun(run._keys, state=state)
    assert again._watch.highest == 0
    assert again.floor == run.floor
