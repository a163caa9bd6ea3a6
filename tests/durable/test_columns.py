"""Several columns in one run: one budget, one ledger entry, each row of each column once."""

import errno
import shutil
import threading
from contextlib import suppress
from fractions import Fraction
from itertools import count

import numpy as np
import pytest

import tidegate as tg
from tests.depth import THOROUGH, depth
from tests.durable.moments import scratch, traced
from tests.faults import Disk, failing_disk
from tests.laws.catalogue import bits
from tidegate.durable import DurableRelease, StateError
from tidegate.durable.durable_columns import DurableColumns, transfer_columns
from tidegate.errors import QueryError, SettingError, TidegateError
from tidegate.io import Batch, read_metadata, read_released
from tidegate.ledger import CapExceeded, Ledger
from tidegate.record.answer import Answer
from tidegate.record.mean_and_ratio import ratio
from tidegate.released.released_columns import column_file, open_columns

COUNT = 60
PIPELINES = {
    "fare": tg.adaptive(epsilon="7/10", bound=100, resolution=1, horizon=64),
    "tip": tg.adaptive(epsilon="3/10", bound=30, resolution=1, horizon=64),
}
FARES, TIPS = np.random.default_rng(1).integers(0, 30, (2, COUNT)).astype(float)


class Trips:
    """A source of two columns, in batches."""

    def __init__(self, end=COUNT, size=25):
        self._end, self._size = end, size

    def batches(self):
        for at in range(0, self._end, self._size):
            where = slice(at, min(at + self._size, self._end))
            yield Batch(FARES[where], others=(TIPS[where],))


def sinks(folder):
    return {name: column_file(folder / "out.csv", name) for name in PIPELINES}


def run(folder, source=None, **options):
    with DurableColumns.open(folder / "state", PIPELINES, source="trips", **options) as columns:
        transfer_columns(source or Trips(), columns, sinks(folder), warn=pytest.fail)
        return columns.guarantee


def rows(folder):
    return {
        name: np.concatenate([values for _, values in read_released(sink)])
        for name, sink in sinks(folder).items()
    }


def charges(folder):
    with Ledger.open(folder / "state" / "ledger.jsonl", read_only=True) as ledger:
        return [(one.start, one.end, one.epsilon) for one in ledger.charges("trips")]


def test_the_ledger_is_charged_once_with_the_sum(tmp_path):
    promise = run(tmp_path, Trips(30))
    assert promise.epsilon == 1
    assert charges(tmp_path) == [(0, None, 1)]
    before = rows(tmp_path)
    run(tmp_path)  # more rows: continued, not charged again
    assert charges(tmp_path) == [(0, None, 1)]
    after = rows(tmp_path)
    for name, sink in sinks(tmp_path).items():
        assert after[name].size == COUNT
        assert bits(after[name][:30]) == bits(before[name])
        facts = read_metadata(sink)
        assert facts["column"] == name
        assert facts["together"]["guarantee"] == str(promise)
        assert facts["together"]["columns"] == {"fare": "7/10", "tip": "3/10"}
        assert facts["epsilon"] == str(PIPELINES[name].guarantee.epsilon)
    both = open_columns(tmp_path / "out.csv", ["fare", "tip"])
    assert both.guarantee == str(promise)
    with pytest.raises(QueryError, match="no column 'toll'"):
        both["toll"]


def test_a_cap_refuses_all_columns_before_anything_is_read(tmp_path):
    with pytest.raises(CapExceeded):
        run(tmp_path, cap="0.9")  # enough for each of them, not for both
    assert charges(tmp_path) == []
    assert not list(tmp_path.glob("out*"))
    with pytest.raises(StateError, match="other columns"):
        DurableColumns.open(tmp_path / "state", {"fare": PIPELINES["fare"]}).close()
    held = {**PIPELINES, "tip": tg.tops(epsilon=1, bound=30, holdout=9, horizon=64)}
    with pytest.raises(SettingError, match="same hold-out"):
        DurableColumns.open(tmp_path / "other", held)


