"""A view of a record stays as it was, whatever is released afterwards."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tidegate as tg
from tests.laws.catalogue import answers, inputs, names_of_law, pipelines, stream
from tidegate.record.record_view import RecordView
from tidegate.run.snapshot import stored_record


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
        assert stored_record(pipeline, release.epoch, position, view) == before


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
