"""How times are written is decided by rows whose key is declared: the others are dropped, and shown
nowhere.

Numbers since 1970 are seconds or milliseconds by the size of the first one. If a row of another key
could be that one, all released times would tell that it was there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tidegate as tg
from tests.cli.invoking import run
from tests.entropy import beginning_with
from tidegate.cli.app import app
from tidegate.service import push_bodies
from tidegate.tables.repeated_items import RepeatedItems

COUNT = 300
SECONDS = 1_704_067_200 + 60 * np.arange(COUNT)
MILLIS = 1_704_067_100_000  # of a row whose key is not declared
KEYS = ["a", "b"] * (COUNT // 2)


def columns(kind: str, times: list[int]) -> Any:
    if kind == "list":
        return times
    if kind == "numpy":
        return np.array(times)
    if kind == "text":
        return list(map(str, times))
    library = pytest.importorskip(kind, reason="tables need the extra [tables]")
    return (library.array if kind == "pyarrow" else library.Series)(times)


@pytest.mark.parametrize("kind", ["list", "numpy", "text", "pandas", "polars", "pyarrow"])
def test_a_push_is_read_as_its_declared_rows_are(kind: str) -> None:
    # Catches: times that all lie in January 1970, since a row of an unknown key came first.
    specification = tg.keyed(tg.adaptive(epsilon=1, bound=9, horizon=COUNT), keys=["a", "b"])
    found = []
    for others in (0, 1, 3):
        release = specification.start(tg.seeded(1))
        times = [MILLIS] * others + SECONDS.tolist()
        release.push(["x"] * others + KEYS, [1] * len(times), columns(kind, times))
        rows = release.push(["x", "a"], [1, 1], columns(kind, [MILLIS, int(SECONDS[-1]) + 60]))
        found.append((release.clock, rows.times.tolist()))
        assert release.dropped == others + 1
    assert found[0] == found[1] == found[2]
    assert found[0][1] == [int(SECONDS[-1] + 60) * 10**9]


def released(folder: Path, rows: list[tuple[str, int]], form: str, *more: str) -> list[object]:
    """The output and its facts, of a file with these keys and times."""
    folder.mkdir()
    (folder / "keys").write_text("a\nb\n")
    source = folder / f"in.{form}"
    if form == "csv":
        lines = [f"{key},{time},3" for key, time in rows]
        source.write_text("\n".join(["key,at,value", *lines]) + "\n")
    elif form == "jsonl":
        lines = [json.dumps({"key": key, "at": time, "value": 3}) for key, time in rows]
        source.write_text("\n".join(lines) + "\n")
    else:
        arrow = pytest.importorskip("pyarrow", reason="files need the extra [cli]")
        parquet = pytest.importorskip("pyarrow.parquet", reason="files need the extra [cli]")
        keys, times = zip(*rows, strict=True)
        table = {"key": list(keys), "at": list(times), "value": [3] * len(rows)}
        parquet.write_table(arrow.table(table), source)
    words = ["--by", "key", "--keys", folder / "keys", "--column", "value", "--time", "at"]
    output = folder / "out.csv"
    with beginning_with("units"):
        found = run("release", source, *words, "--epsilon", 1, "--bound", 9, "-o", output, *more)
    assert found.exit_code == 0, found.output
    facts = json.loads((folder / "out.csv.meta.json").read_text())
    asked = run("query", output, "--every", "1h").stdout
    return [[line.split(",")[:3] for line in output.read_text().splitlines()], facts["time"], asked]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("more", [[], ["--state"]])
@pytest.mark.parametrize("others", [1, 5000])
def test_a_file_is_read_as_its_declared_rows_are(
    tmp_path: Path, form: str, more: list[str], others: int
) -> None:
    """Also where they begin in a later batch of the file."""
    rows = [*zip(KEYS, SECONDS.tolist(), strict=True)]
    options = [[*more, *([str(tmp_path / f"state {at}")] * len(more))] for at in range(2)]
    plain = released(tmp_path / "plain", rows, form, "--horizon", "300", *options[0])
    first = [("x", MILLIS)] * others
    mixed = released(tmp_path / "mixed", first + rows, form, "--horizon", "300", *options[1])
    assert plain[1:] == mixed[1:]
    assert plain[0] == mixed[0]
    assert plain[0][1][1] == str(SECONDS[0])


def test_a_pipe_is_read_as_its_declared_rows_are(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("a\nb\n")
    rows = [("x", MILLIS), *zip(KEYS, SECONDS.tolist(), strict=True)]
    text = "key,at,value\n" + "".join(f"{key},{time},3\n" for key, time in rows)
    words = ["--by", "key", "--keys", tmp_path / "keys", "--column", "value", "--time", "at"]
    words += ["--epsilon", 1, "--bound", 9, "--horizon", 300]
    found = CliRunner().invoke(app, ["release", *map(str, words)], input=text)
    assert found.exit_code == 0, found.output
    assert found.stdout.splitlines()[1].split(",")[:2] == ["a", str(SECONDS[0])]


def test_a_request_is_read_as_its_declared_rows_are() -> None:
    declared = frozenset("ab")

    def parsed(keys: list[str], times: list[int], names: frozenset[str] | None) -> Any:
        body = json.dumps({"values": [1] * len(keys), "keys": keys, "times": times}).encode()
        return push_bodies.parsed_body(body, "application/json", None, declared=names).times

    plain = parsed(KEYS, SECONDS.tolist(), declared)
    mixed = parsed(["x", *KEYS], [MILLIS, *SECONDS.tolist()], declared)
    assert mixed.clock == plain.clock
    assert mixed.ticks[1:].tolist() == plain.ticks.tolist()
    public = parsed(["x", *KEYS], [MILLIS, *SECONDS.tolist()], None)  # every key is taken
    assert public.clock.unit == "ms"


def test_check_reads_times_as_a_release_does(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("keys").write_text("a\nb\n")
    rows = [("x", MILLIS), *zip(KEYS, SECONDS.tolist(), strict=True)]
    Path("in.csv").write_text("key,at,value\n" + "".join(f"{k},{t},3\n" for k, t in rows))
    words = ["--column", "value", "--time", "at", "--by", "key", "--keys", "keys"]
    assert "from, to   2024-01-01T00:00:00Z" in run("check", "in.csv", *words).stdout


def test_texts_of_keys_that_come_repeated_are_counted_right() -> None:
    # Catches: rows that decide, taken from the wrong places of a column.
    release = tg.keyed(tg.adaptive(epsilon=1, bound=9, horizon=COUNT), keys=["a"]).start()
    keys = RepeatedItems(["x", "a"], np.array([0, 0, 1]))
    release.push(keys, [1, 1, 1], [MILLIS, MILLIS, int(SECONDS[0])])
    assert release.clock is not None
    assert release.clock.unit == "s"