def test_a_column_by_itself_is_charged_with_all(tmp_path):
    """Whoever pushes to the run of one column; before, the ledger of all knew nothing of it."""
    total = sum(pipeline.guarantee.epsilon for pipeline in PIPELINES.values())
    with DurableColumns.open(tmp_path / "low", PIPELINES, cap=total * Fraction(9, 10)) as columns:
        for run in columns.runs.values():
            with pytest.raises(CapExceeded):
                run.push(np.ones(10))
            assert run.seen == 0
    with DurableColumns.open(tmp_path / "enough", PIPELINES, source="trips", cap=total) as columns:
        for _ in range(2):
            for run in columns.runs.values():
                run.push(np.ones(50))
    with Ledger.open(tmp_path / "enough" / "ledger.jsonl", read_only=True) as ledger:
        assert [charge.guarantee.epsilon for charge in ledger.charges("trips")] == [total]


def test_the_folder_of_one_column_takes_nothing(tmp_path):
    """Its cost would be in its own ledger, and not in that of all columns."""
    with DurableColumns.open(tmp_path, PIPELINES, source="trips") as columns:
        for run in columns.runs.values():
            run.push(np.ones(50))
    for folder in (path for path in tmp_path.iterdir() if path.is_dir()):
        with DurableRelease.existing(folder) as alone:
            assert alone.seen == 50
            with pytest.raises(StateError, match="one column of the state"):
                alone.push(np.ones(10))
            assert alone.seen == 50


def test_a_new_epoch_is_charged_on_top(tmp_path):
    run(tmp_path)
    for sink in tmp_path.glob("out*"):
        sink.unlink()
    run(tmp_path, new_epoch=True)
    assert charges(tmp_path) == [(0, None, 1), (0, None, 1)]
    shutil.rmtree(tmp_path / "state" / "1-tip")  # the state of one column is lost
    with pytest.raises(StateError, match="lost"):
        run(tmp_path)
    assert len(charges(tmp_path)) == 2


def test_a_new_epoch_that_the_cap_refuses_gives_up_nothing(tmp_path):
    # Caught: every column had begun anew when the cap was looked at, and none could go on.
    run(tmp_path, Trips(40), cap=1)
    before = rows(tmp_path)
    with pytest.raises(CapExceeded):
        run(tmp_path, Trips(40), new_epoch=True, cap=1)
    run(tmp_path)
    assert all(np.array_equal(rows(tmp_path)[name][:40], before[name]) for name in before)
    assert charges(tmp_path) == [(0, None, 1)]


@pytest.mark.parametrize("lost", ["all of it", "what came last"])
@pytest.mark.parametrize("anew", [False, True])
def test_a_ledger_that_shows_less_than_the_columns_is_noticed_without_its_lock_file(
    tmp_path, lost, anew
):
    # Caught: the lock file alone knew of it, so without both a cap began again from 0.
    state = tmp_path / "state"
    run(tmp_path, cap=3)
    early = (state / "ledger.jsonl").read_bytes()
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    DurableColumns.open(state, PIPELINES, source="trips", new_epoch=True).close()
    with DurableColumns.open(state, PIPELINES, new_epoch=True) as columns:
        columns.charge(2)
        for column in columns.runs.values():
            column.push([1.0, 2.0])
    assert len(charges(tmp_path)) == 2
    (state / "lock").unlink()  # as whoever takes it for a stale one does
    DurableColumns.open(state, PIPELINES).close()
    (state / "lock").unlink()
    (state / "ledger.jsonl").unlink()
    if lost == "what came last":
        (state / "ledger.jsonl").write_bytes(early)
    with pytest.raises(StateError, match=r"put it back|newest one in place"):
        DurableColumns.open(state, PIPELINES, new_epoch=anew)


