"""The journal gives back, bit for bit, what was published, and shows every change to it."""

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate as tg
from tests.depth import examples, in_turn
from tidegate.durable import DurableRelease, StateError
from tidegate.record import record_from_journal
from tidegate.record.record_from_journal import JournalRecorder


def _again(share, blocking):
    """Adaptive, with a threshold that is chosen again."""
    plain = tg.adaptive(epsilon=1, bound=100, resolution=1, holdout=20, horizon=150)
    again = tg.threshold.ScaleFree(epsilon=share, bound=100, holdout=30)
    return replace(plain, reselect=tg.Reselection(threshold=again, every=70, blocking=blocking))


PIPELINES = {
    "block 1": tg.tops(epsilon=1, bound=100, resolution=1,
        holdout=20, horizon=256, fanout=4, skipped=0),
    "block 16": tg.tops(epsilon=1, bound=100, resolution=1,
        holdout=20, horizon=256, fanout=4, skipped=2),
    "non-negative": tg.tops(
        epsilon=0.1, bound=100, holdout=20, horizon=256, fanout=4, skipped=1, non_negative=True
    ),
    "shared": tg.tops(
        epsilon=1, bound=100, resolution=1, holdout=20, horizon=256, fanout=4, skipped=1,
        rethreshold_every=70, rethreshold_share="0.3",
    ),
    "blocked": tg.tops(
        epsilon=1, bound=100, resolution=1,
        holdout=20, horizon=256, fanout=4, skipped=1, non_negative=True,
        rethreshold_every=60, estimator=tg.estimate.Mean(),
    ),
    "always blocked": tg.tops(
        epsilon=1, bound=100, resolution=1,
        holdout=20, horizon=256, fanout=4, skipped=1, rethreshold_every=20
    ),
    "no hold-out": tg.Pipeline(
        threshold=tg.threshold.Fixed(50), perturber=tg.perturb.Hierarchy(epsilon=1, horizon=64)
    ),
    "adaptive": tg.adaptive(epsilon=1, bound=100, resolution=1, holdout=20, horizon=150),
    "adaptive, non-negative": tg.adaptive(
        epsilon="1/10", bound=100, holdout=20, horizon=64, non_negative=True, resolution="1/10"
    ),
    "adaptive, refined": tg.adaptive(
        epsilon=8, bound=100, horizon=90, non_negative=True, resolution="1/10"
    ),
    "adaptive, refined, lower": tg.adaptive(
        epsilon=8, bound=100, horizon=90, lower=-60, resolution="1/10"
    ),
    "blocked, lower": tg.tops(
        epsilon=1, bound=100, resolution=1, lower=-60,
        holdout=20, horizon=256, fanout=4, skipped=1, rethreshold_every=60,
    ),
    "adaptive, shared": _again(share="1/4", blocking=False),
    "adaptive, blocked": _again(share=1, blocking=True),
}  # fmt: skip


@pytest.mark.parametrize("name", in_turn(PIPELINES, 1))
@settings(max_examples=examples(8))
@given(
    cuts=st.lists(st.tuples(st.integers(0, 400), st.booleans()), max_size=8).map(sorted),
    from_where=st.integers(0, 380),
)
def test_a_replay_is_what_was_published(tmp_path_factory, name, cuts, from_where):
    folder = tmp_path_factory.mktemp("journal")
    values = np.random.default_rng(5).integers(-30, 100, 400)
    published, start, run = [], 0, DurableRelease.open(folder, PIPELINES[name])
    for end, reopened in [*cuts, (400, False)]:
        published.append(run.push(values[start:end])[1])
        start = end
        if reopened:
            run.close()
            run = DurableRelease.open(folder, PIPELINES[name])
    wanted = np.concatenate(published)
    pieces = list(run.replay(from_where))
    run.close()
    assert pieces == [] or pieces[0][0] == from_where
    replayed = np.concatenate([np.empty(0), *(values for _, values in pieces)])
    assert replayed.tobytes() == wanted[from_where:].tobytes()
    positions = [first for first, _ in pieces]
    assert all(
        first + values.size == after
        for (first, values), after in zip(pieces, positions[1:], strict=False)
    )


COLUMNS = ("estimate", "noise_error", "prediction_error", "low", "high")


@pytest.mark.parametrize("name", in_turn(PIPELINES, 0))
def test_the_record_of_the_journal_is_that_of_the_release(tmp_path, name):
    """After restarts the running release has forgotten its past; the journal has not."""
    values = np.random.default_rng(6).integers(0, 100, 400)
    whole = DurableRelease.open(tmp_path / "whole", PIPELINES[name])
    whole.close()
    shutil.copytree(tmp_path / "whole", tmp_path / "parts")
    start = 0
    for end in (5, 20, 21, 60, 133, 134, 134, 250, 400):
        with DurableRelease.open(tmp_path / "parts", PIPELINES[name]) as run:
            run.push(values[start:end])
            assert (run.record is None) == (run.position == 0 or run.warming > 0)
        start = end
    ends = np.sort(np.random.default_rng(7).integers(0, 381, size=(2, 60)), axis=0)
    with (
        DurableRelease.open(tmp_path / "whole", PIPELINES[name]) as one,
        DurableRelease.open(tmp_path / "parts", PIPELINES[name]) as two,
    ):
        one.push(values)
        expected = one._release.queries(*ends)
        for record in (one.record, two.record):
            found = record.queries(*ends)
            for column in COLUMNS:
                np.testing.assert_array_equal(getattr(found, column), getattr(expected, column))
        assert one.facts() == two.facts() | {"phases": one.facts()["phases"]}


