"""`durable.transfer`: what the command line promises, for a program that uses the library."""

import shutil
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import tidegate as tg
from tidegate.durable import DurableRelease, StateError, transfer
from tidegate.durable.input_digests import SPAN
from tidegate.errors import InputError, SettingError
from tidegate.guarantee import Guarantee
from tidegate.io import Batch, FunctionSink, read_metadata, read_released
from tidegate.ledger import CapExceeded, Ledger
from tidegate.units import UserHorizon

PIPELINE = tg.tops(epsilon=1, bound=100, holdout=100, horizon=4096, fanout=4, skipped=1)
VALUES = np.random.default_rng(3).integers(0, 60, 2 * SPAN + 600)


class Rows(dict):
    """A receiver: rows by position."""

    def __call__(self, first, values):
        for position, value in enumerate(values.tolist(), first):
            assert self.setdefault(position, value) == value  # sent again: the same row
        self.calls = getattr(self, "calls", 0) + 1

    def array(self):
        assert sorted(self) == list(range(len(self)))
        return np.array([self[position] for position in range(len(self))])


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A state whose noise key is drawn: copies of it release the same stream."""
    folder = tmp_path_factory.mktemp("begun") / "state"
    DurableRelease.open(folder, PIPELINE, source="meters").close()
    return folder


@pytest.fixture
def state(begun, tmp_path):
    shutil.copytree(begun, tmp_path / "state")
    return tmp_path / "state"


@pytest.fixture(scope="module")
def expected(begun, tmp_path_factory):
    """What one undisturbed transfer releases."""
    shutil.copytree(begun, folder := tmp_path_factory.mktemp("expected") / "state")
    rows = Rows()
    with DurableRelease.open(folder, PIPELINE) as release:
        done = transfer(VALUES, release, rows)
    assert (done.read, done.released, done.held) == (VALUES.size, VALUES.size - 100, 0)
    assert done.threshold == release.threshold
    return rows.array()


def go(state, source, sink, **more):
    with DurableRelease.open(state, PIPELINE) as release:
        return transfer(source, release, sink, **more)


class BrokenError(Exception):
    pass


def breaking(blocks, after):
    yield from blocks[:after]
    raise BrokenError


@pytest.mark.parametrize("kind", ["csv", "jsonl.gz"])
def test_the_same_call_completes_a_file(state, tmp_path, expected, kind):
    path, blocks = tmp_path / f"out.{kind}", np.array_split(VALUES, 9)
    with pytest.raises(BrokenError):
        go(state, breaking(blocks, 4), path)
    assert read_metadata(path)["complete"] is False
    path.write_bytes(path.read_bytes()[:-9]) if kind == "csv" else path.unlink()
    go(state, blocks, path)
    found = list(read_released(path))
    assert found[0][0] == 0
    np.testing.assert_array_equal(np.concatenate([values for _, values in found]), expected)
    assert read_metadata(path)["released"] == expected.size
    assert read_metadata(path)["complete"] is True


def test_a_function_gets_every_row_once(state, expected):
    """It says how many rows it has; what was committed and not delivered comes from the journal."""
    rows, blocks = Rows(), np.array_split(VALUES, 9)

    def failing(first, values):
        if len(rows) > 3000:
            raise BrokenError
        rows(first, values)

    with pytest.raises(BrokenError):
        go(state, blocks, failing)
    had, before = len(rows), rows.calls
    go(state, blocks, rows, written=had)
    assert rows.calls > before
    np.testing.assert_array_equal(rows.array(), expected)
    again = Rows()
    go(state, VALUES, again)  # by default everything is delivered again, from the journal
    np.testing.assert_array_equal(again.array(), expected)


def test_a_receiver_that_has_more_than_the_state_knows_shows_a_rollback(state, tmp_path):
    rows = Rows()
    go(state, VALUES[:900], rows)
    shutil.copytree(state, tmp_path / "backup")
    go(state, VALUES, rows, written=len(rows))
    with pytest.raises(StateError, match="older than its output"):
        go(tmp_path / "backup", VALUES, rows, written=len(rows))


def test_blocks_by_their_places(state, expected):
    """As a broker delivers them: again, overlapping, never with a gap."""
    rows, cuts = Rows(), [0, 50, 700, SPAN + 9, SPAN + 10, 2 * SPAN + 30, VALUES.size]
    for start, end in pairwise(cuts):
        for again in (0, 40, SPAN):
            first = max(0, start - again)
            go(state, VALUES[first:end], rows, start=first, written=len(rows))
    go(state, VALUES[5:20], rows, start=5, written=len(rows))  # long past: nothing to do
    np.testing.assert_array_equal(rows.array(), expected)
    with pytest.raises(StateError, match=f"only {VALUES.size} values were read"):
        go(state, VALUES, rows, start=VALUES.size + 1)


def test_batches_that_know_their_places(state, expected):
    """One source, as a broker delivers: some blocks twice, some overlapping, one changed."""
    cuts = [0, 50, 700, SPAN + 9, SPAN + 10, 2 * SPAN + 30, VALUES.size]
    places = [place for pair in pairwise(cuts) for place in (pair, pair, (pair[0] // 2, pair[1]))]
    for release in (DurableRelease.open(state, PIPELINE), PIPELINE.start()):
        rows = Rows()
        transfer([Batch(VALUES[a:b], start=a) for a, b in places], release, rows)
        assert len(rows) == expected.size
        if isinstance(release, DurableRelease):
            np.testing.assert_array_equal(rows.array(), expected)
            changed = Batch(VALUES[SPAN : 3 * SPAN] ^ 1, start=SPAN)
            with pytest.raises(StateError, match="differs"):
                transfer([changed], release, rows)
            gap = [Batch(VALUES[:60], start=VALUES.size + 5)]
            with pytest.raises(StateError, match=f"only {VALUES.size} values were read"):
                transfer(gap, release, rows, written=len(rows))
            release.close()


def test_a_block_that_follows_reads_nothing_of_the_past(state, monkeypatch):
    """A service transfers block by block: the cost of one must not grow with what came before."""
    rows = Rows()
    with DurableRelease.open(state, PIPELINE) as release:
        transfer(VALUES[:5000], release, rows)
        for name in ("journal_rows", "inputs"):
            monkeypatch.setattr(release._store, name, None)
        transfer(VALUES[5000:5100], release, rows, start=5000, written=len(rows))
    assert len(rows) == 5000


@pytest.mark.parametrize("start", [0, 100, SPAN + 1, 2 * SPAN + 7])
def test_a_block_that_is_delivered_again_with_other_values_is_refused(state, start):
    go(state, VALUES, Rows())
    changed = VALUES.copy()
    changed[2 * SPAN + 500] ^= 1
    with pytest.raises(StateError, match="differs from what was read before"):
        go(state, changed[start:], Rows(), start=start)


def test_a_whole_input_that_became_shorter_is_refused(state):
    go(state, VALUES[:500], Rows())
    with pytest.raises(StateError, match="ends 100 values before"):
        go(state, VALUES[:400], Rows())


def test_held_out_values_are_committed_when_it_returns(state):
    """A caller may acknowledge them: a crash must not lose them."""
    release = DurableRelease.open(state, PIPELINE)
    transfer(VALUES[:7], release, Rows())
    release._store.close()  # as a kill leaves it: nothing is saved on the way out
    release._ledger.close()
    with DurableRelease.open(state, PIPELINE) as after:
        assert after.seen == 7


def test_what_the_cap_pays_for_is_delivered(tmp_path):
    rows = Rows()
    pipeline = tg.tops(
        epsilon=1, bound=100, holdout=100, horizon=4096, fanout=4, skipped=1,
        rethreshold_every=400, rethreshold_share="1/2",
    )  # fmt: skip
    DurableRelease.open(tmp_path / "s", pipeline, cap=1, source="meters").close()
    with Ledger.open(tmp_path / "s" / "ledger.jsonl") as ledger:  # somebody else used these values
        guarantee = Guarantee(epsilon=Fraction(1, 2))
        ledger.charge(source="meters", epoch="x", stage="other", start=800, guarantee=guarantee)
    with DurableRelease.open(tmp_path / "s", pipeline) as release:
        with pytest.raises(CapExceeded):
            transfer(np.array_split(VALUES, 9), release, rows)
        assert len(rows) == release.position == 800 - 100


def test_users_travel_in_batches(tmp_path):
    pipeline = tg.tops(
        epsilon=1, bound=100, holdout=100, horizon=1024, fanout=4, skipped=1,
        unit=UserHorizon(most=2),
    )  # fmt: skip
    users = np.array([f"user {number % 50}" for number in range(600)], dtype=object)
    batches = [Batch(VALUES[at : at + 200], users[at : at + 200]) for at in range(0, 600, 200)]
    rows = Rows()
    for _ in range(2):
        with DurableRelease.open(tmp_path / "s", pipeline) as release:
            transfer(batches, release, rows)
    assert len(rows) == 500
    batches[0].users[3] = "user 4"
    with (
        DurableRelease.open(tmp_path / "s", pipeline) as release,
        pytest.raises(StateError, match="differs"),
    ):
        transfer(batches, release, rows)


def test_a_release_in_memory_is_transferred_once(tmp_path):
    """The same loop without durable state, one value at a time too."""
    release, sink = PIPELINE.start(), FunctionSink(rows := Rows())
    done = transfer((value for value in VALUES[:300].tolist()), release, sink)
    assert (done.read, done.released) == (300, 200)
    assert sink.metadata["released"] == 200
    assert sink.metadata["complete"] is True
    assert len(rows) == 200
    with pytest.raises(SettingError, match="new release"):
        transfer(VALUES, release, rows)


@pytest.mark.parametrize(
    ("source", "sink", "more", "error"),
    [
        ("meters.csv", Rows(), {}, "open_source"),
        (VALUES, 7, {}, "path, a sink or a function"),
        (VALUES, "out.csv", {"written": 3}, "its rows are counted"),
    ],
)
def test_what_cannot_be_transferred_is_said(tmp_path, monkeypatch, source, sink, more, error):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingError, match=error):
        transfer(source, PIPELINE.start(), sink, **more)
    assert list(tmp_path.iterdir()) == []


def test_a_value_that_is_no_number_is_named_by_its_place(state):
    with pytest.raises(InputError, match="position 402") as caught:
        go(state, [VALUES[:400], [1, 2, "secret"]], Rows())
    assert "secret" not in str(caught.value)
