"""Levels of the values that chose both ends: what lies beyond an end where the level moves."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tidegate as tg
from tidegate.record import threshold_evidence
from tidegate.record.levels_that_chose_ends import LevelBand, levels_that_chose

COUNT, BOUND = 6000, 40


def temperatures(seed: int, amplitude: float = 10.0) -> np.ndarray:
    """A slow cycle around 7: the level nears the lower end and leaves it again."""
    random = np.random.default_rng(seed)
    slow = np.sin(2 * np.pi * np.arange(COUNT) / 1500)
    return np.round(7 + amplitude * slow + random.normal(size=COUNT), 2)


def released(values: np.ndarray, seed: int, lower: int = -BOUND) -> tg.Release:
    release = tg.adaptive(1, BOUND, lower=lower, horizon=COUNT).start(tg.seeded(seed))
    release.push(values)
    return release


@pytest.mark.parametrize("seed", range(3))
def test_bands_lie_among_the_levels_of_the_stream(seed: int) -> None:
    """Noise does not stretch them: they lie within what the level really does."""
    record = released(temperatures(seed), seed).record
    trees = record.segments[-1].method.budgets
    bands = levels_that_chose(record.segments, trees, COUNT)
    known = [band for band in bands if not math.isnan(band.lowest)]
    assert len(known) >= 3
    step = record.segments[0].method.step
    for band in known:
        assert -4 < band.lowest * step <= band.highest * step < 18
    assert max(band.highest - band.lowest for band in known) > 0  # and they tell of it


def test_what_is_released_later_does_not_count() -> None:
    record = released(temperatures(1), 1).record
    trees = record.segments[-1].method.budgets
    early = levels_that_chose(record.segments, trees, 600)
    starts = [segment.start for segment in record.segments]
    later = [band for band, start in zip(early, starts, strict=True) if start >= 600]
    assert later
    assert all(math.isnan(band.lowest) and math.isnan(band.highest) for band in later)


def test_streams_from_0_on_have_none() -> None:
    record = released(np.abs(temperatures(2)), 2, lower=0).record
    bands = levels_that_chose(record.segments, record.segments[-1].method.budgets, COUNT)
    assert all(math.isnan(band.lowest) for band in bands)


def test_a_band_grows_by_what_it_does_not_hold() -> None:
    band, unknown = LevelBand(2.0, 5.0), LevelBand()
    assert band.with_lower(LevelBand(1.0, 9.0)) == (1.0, 5.0)
    assert band.with_higher(LevelBand(1.0, 9.0)) == (2.0, 9.0)
    assert band.with_lower(LevelBand(3.0, 4.0)) == band.with_higher(unknown) == band
    assert unknown.with_lower(band) is unknown  # what chose the end itself is not known


def test_a_level_that_moves_among_them_does_not_open_the_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Totals hold, with a good part less of what ends would reach without what windows show."""
    held, widths = 0, []
    for seed in range(8):
        values = temperatures(seed + 10)
        answer = released(values, seed).query(0, COUNT)
        held += answer.low <= values.sum() <= answer.high
        with monkeypatch.context() as patch:
            unknown = lambda segments, *_: [LevelBand()] * len(segments)  # noqa: E731  # a stub
            patch.setattr(threshold_evidence, "levels_that_chose", unknown)
            without = released(values, seed).query(0, COUNT)
        widths.append((answer.high - answer.low) / (without.high - without.low))
    assert held >= 7
    assert np.median(widths) < 0.85
    assert max(widths) < 1.02  # the estimate moves with what ends expect
