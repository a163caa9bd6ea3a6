"""Files with keys: what is written is what was released, in every format; the command line."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.cli.invoking import run
from tests.faults import Disk, failing_disk
from tidegate.cli.exit_codes_and_signals import stopping_on_signal
from tidegate.errors import SettingError
from tidegate.io import Batch, SinkError, SourceError, open_source
from tidegate.keyed.keyed_file import KeyedFile
from tidegate.keyed.keyed_release import KeyedRelease
from tidegate.keyed.transfer import transfer_keyed

NAMES = ["north", 'a "b", c', "7"]
TOPS = tg.tops(epsilon=1, bound=50, holdout=40, horizon=64, fanout=4, resolution="0.01")
SECRET = "undeclared-person"


def rows(count: int = 900) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Keys, some of them undeclared, values, and a time for each."""
    random = np.random.default_rng(0)
    keys = random.choice([*NAMES, SECRET], count, p=[0.4, 0.3, 0.2, 0.1])
    ticks = np.datetime64("2024-03-01") + np.arange(count) * np.timedelta64(10, "m")
    return keys.tolist(), random.integers(0, 50, count), ticks


def written(folder: Path) -> Path:
    """The same rows as a file."""
    lines = ["when,who,watts"]
    for key, value, tick in zip(*rows(), strict=True):
        spelt = '"' + key.replace('"', '""') + '"'
        lines.append(f"{tick}:00,{spelt},{value}")
    (folder / "in.csv").write_text("\n".join(lines) + "\n")
    return folder / "in.csv"


def moved(folder: Path, name: str, pipeline: tg.Pipeline = TOPS) -> KeyedRelease:
    release = tg.keyed(pipeline, keys=NAMES).start(tg.seeded(3))
    with open_source(written(folder), column="watts", by="who", time="when") as source:
        transfer_keyed(source, release, folder / name)
    return release


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl", "out.parquet", "out.csv.gz"])
def test_a_file_has_the_rows_and_answers_of_the_release(tmp_path: Path, name: str) -> None:
    release = moved(tmp_path, name)
    again = tg.keyed(TOPS, keys=NAMES).start(tg.seeded(3))
    expected = again.push(*rows())
    file = tg.open(tmp_path / name)
    assert isinstance(file, KeyedFile)
    found = file.columns()
    assert found["key"].tolist() == expected.keys.tolist()
    assert found["time"].tolist() == expected.times.tolist()  # type: ignore[union-attr]
    for column in ("position", "value", "level"):
        assert found[column].tolist() == expected.columns()[column].tolist()
    for _ in range(2):  # the second time from the index
        for asked in ({"key": "7"}, {"key": NAMES[1], "start": 3, "end": 90}, {"keys": NAMES[:2]}):
            mine, theirs = file.query(**asked), release.query(**asked)  # type: ignore[arg-type]
            assert (mine.estimate, mine.low, mine.high) == (
                theirs.estimate,
                theirs.low,
                theirs.high,
            )
        mine_table, theirs_table = file.table("1d").columns(), release.table("1d").columns()
        assert all(
            np.array_equal(mine_table[c], theirs_table[c], equal_nan=c != "key")
            for c in ("sum", "rows")
        )
        file = tg.open(tmp_path / name)
    with pytest.raises(tg.QueryError, match="'x' has no released rows"):
        file.query(key="x")


def test_an_adaptive_file_carries_the_record_of_each_key(tmp_path: Path) -> None:
    release = moved(tmp_path, "out.csv", tg.adaptive(epsilon=1, bound=50, horizon=300))
    file = tg.open(tmp_path / "out.csv")
    for key in NAMES:
        mine, theirs = (
            one.query(key=key, from_="2024-03-02", to="2024-03-04") for one in (file, release)
        )
        assert (mine.estimate, mine.low, mine.high) == (theirs.estimate, theirs.low, theirs.high)


def test_the_bytes_do_not_depend_on_batches(tmp_path: Path) -> None:
    from tidegate.keyed.keyed_sink import open_keyed_sink

    release = tg.keyed(TOPS, keys=NAMES).start(tg.seeded(3))
    all_rows = release.push(*rows())
    for name in ("a.csv", "a.jsonl"):
        texts = []
        for size in (7, 64, 65, 10_000):
            with open_keyed_sink(tmp_path / name, clock=release.clock) as sink:
                for start in range(0, len(all_rows), size):
                    sink.write(all_rows.part(slice(start, start + size)))
            texts.append((tmp_path / name).read_bytes())
        assert len(set(texts)) == 1


