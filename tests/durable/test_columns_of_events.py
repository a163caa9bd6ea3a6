"""Sums and counts of events in one durable run: one clock, one charge, each tick of each once."""

from contextlib import contextmanager
from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tidegate.durable.commit import Committer
from tidegate.durable.durable_columns import DurableColumns, transfer_columns
from tidegate.durable.durable_release import DurableRelease
from tidegate.durable.folder_lock import StateError
from tidegate.durable.transfer import TransferPassage
from tidegate.errors import QueryError, SettingError
from tidegate.io import open_source, read_released
from tidegate.ledger import CapExceeded, Ledger
from tidegate.released.released_columns import column_file

CLOCK = {"every": "1h", "start": "2024-02-01", "horizon": 48}
PIPELINES = {
    "fare": tg.events(epsilon="4/5", bound=60, **CLOCK),
    "count": tg.events(epsilon="1/5", **CLOCK),
}
HOURS = np.datetime64("2024-02-01T00:30") + np.arange(48).astype("timedelta64[h]")
SINKS = ("fare", "count")


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("at,fare\n" + "".join(f"{hour},20\n" * 30 for hour in HOURS))
    return path


def release(log, folder, until="2024-02-03", columns=PIPELINES, means=True, **options):
    sinks = {name: column_file(folder / "out.csv", name) for name in columns}
    with (
        open_source(log, column=["fare"], time="at", late="keep", events=True) as source,
        DurableColumns.open(folder / "state", columns, source="log", **options) as runs,
    ):
        transfer_columns(source, runs, sinks, until=until, means=means, warn=pytest.fail)


def rows(folder, name):
    path = column_file(folder / "out.csv", name)
    return np.concatenate([values for _, values in read_released(path)])


def test_cut_short_between_two_columns(log, tmp_path, monkeypatch):
    # Catches: means of different ticks; ticks that are released twice after the crash.
    release(log, tmp_path, "2024-02-02")
    before = {name: rows(tmp_path, name) for name in SINKS}
    finish, called = TransferPassage.finish, []

    def failing(self, until=None):
        called.append(until)
        if len(called) == 2:
            raise KeyboardInterrupt
        return finish(self, until)

    with monkeypatch.context() as patched:
        patched.setattr(TransferPassage, "finish", failing)
        with pytest.raises(KeyboardInterrupt):
            release(log, tmp_path)
    opened = tg.open(tmp_path / "out.csv")
    assert [rows(tmp_path, name).size for name in SINKS] == [48, 24]
    with pytest.raises(QueryError, match="do not cover the same ticks"):
        opened.query()
    with pytest.raises(QueryError, match="do not cover the same ticks"):
        opened.table("1d")
    assert opened.mean(0, 24).low < 20 < opened.mean(0, 24).high
    fares = rows(tmp_path, "fare")
    release(log, tmp_path)
    assert rows(tmp_path, "fare").tolist() == fares.tolist()
    for name, kept in before.items():
        assert rows(tmp_path, name)[:24].tolist() == kept.tolist()
    found = tg.open(tmp_path / "out.csv").query()
    assert found.count.low <= 48 * 30 <= found.count.high
    assert found.sum.low <= 48 * 600 <= found.sum.high
    with Ledger.open(tmp_path / "state" / "ledger.jsonl", read_only=True) as ledger:
        (charge,) = ledger.charges()
    assert charge.epsilon == Fraction(1)


COLUMNS = {
    "fare": {"epsilon": "3/5", "bound": 60},
    "tip": {"epsilon": "1/5", "bound": 9},
    "count": {"epsilon": "1/5"},
}


def dropped(log, folder, until, columns, batch=1000, start=None):
    """Release, in batches; gives how many events were late in each column."""
    sinks = {name: column_file(folder / "out.csv", name) for name in columns}
    how = {"time": "at", "late": "keep", "events": True, "zone": columns["count"].ticks.zone}
    with (
        open_source(log, column=[*columns][:-1], **how) as source,
        DurableColumns.open(folder / "state", columns, source="log") as runs,
    ):
        pieces = InPieces(source, batch)
        how = {"until": until, "means": True, "start": start, "warn": pytest.fail}
        transfer_columns(pieces, runs, sinks, **how)
        return {name: run.dropped for name, run in runs.runs.items()}


class InPieces:
    """A source in small batches: rows that one column has read, and another one has not."""

    def __init__(self, source, size):
        self.source, self.size = source, size

    def batches(self):
        for batch in self.source.batches():
            for start in range(0, len(batch), self.size):
                yield batch.part(start, start + self.size)


CUT_SHORT = pytest.raises(KeyboardInterrupt)


@contextmanager
def killed(monkeypatch, kind, name, calls):
    """As by kill −9 in place of a call of this method: nothing is committed after it."""
    method, commit, called = getattr(kind, name), Committer.commit, []

    def cut_short(self, *args):
        called.append(self)
        if len(called) > calls:
            raise KeyboardInterrupt
        return method(self, *args)

    def dead(self, entries):
        if len(called) > calls:
            raise KeyboardInterrupt
        commit(self, entries)

    with monkeypatch.context() as patched:
        patched.setattr(kind, name, cut_short)
        patched.setattr(Committer, "commit", dead)
        yield