def test_columns_of_events_are_charged_before_there_is_an_event(tmp_path):
    # Caught: the ledger, whose lines have times, was charged with the first event.
    clock = {"every": "1h", "start": "2024-01-01T00:00Z"}
    pipeline = tg.events(epsilon=1, bound=10, horizon=64, **clock)
    for _ in range(2):
        both = {"a": pipeline, "b": pipeline}
        with DurableColumns.open(tmp_path / "state", both, source="trips"):
            assert charges(tmp_path) == [(0, None, 2)]


@pytest.mark.parametrize("how", [errno.ENOSPC, "after", "torn"])
def test_every_call_of_the_first_opening_fails(tmp_path, how):
    # Caught: a traceback where `columns.json` could not be written.
    for number in count(0, 1 if THOROUGH else 3):
        state = tmp_path / f"{number}" / "state"
        with failing_disk(Disk(None, number, how)) as disk, suppress(TidegateError):
            DurableColumns.open(state, PIPELINES, source="trips").close()
        run(state.parent)
        assert charges(state.parent) == [(0, None, 1)]
        if not disk.met:
            break


def test_charging_waits_for_a_column_that_is_being_charged(tmp_path):
    # Caught: two threads that charge at once write one charge twice, and after a restart the next
    # one counts as charged.
    with DurableColumns.open(tmp_path / "state", PIPELINES, source="trips") as columns:
        thread = threading.Thread(target=columns.charge, args=(5,))
        with columns._turn:  # as a push to one column holds it
            thread.start()
            thread.join(0.1)
            assert thread.is_alive()
        thread.join()
    assert charges(tmp_path) == [(0, None, 1)]


def test_killed_at_any_moment_every_row_is_released_once():
    """As a kill at each line leaves the folder: the same command gives the same files."""
    with scratch() as folder:
        base, work, copies = folder / "base", folder / "work", folder / "copies"
        DurableColumns.open(base / "state", PIPELINES, source="trips").close()  # draws the noise
        shutil.copytree(base, work)
        run(work)
        expected = rows(work)
        shutil.rmtree(work)
        shutil.copytree(base, work)
        known, found = None, 0

        def reached():
            nonlocal known, found
            files = [path for path in sorted(work.rglob("*")) if path.is_file()]
            now = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
            if now != known:
                known, found = now, found + 1
                skip = shutil.ignore_patterns("*-shm")
                shutil.copytree(work, copies / str(found), ignore=skip)

        places = (
            "durable/transfer",
            "durable/durable_columns",
            "durable/columns_on_disk",
            "durable/commit",
            "durable/output_writer",
        )
        traced((*places, "io/text_sink", "_atomic_files"), reached, lambda: run(work))
        assert found > 30
        for number in range(1, found + 1, depth(8, 3)):
            killed = copies / str(number)
            run(killed)
            again = rows(killed)
            assert all(bits(again[name]) == bits(expected[name]) for name in PIPELINES)
            assert charges(killed) == [(0, None, 1)]


def test_shares_are_exact_and_the_noise_is_that_of_the_share():
    table = {"a": [0] * 20_000, "b": [0] * 20_000, "c": [0] * 20_000}
    settings = {"epsilon": 1, "bound": 10, "method": "flat", "holdout": 0, "resolution": 1}
    released = tg.release(
        table, ["a", "b", "c"], share={"a": "0.6"}, randomness=tg.seeded(1), **settings
    )
    for name, share in (("a", Fraction(3, 5)), ("b", Fraction(1, 5)), ("c", Fraction(1, 5))):
        assert released[name].pipeline.guarantee.epsilon == share
        spread = np.abs(released[name].rows().values).mean() / (10 / float(share))
        assert 0.97 < spread < 1.03  # and not 0.7 or 1.3
    b, c = (released[name].rows().values for name in "bc")
    assert abs(np.corrcoef(b, c)[0, 1]) < 0.03  # noise of its own, also where settings are alike
    assert list(released.columns()) == [
        "position",
        *(f"{v}_{n}" for n in "abc" for v in ("value", "level")),
    ]
    for wrong in ({"a": 1}, {"a": "0.5", "b": "0.6"}, {"d": "0.5"}):
        with pytest.raises(SettingError, match="share"):
            tg.release(table, ["a", "b", "c"], share=wrong, **settings)
    secret = tg.release(table, ["a", "b"], **settings)
    assert secret.guarantee.startswith("ε = 1 per event")


