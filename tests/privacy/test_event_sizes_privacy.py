"""Sums of ticks and numbers of events by size cost at most ε together: exactly, and by noise."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tidegate.estimate.mixture.pooled_size_counts import counted_sizes, noise_of_counts
from tidegate.perturb.adaptive.event_trees import STEPS, EventTrees
from tidegate.run.event_log import EventLog
from tidegate.run.event_sizes import EventSizes
from tidegate.stages.size_bands import QUARTERS, SizeBands

EPSILON = Fraction(1, 3)
TREES = EventTrees(epsilon=EPSILON, horizon=4096, warm_up="1/4", windows=True, sizes=True)


def scales(theta: int, top: int) -> list[tuple[int, tuple[Fraction, ...]]]:
    """The part of ε in quarters, and the scales of a tree, of every layout there is."""
    found = []
    for part in (Fraction(1), Fraction(1, 2), Fraction(3, 4)):
        layouts = TREES.group(part, 256, theta, top)[1]
        found += [(int(part * QUARTERS), layout.scales) for layout in layouts]
    warm_ups = (TREES.warm_up_layout(256, theta, step)[1] for step in range(STEPS))
    return found + [(1, layout.scales) for layout in warm_ups]


def worst(theta: int, top: int, signed: bool, *, times: Fraction = Fraction(1)) -> Fraction:
    """The largest part of its ε that any event can cost: every value, every tree, every budget.

    An event moves one node of each level by what it gives, and the number of its band by 1. Laplace
    noise of scale b hides a move by m for m/b. `times` makes the scales of numbers smaller.
    """
    bands, most = SizeBands(theta, top, signed), Fraction(0)
    values = np.arange(-top if signed else 0, top + 1)
    kept = bands.kept(values)
    places = [np.flatnonzero(bands.counted(np.array([value]))).tolist() for value in values]
    assert all(len(place) <= 1 for place in places)
    # What one unit costs in the worst tree of each budget, beside what a number costs.
    each: dict[int, Fraction] = {}
    for part, levels in scales(theta, top):
        cost = sum((1 / Fraction(scale) for scale in levels), Fraction(0))
        each[part] = max(each.get(part, Fraction(0)), cost)
    for part, unit in each.items():
        noise = noise_of_counts(bands, EPSILON, part)
        budget = EPSILON * part / QUARTERS
        for gives, place in zip(kept.tolist(), places, strict=True):
            cost = abs(gives) * unit + sum(times / noise[at] for at in place)
            most = max(most, cost / budget)
    return most


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(("theta", "top"), [(1, 1), (1, 40), (2, 3), (7, 100), (16, 16), (33, 200)])
def test_sum_and_number_cost_at_most_epsilon(theta: int, top: int, signed: bool) -> None:
    found = worst(theta, top, signed)
    assert Fraction(9, 10) < found <= 1


def test_numbers_that_spend_a_third_more_are_noticed() -> None:
    assert worst(64, 500, False, times=Fraction(13, 10)) > 1


def test_an_event_above_theta_must_give_up_a_part_of_it() -> None:
    """What the check above rests on: cut at θ and counted too, it would cost more than ε."""
    bands = SizeBands(64, 500, signed=False)
    for value in range(65, 501):
        (band,) = np.flatnonzero(bands.counted(np.array([value])))
        weight, kept = bands.weights[band], int(bands.kept(np.array([value]))[0])
        assert weight + Fraction(kept, 64) <= 1 < weight + 1


@pytest.mark.parametrize("part", [1, 2, 4])
def test_noise_of_numbers_has_the_scale_that_is_claimed(part: int) -> None:
    """The mean of |noise| of discrete Laplace laws is about their scale; ±30 % would be seen."""
    bands = SizeBands(64, 64 << 6, signed=False)
    wanted = np.array([float(scale) for scale in noise_of_counts(bands, EPSILON, part)])
    epoch, share = tg.seeded(5).new_epoch(), Fraction(part, QUARTERS)
    sizes, keys = (
        EventSizes(bands, EPSILON, 0),
        [epoch.keystream("sizes", bytes([at // 256, at % 256])) for at in range(1500)],
    )
    rows = [np.abs(sizes.release(at + 1, share, key, 64)[3:]) for at, key in enumerate(keys)]
    found = np.mean(rows, axis=0) / wanted
    assert ((found > 0.88) & (found < 1.12)).all()
    assert np.abs(np.corrcoef(np.array(rows).T) - np.eye(bands.number)).max() < 0.15


def test_an_event_is_counted_once_and_gives_what_its_band_keeps() -> None:
    bands, rng = SizeBands(100, 10_000, signed=True), np.random.default_rng(1)
    ticks, values = rng.integers(0, 9, 400), rng.integers(-10_000, 10_001, 400)
    log = EventLog(1 << 40)
    log.add(ticks, values)
    sums, taken = log.take(0, 9, 100, bands)
    assert (
        bands.counted(taken).sum()
        == 400 - ((np.abs(values) > bands.kept_near) & (np.abs(values) <= 100)).sum()
    )
    assert sums.tolist() == [int(bands.kept(values[ticks == tick]).sum()) for tick in range(9)]
    # Pieces of pieces add up: any split of the ticks gives the same numbers.
    split = sum(bands.counted(values[ticks == tick]) for tick in range(9))
    assert split.tolist() == bands.counted(values).tolist()


def jumping(factor: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    ticks = np.sort(rng.integers(0, 960, 20_000))
    values = rng.lognormal(2.0, 0.5, ticks.size) * np.where(ticks < 500, 1.0, factor)
    return np.datetime64("2024-02-01T00:00") + 15 * ticks.astype("timedelta64[m]"), values


def test_theta_follows_from_released_numbers_alone() -> None:
    """Every θ that was raised between windows is what the released numbers of its phase ask for."""
    pipeline = tg.events(epsilon=1, bound=5000, every="15min", start="2024-02-01", horizon=960)
    release = pipeline.start(tg.seeded(2))
    release.push(*jumping(20.0))
    release.close_ticks(960)
    segments, raised = release._run.segments, 0
    lattice = release.pipeline.lattice
    for before, after in itertools.pairwise(segments):
        if before.end <= 500 or after.threshold <= before.threshold:
            continue
        bands = SizeBands(before.threshold, lattice.top, signed=False)
        sizes, asked = EventSizes(bands, Fraction(1), before.origin), 0
        for row in before.sizes:  # the noise is in them already: nothing is added
            sizes.pool.add(counted_sizes(row))
            newest = EventSizes(bands, Fraction(1), before.origin)
            newest.pool.add(counted_sizes(row))
            asked = max(asked, newest.pool.threshold_above(), sizes.pool.threshold_above())
        assert after.threshold == asked
        raised += 1
    assert raised


def test_pieces_that_end_elsewhere_have_other_noise() -> None:
    """The operator ends a piece, and goes on from a state of before: nothing can be subtracted."""
    pipeline = tg.events(epsilon=1, bound=5000, every="15min", start="2024-02-01", horizon=960)
    release = pipeline.start(tg.seeded(2))
    release.push(*jumping(1.0))
    release.close_ticks(608)
    saved, before = release.snapshot(), len(release._run.segments[-1].sizes)
    found = []
    for more in (0, 4, 4, 8):
        other = pipeline.resume(saved)
        other.close_ticks(more)
        other.finish()
        found.append(other._run.segments[-1].sizes[before].tolist())
    assert [row[1] for row in found] == [608, 612, 612, 616]
    assert found[1] == found[2]  # the same release again
    values, ticks = np.abs(release.pipeline.lattice.units(jumping(1.0)[1])), jumping(1.0)[0]
    bands = release._run._bands
    start = np.datetime64("2024-02-01T00:00")
    noise = []
    for first, end, _, *numbers in (found[0], found[1], found[3]):
        place = (ticks - start) // np.timedelta64(15, "m")
        noise.append((numbers - bands.counted(values[(place >= first) & (place < end)])).tolist())
    assert len({tuple(one) for one in noise}) == 3


def test_a_warm_up_has_whole_quarters_as_records_say() -> None:
    pipeline = tg.events(epsilon=1, bound=5000, every="15min", start="2024-02-01", horizon=960)
    fifth = replace(pipeline.perturber, warm_up="1/5")
    with pytest.raises(tg.SettingError, match="quarters"):
        replace(pipeline, perturber=fifth)


def test_numbers_show_in_no_text() -> None:
    sizes = EventSizes(SizeBands(8, 64, signed=False), Fraction(1), 0)
    sizes.add(np.array([5, 60]))
    assert repr(sizes) == "<EventSizes>"
