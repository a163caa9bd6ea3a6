"""Where most values are 0, θ climbs from the bottom of the lattice by released sums."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tests.laws.catalogue import alike_when_split
from tidegate.estimate.mixture.outgrown_cap import CapWatch
from tidegate.lattice import Lattice
from tidegate.run.selection_counts import SelectionCounts
from tidegate.run.two_sided_caps import Ends
from tidegate.threshold import TailQuantile


def rare(count: int = 16_384, chance: float = 0.02, size: float = 1.0) -> np.ndarray:
    """Mostly 0, and now and then a value of about this size."""
    random = np.random.default_rng(1)
    sizes = size if size == 1 else random.uniform(0.5 * size, size, count)
    return np.where(random.random(count) < chance, sizes, 0.0)


def thresholds(release: tg.Release) -> list[float]:
    """One for each phase."""
    return [phase.threshold for phase in release.phases]


@pytest.mark.parametrize("seed", range(4))
def test_rare_events_are_found_within_a_fifth_of_the_stream(seed: int) -> None:
    """A choice would need 40 of them at once, and left θ at 10⁻⁷ in most runs."""
    release = tg.adaptive(3, 1, horizon=16_384).start(tg.seeded(seed))
    values = rare()
    release.push(values)
    found = [phase.start for phase in release.phases if phase.threshold == 1]
    assert found
    assert found[0] < 16_384 / 5
    assert release.threshold == 1


def test_intervals_after_a_climb_hold_as_often_as_they_say() -> None:
    """95 %: of 16 runs all but two, at least."""
    values, held = rare(), 0
    for seed in range(16):
        release = tg.adaptive(3, 1, horizon=16_384).start(tg.seeded(seed))
        release.push(values)
        answer = release.query(8192, 16_384)
        held += bool(answer.low <= values[8192:].sum() <= answer.high)
    assert held >= 14


@pytest.mark.parametrize("seed", range(4))
def test_it_does_not_climb_far_above_the_values(seed: int) -> None:
    """Values of 1 to 2 under a bound of 1,000: a step too far at most, for few blocks."""
    release = tg.adaptive(3, 1000, horizon=16_384, resolution="0.0001").start(tg.seeded(seed))
    release.push(rare(size=2.0))
    climbed = thresholds(release)
    assert max(climbed) <= 2 * 64  # hardly ever more than one step
    assert 1 <= climbed[-1] <= 16
    above = [
        later.start - phase.start
        for phase, later in zip(release.phases, release.phases[1:], strict=False)
        if phase.threshold > 16
    ]
    assert sum(above) < 16_384 / 8


def test_blocks_of_a_climb_count_by_what_they_know() -> None:
    """Eight short blocks of noise hardly change what a long one has shown."""
    watch = CapWatch()
    watch.climbed(40.0, 4.0, 4000)
    alone, doubt = watch.share_and_doubt
    assert (alone, doubt) == (pytest.approx(0.01), pytest.approx(0.001))
    for _ in range(8):
        watch.climbed(8.0, 4.0, 16)
    assert watch.share_and_doubt == (pytest.approx(0.01, rel=0.01), pytest.approx(0.001, rel=0.01))


def test_half_of_what_a_climb_missed_is_published_where_it_ends() -> None:
    """A running sum that is 0 for long is nearest, over ranges, to one from the middle."""
    values, parts = rare(), []
    for seed in range(24):
        release = tg.adaptive(3, 1, horizon=16_384).start(tg.seeded(seed))
        out = release.push(values)
        top = [phase.start for phase in release.phases if phase.threshold == 1]
        missed = values[: top[0]].sum()
        parts.append((out[: top[1] + 1024].sum() - values[top[0] : top[1] + 1024].sum()) / missed)
    assert 0.25 < np.mean(parts) < 0.75


def test_a_stream_of_zeros_climbs_nowhere() -> None:
    for seed in range(4):
        release = tg.adaptive(3, 1, horizon=4096).start(tg.seeded(seed))
        release.push(np.zeros(4096))
        assert release.threshold < 0.01


@pytest.mark.parametrize("seed", range(2))
def test_a_climb_is_the_same_for_any_split_and_resume(seed: int) -> None:
    pipeline, values = tg.adaptive(3, 1, horizon=4096), rare(4096, 0.05)
    whole = alike_when_split(pipeline, values, seed)
    assert len(whole.phases) > 5


def test_chance_hardly_takes_a_threshold_that_is_far_too_high() -> None:
    """400 choices like the first window of 16,384 values of 100 ± 10 at ε = 1/10, bound 1,000.

    With a price that can be paid from one lattice step up to the bound, one in nine lay above 300.
    """
    lattice = Lattice(Fraction(10_000), Fraction(1))
    stage = TailQuantile(
        epsilon=Fraction(1, 20), bound=10_000, holdout=1116, horizon=16_384, stream_epsilon="1/10"
    )
    values = np.random.default_rng(3).normal(1000, 100, size=1116).astype(np.int64)
    found: dict[bool, list[int]] = {True: [], False: []}
    for seed in range(400):
        epoch = tg.seeded(seed).new_epoch()
        for known, thetas in found.items():
            counts = SelectionCounts(stage, Fraction(1, 2), lattice)
            counts.add(values)
            ends = counts.chosen(
                lambda purpose, epoch=epoch: epoch.keystream(purpose, b""),
                at_least=Ends(1, 1),
                before=Ends(1675),
                positive=0.5,
                level=850.0 if known else None,
            )
            thetas.append(ends.above)
    too_high = {known: np.mean(np.array(thetas) > 3000) for known, thetas in found.items()}
    assert too_high[True] < 0.05 < too_high[False]
    assert min(found[True]) >= 850