def answer(estimate, half, confidence=0.95):
    low, high = estimate - half, estimate + half
    return Answer(0, 9, estimate, half / 2, 0.0, low, high, confidence, 50.0)


def test_a_ratio_is_fiellers():
    found = ratio(answer(20, 4), answer(100, 10))
    for end in (found.low, found.high):
        assert (20 - end * 100) ** 2 == pytest.approx(4**2 + (end * 10) ** 2)
    assert found.low < found.estimate == 0.2 < found.high
    mirrored = ratio(answer(-20, 4), answer(100, 10))
    assert (mirrored.low, mirrored.high) == (-found.high, -found.low)
    both = ratio(answer(-20, 4), answer(-100, 10))
    assert (both.low, both.high) == (found.low, found.high)
    assert ratio(answer(1, 4), answer(100, 10)).low < 0
    with pytest.raises(QueryError, match="may be 0"):
        ratio(answer(20, 4), answer(100, 100))
    with pytest.raises(QueryError, match="same confidence"):
        ratio(answer(20, 4), answer(100, 10, 0.9))


def test_ratios_hold_what_they_say():
    """Where the denominator is known to a half only; none at all is the whole line."""
    table = {"a": np.full(250, 3.0), "b": np.full(250, 7.0)}
    settings = {"epsilon": 1, "bound": 10, "method": "flat", "holdout": 0}
    hits, count = {0.8: 0, 0.95: 0}, 200
    for seed in range(count):
        released = tg.release(table, ["a", "b"], randomness=tg.seeded(seed), **settings)
        for confidence in hits:
            try:
                found = released.ratio("a", "b", 0, 250, confidence)
                hits[confidence] += found.low <= 3 / 7 <= found.high
            except QueryError:
                hits[confidence] += 1
    for confidence, held in hits.items():
        assert abs(held / count - confidence) < 3 * np.sqrt(confidence * (1 - confidence) / count)


def test_columns_of_events_go_on_after_a_kill_between_them_and_a_raised_cap(tmp_path):
    """One column has released a tick, the other has not; the ledger has one line throughout."""
    clock = {"every": "1h", "start": "2024-01-01T00:00Z"}
    both = dict.fromkeys("ab", tg.events(epsilon=1, bound=10, horizon=64, **clock))
    state, events = tmp_path / "state", (["2024-01-01T00:10Z", "2024-01-01T01:10Z"], [3, 4])
    with DurableColumns.open(state, both, source="trips", cap=1) as columns:
        for run in columns.runs.values():
            with pytest.raises(CapExceeded):
                run.push(*events)
    with Ledger.open(state / "ledger.jsonl") as ledger:
        ledger.set_cap(2)
    killed = tmp_path / "killed"
    with DurableColumns.open(state, both, source="trips") as columns:
        assert charges(tmp_path) == [(0, None, 2)]
        for run in columns.runs.values():
            run.push(*events)
        columns.runs["a"].advance("2024-01-01T02:00Z")
        shutil.copytree(state, killed)  # the disk, as a kill leaves it here
    with DurableColumns.open(killed, both) as columns:
        positions = [run.position for run in columns.runs.values()]
        assert positions[0] > positions[1] == 0
        columns.runs["b"].push(*events)  # what was not committed is sent again
        for run in columns.runs.values():
            run.advance("2024-01-03T00:00Z")
            rows = np.concatenate([piece.values for piece in run.replay_rows()])
            assert run.position == rows.size == 48
        assert columns.position == 48
    with pytest.raises(CapExceeded):
        DurableColumns.open(killed, both, new_epoch=True)
    with Ledger.open(killed / "ledger.jsonl", read_only=True) as ledger:
        assert len(ledger.charges()) == 1
