"""A view of a record stays as it was, whatever is released afterwards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tidegate as tg
from tests.laws.catalogue import answers, inputs, names_of_law, pipelines, stream
from tidegate.record.record_view import RecordView
from tidegate.run.snapshot import record_as_snapshot


@pytest.mark.parametrize("forgetful", [False, True])
@pytest.mark.parametrize("name", names_of_law(0))
def test_a_view_is_not_changed_by_pushes(name: str, forgetful: bool) -> None:
    """Buffers grow, come round to their oldest leaves, and forget blocks meanwhile."""
    pipeline = pipelines()[name]
    if forgetful:
        pipeline = replace(pipeline, history=50)
    values = inputs(pipeline)[:1200]
    release, views = pipeline.start(tg.seeded(3)), []
    for start in range(0, values.size, 150):
        release.push(values[start : start + 100])
        for value in values[start + 100 : start + 150].tolist():
            release.push(value)
        if release.threshold is not None:
            record = RecordView(release.record)
            views.append((release.position, release.save_record(), record))
    assert views
    for position, before, view in views:
        assert record_as_snapshot(pipeline, release.epoch, position, view) == before


@pytest.mark.parametrize("name", ["tops", "adaptive"])
def test_a_view_answers_as_the_record_did(name: str) -> None:
    more = {"holdout": 64} if name == "tops" else {}
    pipeline = getattr(tg, name)(epsilon=1, bound=40, horizon=300, history=400, **more)
    values, release = stream(700), pipeline.start(tg.seeded(3))
    release.push(values)
    before, view = answers(release.record), RecordView(release.record)
    release.push(values)
    assert answers(release.record) != before
    assert answers(view) == before


def test_a_closed_segment_is_smoothed_once_and_answers_as_if_anew() -> None:
    pipeline = tg.adaptive(epsilon=1, bound=100, horizon=2880, history=1200)
    values = np.random.default_rng(4).gamma(2, 10, 2000)
    release = pipeline.start(tg.seeded(3))
    release.push(values[:400])
    shared = forgot = 0
    before = RecordView(release.record)
    for start in range(400, values.size, 100):
        answers(before)
        release.push(values[start : start + 100])
        view, other = RecordView(release.record), pipeline.resume(release.snapshot())
        assert answers(view) == answers(RecordView(other.record))
        kept = {id(one): one for one in before.segments[:-1]}
        shared += sum(id(one) in kept for one in view.segments[:-1])
        forgot += view.start > before.start
        before = view
    assert shared
    assert forgot


def test_views_between_pushes_of_many_keys_change_nothing() -> None:
    """Keys in columns: a view brings their records up to date, and leaves the rest for later."""
    names, random = ["a", "b", "c"], np.random.default_rng(5)
    rows = [(names * 80, random.gamma(2, 3, 240)) for _ in range(6)]
    rows[3:5] = [(names, random.gamma(2, 3, 3)) for _ in range(2)]
    pipeline = tg.keyed(tg.adaptive(epsilon=1, bound=40, horizon=300), keys=names)
    looked, alone = pipeline.start(tg.seeded(3)), pipeline.start(tg.seeded(3))
    for keys, values in rows:
        one, other = looked.push(keys, values), alone.push(keys, values)
        assert one.values.tobytes() == other.values.tobytes()
        view = looked.view()
        found = [answers(view.record(name)) for name in names]
    assert found == [answers(alone.record(name)) for name in names]
