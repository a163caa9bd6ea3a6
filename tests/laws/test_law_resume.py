"""Law 2: snapshot and resume anywhere, any number of times: nobody can tell from the output."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate as tg
from tests.depth import examples
from tests.laws.catalogue import (
    answers,
    bits,
    facts,
    inputs,
    known,
    length,
    names_of_law,
    pipelines,
    stream,
)

KEY = bytes(range(32))


@cache
def uninterrupted(name: str) -> tuple[tg.Pipeline, np.ndarray, tg.Release, np.ndarray]:
    """A pipeline, values for it, and the release of all of them at once."""
    pipeline = pipelines()[name]
    values = inputs(pipeline, seed=2)
    whole = pipeline.start(tg.seeded(9))
    return pipeline, values, whole, whole.push(values)


def release_with_stops(
    pipeline: tg.Pipeline, values: np.ndarray, stops: list[tuple[int, bool, bool]]
) -> tuple[list[float], tg.Release]:
    """Snapshot and resume at each stop (position, sealed?, arriving one value at a time?)."""
    release = pipeline.start(tg.seeded(9))
    out: list[float] = []
    at = 0
    for stop, sealed, single in sorted(stops):
        if single:
            pushed = [release.push(value) for value in values[at:stop].tolist()]
            out.extend(value for value in pushed if value is not None)
        else:
            out.extend(release.push(values[at:stop]))
        key = KEY if sealed else None
        left, release = release, pipeline.resume(release.snapshot(key), key)
        if not single:  # values one by one leave the same behind (law 1)
            assert known(release) == known(left)  # asked afterwards: a question must not help
        at = stop
    out.extend(release.push(values[at:]))
    return out, release


def places(pipeline: tg.Pipeline) -> list[int]:
    """Positions where state changes hands: hold-out, blocks, groves, horizons, and next to them."""
    holdout, block = pipeline.holdout, pipeline.perturber.block
    horizon = -(-pipeline.perturber.horizon // block) * block
    grove = 4096 * block
    marks = {0, holdout // 2, holdout, holdout + block, holdout + horizon, holdout + 2 * horizon}
    marks |= {holdout + grove, holdout + grove + block, holdout + block // 2}
    near = {mark + step for mark in marks for step in (-1, 0, 1)}
    return sorted(place for place in near if 0 <= place <= length(pipeline))


@pytest.mark.parametrize("name", names_of_law(1))
def test_resume_is_invisible(name: str) -> None:
    pipeline, values, whole, expected = uninterrupted(name)
    wanted = known(whole)

    @settings(max_examples=examples(6 if pipeline.estimator.adds_up else 4))
    @given(
        st.lists(st.tuples(st.integers(0, values.size), st.booleans(), st.booleans()), max_size=5)
    )
    def check(stops: list[tuple[int, bool, bool]]) -> None:
        out, release = release_with_stops(pipeline, values, stops)
        assert bits(out) == bits(expected)
        assert known(release) == wanted

    check()


@pytest.mark.parametrize("single", [False, True], ids=["arrays", "single"])
@pytest.mark.parametrize("name", names_of_law(0))
def test_resume_is_invisible_at_every_boundary(name: str, single: bool) -> None:
    """All boundaries in one chain of snapshots."""
    pipeline, values, whole, expected = uninterrupted(name)
    stops = [(place, bool(place % 2), single) for place in places(pipeline)]
    out, release = release_with_stops(pipeline, values, stops)
    assert bits(out) == bits(expected)
    assert known(release) == known(whole)
    if not single:
        assert facts(release) == facts(whole)


@pytest.mark.parametrize("name", names_of_law(2))
def test_taking_a_snapshot_does_not_disturb_the_release(name: str) -> None:
    pipeline = pipelines()[name]
    values = inputs(pipeline, seed=4)
    quiet, busy = pipeline.start(tg.seeded(9)), pipeline.start(tg.seeded(9))
    expected = quiet.push(values)
    out: list[float] = []
    for part in np.array_split(values, 9):
        busy.snapshot()
        busy.snapshot(KEY)
        out.extend(busy.push(part))
    assert bits(out) == bits(expected)


@pytest.mark.parametrize("name", names_of_law(3))
def test_a_stored_record_answers_like_the_release(name: str) -> None:
    pipeline = pipelines()[name]
    release = pipeline.start(tg.seeded(9))
    # Guided answers take their time: once, at the end, in the middle of a horizon and of a block.
    moments = 4 if pipeline.estimator.adds_up else 1
    for part in np.array_split(inputs(pipeline, seed=6), moments):
        release.push(part)
        if release.threshold is None:
            continue
        record = tg.load_record(release.save_record())
        assert (record.start, record.end) == (release.record.start, release.record.end)
        assert answers(record) == answers(release.record)


@pytest.mark.parametrize("name", names_of_law(1))
def test_a_brief_snapshot_goes_on_alike(name: str) -> None:
    pipeline, values, whole, expected = uninterrupted(name)
    out: list[float] = []
    release = pipeline.start(tg.seeded(9))
    for part in np.array_split(values, 6):
        out.extend(release.push(part))
        release = pipeline.resume(release.snapshot(brief=True))
    assert bits(out) == bits(expected)
    start, end = release.record.start, release.record.end
    assert end == whole.position
    if start < end and pipeline.estimator.adds_up:  # there the past says more about the present
        mine, theirs = release.query(start, end), whole.query(start, end)
        assert mine.estimate == pytest.approx(theirs.estimate)
        assert mine.noise_error == theirs.noise_error


def test_the_refused_position_is_right_after_a_resume() -> None:
    pipeline = pipelines()["tops"]
    release = pipeline.start(tg.seeded(9))
    release.push(stream(100))
    resumed = pipeline.resume(release.snapshot())
    with pytest.raises(tg.InputError, match="position 101 "):
        resumed.push([1, "x", 2])


def test_a_secure_release_is_continued_with_its_own_noise() -> None:
    """Without a seed too: the epoch's secret travels in the snapshot."""
    pipeline = pipelines()["perturb.Hierarchy(skipped=0)"]
    release = pipeline.start()
    release.push(stream(30))
    state = release.snapshot()
    later = stream(100, seed=5)
    assert bits(pipeline.resume(state).push(later)) == bits(release.push(later))
    assert pipeline.resume(state).guarantee.holds


def test_a_fork_has_other_noise_and_is_charged() -> None:
    pipeline = pipelines()["tops"]
    release = pipeline.start()
    values = stream(200)
    release.push(values)
    alone = release.guarantee
    branch = release.fork()
    assert branch.threshold == release.threshold
    assert branch.position == release.position
    assert branch.epoch != release.epoch
    assert (
        release.guarantee == branch.guarantee == tg.sequential(alone, pipeline.perturber.guarantee)
    )
    assert bits(branch.push(values)) != bits(release.push(values))
    again = pipeline.resume(branch.snapshot())
    assert again.guarantee == branch.guarantee