def command(folder: Path, *more: Any) -> Any:
    return run(
        "release",
        written(folder),
        "--by",
        "who",
        "--column",
        "watts",
        "--time",
        "when",
        "-o",
        folder / "out.csv",
        "--epsilon",
        1,
        "--bound",
        50,
        *more,
    )


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    (tmp_path / "keys.txt").write_text("\ufeff" + "\r\n".join(NAMES) + "\n\n")
    return tmp_path / "keys.txt"


def test_keys_must_be_declared_on_the_command_line(tmp_path: Path, keys: Path) -> None:
    result = command(tmp_path)
    assert result.exit_code != 0
    assert "which publishes all keys that occur" in result.stderr
    assert not (tmp_path / "out.csv").exists()
    assert "choose one" in command(tmp_path, "--keys", keys, "--keys-are-public").stderr
    assert "needs --by" in run("release", written(tmp_path), "--keys", keys).stderr
    assert (
        "cannot be used with --by"
        in command(tmp_path, "--keys", keys, "--user-column", "who").stderr
    )


def test_undeclared_keys_leave_no_trace_but_a_count_on_stderr(tmp_path: Path, keys: Path) -> None:
    result = command(
        tmp_path,
        "--keys",
        keys,
        "--preset",
        "tops",
        "--holdout",
        40,
        "--horizon",
        64,
        "--fanout",
        4,
    )
    assert result.exit_code == 0, result.stderr
    count = rows()[0].count(SECRET)
    assert f"dropped {count} rows" in result.stderr
    files = [path for path in tmp_path.iterdir() if path.name not in ("in.csv", "keys.txt")]
    assert len(files) == 2
    for path in files:
        assert SECRET not in path.read_text()
    assert SECRET not in result.stderr + result.stdout
    assert "dropped" not in (tmp_path / "out.csv.meta.json").read_text()


def test_public_keys_are_all_taken(tmp_path: Path) -> None:
    result = command(
        tmp_path,
        "--keys-are-public",
        "--preset",
        "tops",
        "--holdout",
        100,
        "--horizon",
        64,
        "--fanout",
        4,
        "--shared-threshold",
        "-q",
    )
    assert (result.exit_code, result.stderr) == (0, "")
    file = tg.open(tmp_path / "out.csv")
    assert len(file) == 800
    assert isinstance(file, KeyedFile)
    assert sorted(file.keys) == sorted([*NAMES, SECRET])


def test_questions_about_keys(tmp_path: Path, keys: Path) -> None:
    assert command(tmp_path, "--keys", keys).exit_code == 0
    out = tmp_path / "out.csv"
    text = run("query", out, "--from", "2024-03-02").stdout
    assert [line.split("  ")[0] for line in text.splitlines()[2:6]] == [*NAMES, "total"]
    assert "ε = 1 per event of any key" in text
    answer = json.loads(run("query", out, "--key", "7", 0, 50, "--json").stdout)["answers"]
    assert [(one["key"], one["rows"]) for one in answer] == [("7", 50)]
    assert answer[0]["estimate"] == tg.open(out).query(0, 50, key="7").estimate  # type: ignore[call-arg]
    table = json.loads(run("query", out, "--every", "1d", "--key", "7", "--json").stdout)["rows"]
    assert [row["time"][:10] for row in table] == [f"2024-03-0{day}" for day in range(1, 8)]
    total = json.loads(run("query", out, "--every", "1w", "--total", "--json").stdout)["rows"]
    assert sum(row["rows"] for row in total) == len(tg.open(out))
    assert "has no released rows" in run("query", out, "--key", "x").stderr
    assert "'7'" not in run("query", out, "--key", "north", "--key", "x").stderr


def test_a_file_that_was_changed_is_refused(tmp_path: Path) -> None:
    moved(tmp_path, "out.csv")
    out = tmp_path / "out.csv"
    lines = out.read_text().splitlines(keepends=True)
    key, rest = lines[-1].split(",2024")
    for damaged, problem in (
        (lines[:-1], "missing"),
        ([*lines, lines[-1]], "count up"),
        ([lines[0], *reversed(lines[1:])], "count up"),
        ([*lines[:-1], f"stranger,2024{rest}"], "lacks"),
    ):
        out.write_text("".join(damaged))
        with pytest.raises(SourceError, match=problem):
            tg.open(out).query(key=key)  # type: ignore[call-arg]
    meta = tmp_path / "out.csv.meta.json"
    facts = json.loads(meta.read_text())
    for name in ("names", "phases"):
        meta.write_text(json.dumps({**facts, "keys": {**facts["keys"], name: 3}}))
        with pytest.raises(SourceError, match="damaged"):
            tg.open(out)