@pytest.mark.parametrize("closed", [1, 2])
@pytest.mark.parametrize("zone", [{}, {"zone": "Europe/Berlin"}])
def test_an_event_is_late_in_all_columns_or_in_none(tmp_path, monkeypatch, closed, zone):
    """Killed when some columns had closed ticks, then while the others read on.

    Catches: a column that reads an event of a tick which another one has closed (of 50 such events
    50 were late in the sums, and none in the numbers); one that closes ticks before it has read
    what the others had.
    """
    columns = {name: tg.events(**how, **CLOCK, **zone) for name, how in COLUMNS.items()}
    log = tmp_path / "log.csv"
    written = [f"{hour},20,2\n" * 30 for hour in HOURS]
    log.write_text("at,fare,tip\n" + "".join(written[:24]))
    assert {*dropped(log, tmp_path, "2024-02-02", columns).values()} == {0}
    log.write_text("at,fare,tip\n" + "".join(written[:36]))
    with killed(monkeypatch, DurableRelease, "advance", closed), CUT_SHORT:
        dropped(log, tmp_path, "2024-02-02T12:00", columns)
    with DurableColumns.open(tmp_path / "state", columns) as runs:
        places = [(run.position, run.seen) for run in runs.runs.values()]
    assert places == [(36, 36 * 30)] * closed + [(24, 24 * 30)] * (3 - closed)
    late = f"{HOURS[30]},20,2\n" * 50
    log.write_text("at,fare,tip\n" + "".join(written[:36]) + late + "".join(written[36:]))
    with killed(monkeypatch, TransferPassage, "take", 20), CUT_SHORT:  # while they read again
        dropped(log, tmp_path, "2024-02-03", columns, batch=100)
    assert dropped(log, tmp_path, "2024-02-03", columns) == dict.fromkeys(COLUMNS, 50)
    assert [rows(tmp_path, name).size for name in COLUMNS] == [48] * 3
    found = tg.open(tmp_path / "out.csv").of("fare").query()
    assert found.count.low <= 48 * 30 <= found.count.high
    assert found.sum.low <= 48 * 600 <= found.sum.high


@pytest.mark.parametrize("start", [None, 0])
def test_a_shorter_input_closes_no_tick(tmp_path, monkeypatch, start):
    # Catches: ticks of a column that was behind, without the events that another one had counted.
    columns = {name: tg.events(**how, **CLOCK) for name, how in COLUMNS.items()}
    log = tmp_path / "log.csv"
    log.write_text("at,fare,tip\n" + "".join(f"{hour},20,2\n" * 30 for hour in HOURS))
    with killed(monkeypatch, DurableRelease, "advance", 1), CUT_SHORT:
        dropped(log, tmp_path, "2024-02-03", columns)
    log.write_text("at,fare,tip\n" + "".join(f"{hour},20,2\n" * 30 for hour in HOURS[:9]))
    with pytest.raises(StateError, match="the input ends before"):
        dropped(log, tmp_path, "2024-02-03", columns, start=start)
    with DurableColumns.open(tmp_path / "state", columns) as runs:
        assert [run.position for run in runs.runs.values()] == [48, 0, 0]


def test_one_reading_of_the_clock(log, tmp_path):
    # Catches: a clock that is read once for each column, with a tick ending in between.
    times = iter(["2024-02-02", "2024-02-03", "2024-02-04"])
    release(log, tmp_path, lambda: next(times))
    assert [rows(tmp_path, name).size for name in SINKS] == [24, 24]


def test_the_cap_stops_both(log, tmp_path):
    with pytest.raises(CapExceeded):
        release(log, tmp_path, cap="0.9")
    assert not list(tmp_path.glob("out.*.csv"))


def test_the_count_knows_no_values(tmp_path):
    # The count has a sensitivity of 1, whatever a value is; it must not depend on one.
    found = []
    for value in ("0", "60", "", "-7", "1e9"):
        folder = tmp_path / f"of {value}"
        folder.mkdir()
        log = folder / "log.csv"
        log.write_text("at,fare\n" + "".join(f"{hour},{value}\n" * 30 for hour in HOURS))
        sinks = {name: column_file(folder / "out.csv", name) for name in SINKS}
        columns = {name: PIPELINES[name].start(tg.seeded(at)) for at, name in enumerate(PIPELINES)}
        with open_source(log, column=["fare"], time="at", late="keep", events=True) as source:
            transfer_columns(
                source, columns, sinks, until="2024-02-03", means=True, warn=pytest.fail
            )
        found.append([rows(folder, name).tolist() for name in SINKS])
    assert all(one[1] == found[0][1] for one in found)
    assert found[0][0] != found[1][0]


def test_what_is_refused(log, tmp_path):
    readings = {"fare": tg.adaptive(epsilon=1, bound=60, horizon=64)}
    backwards = dict(reversed(PIPELINES.items()))
    for at, (columns, until, problem) in enumerate(
        (
            (readings, "2024-02-03", "until: must be given"),
            (PIPELINES, None, "until: must be given"),
            (backwards, "2024-02-03", "means: need event streams"),
        )
    ):
        folder = tmp_path / str(at)
        folder.mkdir()
        with pytest.raises(SettingError, match=problem):
            release(log, folder, until, columns)
        assert not list(folder.glob("out.*"))