@pytest.fixture
def folder(tmp_path):
    with DurableRelease.open(tmp_path / "state", PIPELINES["block 16"]) as run:
        for start in range(0, 200, 40):
            run.push(np.arange(start, start + 40.0) % 100)
    return tmp_path / "state"


def refused(folder):
    """Whatever is changed, nothing of the journal is given before it is refused."""
    with (
        DurableRelease.open(folder, PIPELINES["block 16"]) as run,
        pytest.raises(StateError, match=r"journal|damaged|tampered"),
    ):
        next(run.replay())


def bodies(folder):
    with closing(sqlite3.connect(folder / "state.sqlite")) as database:
        return database.execute("SELECT number, body FROM journal ORDER BY number").fetchall()


def write(folder, statement, *values):
    with closing(sqlite3.connect(folder / "state.sqlite", isolation_level=None)) as database:
        database.execute(statement, values)


def test_every_flipped_byte_of_a_row_is_refused(folder):
    number, body = bodies(folder)[2]
    with DurableRelease.open(folder, PIPELINES["block 16"]) as run:
        for index in range(len(body)):
            changed = bytearray(body)
            changed[index] ^= 0x41
            run._store.database.execute(
                "UPDATE journal SET body = ? WHERE number = ?", (bytes(changed), number)
            )
            with pytest.raises(StateError, match="journal"):
                run.replay()  # before anything of it is given


def test_dropped_rows_are_refused(folder):
    for number, body in bodies(folder):
        write(folder, "DELETE FROM journal WHERE number = ?", number)
        refused(folder)
        write(folder, "INSERT INTO journal VALUES (?, ?)", number, body)
    with DurableRelease.open(folder, PIPELINES["block 16"]) as run:
        assert sum(values.size for _, values in run.replay()) == 180


def test_swapped_and_doubled_rows_are_refused(folder):
    rows = bodies(folder)
    (first, one), (second, two) = rows[1], rows[2]
    write(folder, "UPDATE journal SET body = ? WHERE number = ?", two, first)
    write(folder, "UPDATE journal SET body = ? WHERE number = ?", one, second)
    refused(folder)
    write(folder, "UPDATE journal SET body = ? WHERE number = ?", one, first)
    refused(folder)  # now the first is there twice
    write(folder, "UPDATE journal SET body = ? WHERE number = ?", two, second)
    write(folder, "INSERT INTO journal (body) VALUES (?)", rows[-1][1])
    refused(folder)


def test_a_journal_of_another_release_is_refused(folder, tmp_path):
    with DurableRelease.open(tmp_path / "other", PIPELINES["block 16"]) as run:
        for start in range(0, 200, 40):
            run.push(np.arange(start, start + 40.0) % 100)
    for (number, _), (_, body) in zip(bodies(folder), bodies(tmp_path / "other"), strict=True):
        write(folder, "UPDATE journal SET body = ? WHERE number = ?", body, number)
    refused(folder)


def test_the_journal_holds_no_raw_value(tmp_path):
    """Everything in it was published, or follows from that: raw values do not."""
    pipeline = tg.Pipeline(
        threshold=tg.threshold.Fixed(1 << 40),
        perturber=tg.perturb.Hierarchy(epsilon=1, horizon=64, fanout=4, skipped=0),
    )
    planted = 0x5EC12E7
    with DurableRelease.open(tmp_path / "s", pipeline) as run:
        run.push(np.full(64, planted))
    rows = b"".join(body for _, body in bodies(tmp_path / "s"))
    assert planted.to_bytes(8, "little") not in rows


def test_the_record_of_an_endless_guided_release_is_bounded(monkeypatch):
    """The oldest blocks go first, and what is left answers as before."""
    monkeypatch.setattr(record_from_journal, "_MOST_CELLS", 200)
    pipeline = PIPELINES["adaptive, shared"]
    release = pipeline.start(tg.seeded(3))
    release.journal_entries()
    recorder, starts = JournalRecorder(pipeline), []
    for part in np.array_split(np.random.default_rng(1).integers(0, 100, 3000), 70):
        release.push(part)
        phases = {phase.start: phase for phase in release.phases}
        for piece in release.journal_entries():
            recorder.push(piece, phases)
        record = recorder.record("")
        if record is not None:
            assert record.end == release.position
            starts.append(record.start)
    assert starts == sorted(starts)
    assert 2500 < starts[-1] < 2980
    assert sum(segment.cells for segment in record.segments) <= 200
    ends = np.array([starts[-1], 2970, 2980])
    assert np.isfinite(record.queries(np.full(3, starts[-1]), ends).high).all()