def test_other_readers_say_that_a_file_has_keys(tmp_path: Path) -> None:
    moved(tmp_path, "out.csv")
    result = run("show", tmp_path / "out.csv")
    assert result.exit_code != 0
    assert "--key is required: out.csv has the keys" in result.stderr


class Batches:
    """The rows in batches of 100, as they come."""

    def batches(self) -> Any:
        keys, values, _ = rows()
        for start in range(0, len(keys), 100):
            part = slice(start, start + 100)
            yield Batch(values[part].astype(float), keys[part])  # type: ignore[arg-type]

    def fraction(self) -> None:
        return None


def interrupted_after(pushes: int, real: Callable[..., Any]) -> Callable[..., Any]:
    """A push in which a signal arrives, when its values are taken and nobody has its rows."""
    left = [pushes]

    def push_rows(*args: Any, **named: Any) -> Any:
        found = real(*args, **named)
        left[0] -= 1
        if not left[0]:
            signal.raise_signal(signal.SIGINT)
        return found

    return push_rows


@pytest.mark.parametrize("pipeline", [TOPS, tg.adaptive(epsilon=1, bound=50, horizon=300)])
@pytest.mark.parametrize("name", ["out.csv", "out.parquet", "out.csv.gz"])
def test_what_was_released_before_ctrl_c_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, pipeline: tg.Pipeline
) -> None:
    """Caught: it was said to be intact; there was no file, or one that could not be asked."""
    release = tg.keyed(pipeline, keys=NAMES).start(tg.seeded(3))
    monkeypatch.setattr(KeyedRelease, "push_rows", interrupted_after(4, KeyedRelease.push_rows))
    with stopping_on_signal(None), pytest.raises(KeyboardInterrupt):
        transfer_keyed(Batches(), release, tmp_path / name)  # type: ignore[arg-type]
    assert release.seen == 400
    file = tg.open(tmp_path / name)
    assert isinstance(file, KeyedFile)
    assert len(file.columns()["value"]) == len(file) == release.position
    assert file.unfinished
    assert file.query(key="7").end > 0  # type: ignore[call-arg]


@pytest.mark.parametrize("how", ["torn", "after"])
def test_no_part_of_a_row_stays_when_the_disk_is_full(tmp_path: Path, how: str) -> None:
    """Caught: half a row stayed, after which nothing in the file could be read."""
    release = tg.keyed(TOPS, keys=NAMES).start(tg.seeded(3))
    disk = Disk(tmp_path, 6, how)  # type: ignore[arg-type]
    with failing_disk(disk), pytest.raises(SinkError):
        transfer_keyed(Batches(), release, tmp_path / "out.csv")  # type: ignore[arg-type]
    assert disk.met
    lines = (tmp_path / "out.csv").read_text().splitlines(keepends=True)
    assert len(lines) > 100
    assert all(line.endswith("\n") and line.count(",") >= 3 for line in lines)


def test_the_names_stay_when_the_disk_is_full_at_the_first_row(tmp_path: Path) -> None:
    """Caught: the file was cut before its names."""
    release = tg.keyed(TOPS, keys=NAMES).start(tg.seeded(3))
    with failing_disk(Disk(tmp_path, 1, "torn")), pytest.raises(SinkError):
        transfer_keyed(Batches(), release, tmp_path / "out.tsv")  # type: ignore[arg-type]
    assert (tmp_path / "out.tsv").read_bytes() == b"key\tposition\tvalue\tlevel\n"


def test_a_release_that_has_taken_rows_is_refused(tmp_path: Path) -> None:
    """Caught: the file lacked them, and could not be asked; or it answered."""
    release = tg.keyed(TOPS, keys=NAMES).start(tg.seeded(3))
    release.push(["7"], [1])
    with pytest.raises(SettingError, match="has taken rows already"):
        transfer_keyed(Batches(), release, tmp_path / "out.csv")  # type: ignore[arg-type]
    assert not (tmp_path / "out.csv").exists()
