"""Event streams on the disk: killed at any line, continued, recognised; and on the command line."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import tidegate as tg
from tests.cli.invoking import run as command
from tests.durable.moments import kills, scratch
from tests.durable.test_every_moment import charges, released
from tests.interruptions import all_interruptions
from tests.privacy.test_interrupted_readers import all_but
from tidegate.durable import DurableRelease, StateError, transfer
from tidegate.errors import InputError, SettingError, TidegateError
from tidegate.io import Batch, read_metadata
from tidegate.timestamps import Times, read_times

COMMON = {"every": "1min", "start": "2024-02-01", "horizon": 64}
PIPELINE = tg.events(epsilon=8, bound=100, **COMMON)
RNG = np.random.default_rng(7)
MINUTES = RNG.integers(0, 70, 600)
MOMENTS = np.datetime64("2024-02-01T00:00") + MINUTES.astype("timedelta64[m]")
TIMES = read_times(MOMENTS.astype("datetime64[ns]"))
VALUES = RNG.exponential(9.0, 600)
UNTIL = "2024-02-01T01:05"


def pushed(run, end: int) -> None:
    at = run.seen
    if at < end:
        run.push(VALUES[at:end], times=Times(TIMES.ticks[at:end], TIMES.clock))


def test_a_run_that_is_killed_at_any_line():
    """Open, events that lie ahead, two advances, close: at every line of it."""
    pipeline = PIPELINE
    with scratch() as place:
        base = place / "base"
        with DurableRelease.open(base, pipeline, source="trips"):
            pass
        shutil.copytree(base, place / "undisturbed")
        with DurableRelease.open(place / "undisturbed", pipeline) as run:
            pushed(run, 600)
            run.advance(UNTIL)
            wanted, costs = released(run), None
        costs = charges(place / "undisturbed")

        def act(folder, out):
            with DurableRelease.open(folder, pipeline) as run:
                pushed(run, 600)
                out.append(run.advance("2024-02-01T00:20").values)
                out.append(run.advance("2024-02-01T00:50").values)

        def look(folder, out):
            with DurableRelease.open(folder, pipeline) as run:
                found, left = released(run), np.concatenate([np.empty(0), *out])
                assert found.size == run.position
                assert found[: left.size].tobytes() == left.tobytes()
                units = pipeline.lattice.units(VALUES[: run.seen])
                assert run.recogniser().push(units, None, TIMES.ticks[: run.seen])
                pushed(run, 600)
                rows = run.advance(UNTIL)
                assert released(run).tobytes() == wanted.tobytes()
                assert rows.first + rows.values.size == 65
            assert charges(folder) == costs

        lines, folders = kills(base, act, look)
        assert lines > 1000
        assert folders > 5


def pieces(size: int = 150):
    for at in range(0, 600, size):
        part = slice(at, at + size)
        yield Batch(VALUES[part], times=Times(TIMES.ticks[part], TIMES.clock))


def test_a_transfer_is_continued_and_a_changed_input_is_refused(tmp_path):
    pipeline = PIPELINE
    for until in ("2024-02-01T00:30", UNTIL):
        with DurableRelease.open(tmp_path / "state", pipeline) as run:
            result = transfer(pieces(), run, tmp_path / "out.csv", until=until)
    assert (result.read, result.released, result.unmeasured) == (600, 65, 0)
    opened = tg.open(tmp_path / "out.csv")
    with DurableRelease.open(tmp_path / "state", pipeline) as run:
        answer = run.query(from_="2024-02-01T00:20", to="2024-02-01T00:40")
        assert opened.query(from_="2024-02-01T00:20", to="2024-02-01T00:40") == answer
        assert (answer.start, answer.end) == (20, 40)
        with pytest.raises(SettingError, match="until"):
            transfer(pieces(), run, tmp_path / "out.csv")
        with pytest.raises(StateError, match="differs"):
            transfer((Batch(VALUES + 50, times=TIMES),), run, tmp_path / "out.csv", until=UNTIL)
        assert "600" not in repr(run)
    facts = read_metadata(tmp_path / "out.csv")
    assert facts["unit"] == "event that is added or removed"
    assert 600 not in facts.values()  # how many events there were is not in it


def test_the_command_line(tmp_path):
    log = tmp_path / "trips.csv"
    rows = zip(MOMENTS.astype(str), VALUES.round(2), strict=True)
    log.write_text("pickup,fare\n" + "".join(f"{when},{fare}\n" for when, fare in rows))
    where = ["--time", "pickup", "--every", "1min", "--start", "2024-02-01", "--epsilon", "2"]
    out = tmp_path / "private.csv"
    done = command(
        "release", log, *where, "--until", UNTIL, "--column", "fare", "--bound", 100, "-o", out
    )
    assert done.exit_code == 0, done.output
    assert "released 65 ticks of 1min" in done.output
    assert "600" not in done.output
    assert out.read_text().splitlines()[1].startswith("2024-02-01T00:00:00,0,")
    asked = command("query", out, "--from", "2024-02-01T00:00", "--to", "2024-02-01T01:00")
    assert "per event that is added or removed" in asked.output
    assert command("query", out, "--every", "15min").exit_code == 0
    state = tmp_path / "state"
    for until, ticks in (("2024-02-01T00:30", 30), ("2024-02-01T01:00", 60)):
        options = [*where, "--count", "--until", until, "--state", state, "--quiet"]
        done = command("release", log, *options, "-o", tmp_path / "counts.csv")
        assert done.exit_code == 0, done.output
        assert len((tmp_path / "counts.csv").read_text().splitlines()) == ticks + 1
    nothing = command(
        "release", log, *where, "--count", "--until", "2024-02-01", "-o", out.with_name("x.csv")
    )
    assert nothing.exit_code == 5
    assert "600" not in nothing.output
    assert "no tick is over" in nothing.output
    for wrong, said in (
        (["--count"], "until"),
        (["--until", UNTIL], "bound"),
        (["--until", UNTIL, "--count", "--late", "keep"], "late"),
        (["--until", UNTIL, "--count", "--column", "fare"], "count"),
    ):
        failed = command("release", log, *where, *wrong)
        assert failed.exit_code == 2
        assert said in failed.output
    assert "--every" in command("release", log, "--count", "--epsilon", 1).output


def test_a_warm_up_that_is_still_open_says_so_and_no_message_tells_of_an_event(tmp_path):
    pipeline = tg.events(epsilon="1/10", bound=100, every="1min", start="2024-02-01", horizon=4000)
    with DurableRelease.open(tmp_path, pipeline) as run:
        pushed(run, 600)
        run.advance("2024-02-01T00:40")
        assert (run.phases, run.warming, run.threshold) == ([], 24, None)
        with pytest.raises(InputError) as caught:
            run.push([1, 2], times=["2024-02-01T00:00", "secret-4711"])
        assert "4711" not in str(caught.value)
        assert "4711" not in repr(run)
        with pytest.raises(InputError) as caught:
            run.push([1, "secret-4711"], times=["2024-02-01T00:00", "2024-02-01T00:01"])
        assert "4711" not in str(caught.value)
        rows = run.advance("2024-02-01T01:30")  # a refused push changes nothing
        assert (rows.first, rows.values.size) == (40, 50)


def test_events_are_pushed_as_in_memory(tmp_path):
    times, values = MOMENTS[:40], VALUES[:40]
    counting = tg.events(epsilon=8, **COMMON)
    for number, pipeline in enumerate((PIPELINE, counting)):
        given = (times,) if pipeline is counting else (times, values)
        with DurableRelease.open(tmp_path / f"{number}", pipeline) as run:
            run.push(*given)
            old = values if pipeline is not counting else np.ones(40)
            units = pipeline.lattice.units(old)
            assert run.seen == 40
            assert run.recogniser().push(units, None, TIMES.ticks[:40])
            with pytest.raises(InputError, match="push"):
                run.push(times, None if pipeline is PIPELINE else values)
            assert run.seen == 40


def test_ticks_that_were_committed_but_not_handed_over_are_refused(tmp_path):
    # Caught: an exception after the commit; the rows were lost, and nothing said so.
    pipeline = tg.events(epsilon=1, every="1h", start="2024-02-01", horizon=64)
    with DurableRelease.open(tmp_path / "base", pipeline) as run:
        run.push(MOMENTS[:1].astype("datetime64[D]") + np.arange(6) * np.timedelta64(10, "m"))
    opened, outcomes = [], set()

    def make():
        folder = shutil.copytree(tmp_path / "base", tmp_path / str(len(opened)))
        opened.append(DurableRelease.open(folder, pipeline))
        return opened[-1]

    def advance(run):
        return run.advance("2024-02-01T03:00")

    whole = advance(make()).values.tolist()
    opened[-1].close()
    for at, run in all_interruptions(
        make, advance, pure=all_but("durable/ticks_and_key_changes.py", "durable/commit.py")
    ):
        try:
            assert advance(run).values.tolist() == whole, at
            outcomes.add("taken")
        except TidegateError:
            run.close()
            with DurableRelease.open(tmp_path / str(len(opened) - 1), pipeline) as again:
                assert released(again).tolist() in ([], whole), at
                outcomes.add(f"refused, {again.position} committed")
        run.close()
    opened[-1].close()
    assert outcomes == {"taken", "refused, 0 committed", "refused, 3 committed"}
