"""State is explicit: a plain mapping, saved and restored whole, in one encoding everywhere."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.laws.catalogue import answers, bits, inputs, length, pipelines, smoothers, stream
from tidegate.durable.journal import (
    encoded_journal_entry,
    journal_entries,
    merged_journal_entries,
    published_from_journal,
)
from tidegate.estimate.mixture.cap_steps import CapSteps
from tidegate.perturb import AdaptiveTrees
from tidegate.perturb.forest_perturber import ForestRun
from tidegate.record.segments.segment_codec_and_joining import (
    restored_segment,
    segment_array_as_text,
    segment_array_from_text,
    segment_state,
)
from tidegate.run.non_negative import NonNegativeRemainder
from tidegate.run.snapshot import plain_record_snapshot, record_of_snapshot
from tidegate.run.stream_of_one_phase import PhaseStream

# One of each kind: leaves of one and of several values, gaps, chosen layouts, a followed forest.
KINDS = (
    "perturb.Hierarchy(skipped=0)",
    "estimate.Median()",
    "reselect,blocking",
    "reselect,adaptive,blocking",
    "estimate.Mixture()+perturb.Flat(block=5)",
)


def released(name: str, count: int | None = None) -> tg.Release:
    pipeline = pipelines()[name]
    release = pipeline.start(tg.seeded(4))
    release.push(stream(count or length(pipeline)))
    return release


def streams(release: tg.Release) -> PhaseStream:
    run = release._run
    assert run is not None
    return run.stream


def leaves(state: Any) -> Iterator[Any]:
    if isinstance(state, Mapping):
        for name, value in state.items():
            assert isinstance(name, str)
            yield from leaves(value)
    elif isinstance(state, list | tuple):
        for value in state:
            yield from leaves(value)
    else:
        yield state


@pytest.mark.parametrize("name", KINDS)
def test_state_is_plain_and_belongs_to_nobody(name: str) -> None:
    """Numbers, text, bytes and arrays; what happens later does not change a state taken before."""
    release = released(name)
    state = streams(release).state()
    for leaf in leaves(state):
        assert leaf is None or isinstance(leaf, int | float | str | bytes | np.ndarray)
    before = [bits(leaf) for leaf in leaves(state) if isinstance(leaf, np.ndarray)]
    release.push(stream(90, seed=2))
    assert [bits(leaf) for leaf in leaves(state) if isinstance(leaf, np.ndarray)] == before


@pytest.mark.parametrize("name", KINDS)
def test_the_order_of_a_state_does_not_matter(name: str) -> None:
    release = released(name)
    run = release._run
    assert run is not None
    state = run.state(brief=False)

    def reversed_(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: reversed_(value[key]) for key in reversed(value)}
        return [reversed_(item) for item in value] if isinstance(value, list) else value

    again = type(run)(run._keys, state=reversed_(state))
    values = np.minimum(stream(70, seed=3), 12)
    outs = []
    for phases in (run, again):
        out = np.zeros(values.size)
        phases.push(values, out)
        outs.append(bits(out))
    assert outs[0] == outs[1]


@pytest.mark.parametrize("name", KINDS)
def test_a_record_is_the_same_in_every_encoding(name: str) -> None:
    """Snapshots, stored records and metadata: the same numbers, the same answers."""
    pipeline = pipelines()[name]
    record = released(name, 130).record
    expected = answers(record)
    plain = json.loads(json.dumps(plain_record_snapshot(record)))
    assert answers(record_of_snapshot(pipeline, plain, record.guarantee)) == expected
    for segment in record.segments:
        state = segment_state(segment)
        again = segment_state(restored_segment(pipeline.method, state))
        assert list(again) == list(state)
        assert all(np.array_equal(again[field], state[field]) for field in state)
        text = segment_array_from_text(segment_array_as_text(state))
        assert all(bits(text[field]) == bits(state[field]) for field in ("sums",) if field in state)


@pytest.mark.parametrize(
    "damage",
    [
        {"closed": 3},
        {"first": 1},
        {"end": 7},
        {"blocks": np.empty(0, dtype=np.int64)},
        {"blocks": np.array([0, 64, 99, 15])},
        {"blocks": np.array([0, 64, -1, 15])},
        {"blocks": np.array([0, 64, 0, 0])},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["estimate.Median()", "perturb.AdaptiveTrees(horizon=700)"])
def test_a_record_whose_parts_do_not_fit_is_refused(name: str, damage: dict[str, Any]) -> None:
    segment = released(name, 100).record.segments[0]
    state = segment_state(segment)
    restored_segment(segment.method, state)
    if name == "estimate.Median()" and np.array_equal(damage.get("blocks", ()), [0, 64, 0, 0]):
        return  # it has no models: this is no damage
    with pytest.raises((ValueError, KeyError, IndexError)):
        restored_segment(segment.method, {**state, **damage})


@pytest.mark.parametrize("name", [*KINDS, "perturb.AdaptiveTrees(horizon=700)"])
def test_a_journal_of_small_rows_publishes_the_same_again(name: str) -> None:
    """Rows that complete no cell, some, or many; each as it is written and read."""
    pipeline = pipelines()[name]
    release = pipeline.start(tg.seeded(4))
    release.journal_entries()
    values, bodies, outs, at = inputs(pipeline), [], [], 0
    head = bytes(32)
    for size in itertools.cycle((1, 7, 2, 0, 31, 3)):
        outs.append(release.push(values[at : at + size]))
        for piece in merged_journal_entries(release.journal_entries()):
            body, head = encoded_journal_entry(piece, head, bytes(32))
            bodies.append(body)
        at += size
        if at >= values.size:
            break
    again = [
        rows.values
        for rows in published_from_journal(pipeline, journal_entries(bodies), release.phases)
    ]
    assert bits(np.concatenate(again)) == bits(np.concatenate(outs))


def test_named_state_is_plain_attributes() -> None:
    """No setter that works only after another one."""
    made = [stage.predictor(threshold=9, block=6, blocks=7) for stage in smoothers().values()]
    for one in (*map(type, made), ForestRun, CapSteps, NonNegativeRemainder):
        assert not [name for name in one.STATE if isinstance(vars(one).get(name), property)]


def test_resuming_starts_each_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No stream is built to be thrown away, and no block is begun that was begun before."""
    snapshot = released("adaptive").snapshot()
    started: list[Any] = []
    begun: list[int] = []
    start, begin = AdaptiveTrees.start, PhaseStream._begin_block
    monkeypatch.setattr(
        AdaptiveTrees, "start", lambda *given: started.append(given[-1]) or start(*given)
    )
    monkeypatch.setattr(PhaseStream, "_begin_block", lambda one: begun.append(1) or begin(one))
    pipelines()["adaptive"].resume(snapshot)
    assert [type(state) for state in started] == [dict]
    assert begun == []
