"""Levels: the same bits for any split, after resuming, from the journal; within bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate as tg
from tests.depth import examples
from tests.laws.catalogue import bits, inputs, length, names_of_law, pipelines, stream
from tidegate.durable import DurableRelease


@pytest.mark.parametrize("name", names_of_law(0))
def test_any_split_and_resuming_give_the_same_levels(name: str) -> None:
    pipeline = pipelines()[name]
    values = inputs(pipeline)[:900]
    whole = pipeline.start(tg.seeded(3)).push_rows(values)
    plain = pipeline.start(tg.seeded(3)).push(values)
    assert bits(whole.values) == bits(plain)  # asking for levels changes nothing
    assert whole.levels.size == whole.values.size
    low, high = float(pipeline.lower), float(pipeline.threshold.bound)
    assert ((whole.levels >= low) & (whole.levels <= high)).all()

    @settings(max_examples=examples(4))
    @given(st.lists(st.tuples(st.integers(1, 200), st.booleans()), min_size=1, max_size=12))
    def check(split: list[tuple[int, bool]]) -> None:
        release, at, levels = pipeline.start(tg.seeded(3)), 0, []
        for size, resumed in split:
            levels.append(release.push_rows(values[at : at + size]).levels)
            at += size
            if resumed:
                release = pipeline.resume(release.snapshot(brief=True))
        levels.append(release.push_rows(values[at:]).levels)
        assert bits(np.concatenate(levels)) == bits(whole.levels)

    check()


@pytest.mark.parametrize("name", names_of_law(1))
def test_the_present_level_is_that_of_the_last_row(name: str) -> None:
    """Except where a selection or a new threshold has just begun: the next row is meant then."""
    pipeline = pipelines()[name]
    values = stream(min(length(pipeline), 500), seed=1)
    whole = pipeline.start(tg.seeded(5)).push_rows(values)
    single = pipeline.start(tg.seeded(5))
    assert (single.level is None) == bool(pipeline.holdout)
    pushed = ((single.push(value), single.level) for value in values.tolist())
    present = [level for released, level in pushed if released is not None]
    other = np.flatnonzero(np.array(present) != whole.levels)
    assert {int(at) + 1 for at in other} <= {one.origin for one in single.record.segments}


@pytest.mark.parametrize("name", names_of_law(2))
def test_the_journal_gives_the_same_levels_again(name: str, tmp_path) -> None:
    pipeline = pipelines()[name]
    if pipeline.unit.name.startswith("user"):
        pytest.skip("users are not what this is about")
    values, rows = stream(min(length(pipeline), 400), seed=2), []
    for part in np.array_split(values, 3):
        with DurableRelease.open(tmp_path, pipeline) as run:  # a new process, as far as it knows
            rows += [run.push_rows(piece) for piece in np.array_split(part, 2)]
    with DurableRelease.open(tmp_path, pipeline) as run:
        again = list(run.replay_rows())
        late = list(run.replay_rows(77))
    for found in (again, late):
        for column in ("values", "levels"):
            all_rows = np.concatenate([getattr(piece, column) for piece in rows])
            expected = all_rows[77:] if found is late else all_rows
            replayed = [np.empty(0), *(getattr(piece, column) for piece in found)]
            assert bits(np.concatenate(replayed)) == bits(expected)


def test_a_level_stays_where_the_values_are():
    """A stream of 40 ± 3: single released values are far off, their levels are not."""
    rng = np.random.default_rng(0)
    values = 40 + 3 * rng.standard_normal(20_000)
    pipeline = tg.adaptive(epsilon=0.5, bound=1000, horizon=20_000)
    rows = pipeline.start(tg.seeded(1)).push_rows(values)
    late = slice(4_000, None)
    assert np.abs(rows.values[late] - 40).max() > 400
    assert np.abs(rows.levels[late] - 40).max() < 10
    assert np.abs(np.diff(rows.levels[late])).mean() < 0.1


@pytest.mark.parametrize("preset", [tg.flat, tg.binary_tree])
def test_methods_that_predict_nothing_have_a_moving_average(preset):
    """Single values are off by more than θ; the mean of 1,024 leaves by a twelfth of it (σ)."""
    values = np.full(8_000, 200)
    release = preset(epsilon=1, bound=400, holdout=1000, horizon=4096).start(tg.seeded(2))
    rows = release.push_rows(values)
    assert rows.values.std() > 250
    assert np.abs(rows.levels[2_000:] - 200).max() < 4 * release.threshold / 12
    assert rows.levels[0] == pytest.approx(release.threshold / 2, rel=0.2)
