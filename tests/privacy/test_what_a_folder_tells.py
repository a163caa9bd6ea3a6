"""What can be read of a release without its key: the same with and without what is protected.

An event whose tick is not released, or a row whose key is not declared, is in no output. So with
the same noise all else must be the same, byte for byte: outputs, facts, exit codes, ledger, and
what is readable of a sealed state. (Its size is not: docs/privacy/limitations.md.)
"""

from __future__ import annotations

import json
import re
import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import tidegate as tg
from tests.cli.invoking import run
from tests.entropy import beginning_with
from tests.service.test_http import ROUTES, Clients, http
from tidegate.durable import DurableRelease
from tidegate.keyed.durable_folder import DurableKeyed
from tidegate.ledger import CapExceeded

__all__ = ["http"]  # a fixture

KEY = b"k" * 32
TICKS = ("--every", "1h", "--start", "2024-01-01T00:00Z", "--time", "at")
NOT_PRIVATE = re.compile(".*for you.*\n")
CHANGING = re.compile(rb'[0-9a-f]{64}( [0-9a-f]{8})?|"(time|at)": ?"[^"]*"')  # digests, clocks
_PREFIX = struct.Struct(">8sBI")


def readable(data: Any) -> Any:
    """What somebody without the key reads of a field: the header of sealed bytes."""
    if isinstance(data, bytes) and data[:8] == b"TIDEGATE":
        header = json.loads(data[_PREFIX.size :][: _PREFIX.unpack_from(data)[2]])
        # How often a state was committed is as its size.
        return {name: value for name, value in header.items() if name != "commit"}
    return CHANGING.sub(b"", data) if isinstance(data, bytes) else data


def surface(folder: Path) -> dict[str, Any]:
    """Every file, and every field of a database: what somebody without the key reads."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".sqlite":
            with closing(sqlite3.connect(path)) as database:
                tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
                for (table,) in tables.fetchall():
                    rows = database.execute(f'SELECT * FROM "{table}"').fetchall()
                    found[table] = [[readable(field) for field in row] for row in rows]
        elif path.is_file() and path.name != "lock":  # the number of commits
            found[path.name] = readable(path.read_bytes())
    return found


def released(folder: Path, rows: str, *words: Any) -> tuple[int, str, dict[str, Any]]:
    """Exit code, messages that may be shown to others, and what is in the folder."""
    folder.mkdir()
    source = folder.parent / "in.csv"
    source.write_text(f"at,shop,eur\n{rows}")
    with beginning_with("the same noise"):
        result = run("release", source, "--epsilon", 1, "-o", folder / "out.csv", *words)
    said = NOT_PRIVATE.sub("", result.stderr).replace(str(folder), "")
    return result.exit_code, said, surface(folder)


EVENTS = "".join(
    f"2024-01-01T{minute // 60:02}:{minute % 60:02}Z,{'ab'[minute % 2]},{minute % 9}\n"
    for minute in range(0, 1440, 7)
)
LATER = "2024-01-05T00:30Z,a,7\n"  # no tick of it is released


@pytest.mark.parametrize("until", ["2024-01-02T00:00Z", "2023-12-31T00:00Z"], ids=["day", "none"])
@pytest.mark.parametrize("before", [EVENTS, ""], ids=["events", "no events"])
@pytest.mark.parametrize("keyed", [False, True], ids=["plain", "keys"])
def test_an_event_that_is_in_no_tick_shows_nowhere(
    keyed: bool, before: str, until: str, tmp_path: Path
) -> None:
    # Caught: with keys, the readable header of the sealed state said how many events there were,
    # and each page in which commit its key had the last one; the ledger was charged with the
    # first event, and at its time; a summary counted them.
    (tmp_path / "key").write_bytes(KEY)
    (tmp_path / "keys").write_text("a\nb\n")
    words = [*TICKS, "--until", until, "--bound", 9, "--column", "eur"]
    words += ["--by", "shop", "--keys", tmp_path / "keys"] if keyed else []
    words += ["--state", "STATE", "--key-file", tmp_path / "key"]
    found = []
    for name, rows in (("without", before), ("with", before + LATER)):
        words[words.index("--key-file") - 1] = tmp_path / name / "state"
        found.append(released(tmp_path / name, rows, *words))
    without, with_it = found
    assert without[:2] == with_it[:2]
    # A page is there from the first event of a key, or from the first tick on: as its size.
    pages = [files.pop("pages", []) for _, _, files in found]
    assert without[2] == with_it[2]
    assert all(page in pages[1] for page in pages[0])
    assert "ledger.jsonl" in without[2]
    assert '"kind":"charge"' in without[2]["ledger.jsonl"].decode()


@pytest.mark.parametrize("keyed", [False, True], ids=["plain", "keys"])
def test_no_message_counts_events(keyed: bool, tmp_path: Path) -> None:
    # Caught: `state show`, and what is said where an input is shorter than before, or differs.
    (tmp_path / "keys").write_text("a\nb\n")
    words = [*TICKS, "--until", "2024-01-02T00:00Z", "--bound", 9, "--column", "eur"]
    words += ["--by", "shop", "--keys", tmp_path / "keys"] if keyed else []
    found = []
    for name, rows in (("without", EVENTS), ("with", EVENTS + LATER)):
        folder = tmp_path / name
        state = ["--state", folder / "state"]
        assert released(folder, rows, *words, *state)[0] == 0
        said = [] if keyed else [run("state", "show", folder / "state").output]
        for shorter in ("", EVENTS.replace(",3\n", ",4\n")):
            (tmp_path / "in.csv").write_text(f"at,shop,eur\n{shorter}")
            again = run(
                "release",
                tmp_path / "in.csv",
                "--epsilon",
                1,
                "-o",
                folder / "out.csv",
                *words,
                *state,
            )
            assert again.exit_code == 3
            said.append(again.output + again.stderr)
        found.append([one.replace(str(folder), "") for one in said])
    assert found[0] == found[1]


def test_a_row_whose_key_is_not_declared_shows_nowhere(tmp_path: Path) -> None:
    # Caught: the default horizon, which is published, was taken from all lines of the file.
    (tmp_path / "keys").write_text("a\nb\n")
    (tmp_path / "key").write_bytes(KEY)
    by = ["--by", "shop", "--keys", tmp_path / "keys", "--bound", 9, "--column", "eur"]
    rows = "".join(f"x,{'ab'[row % 2]},{row % 7}\n" for row in range(2400))
    more = "".join(f"x,secret{row},3\n" for row in range(700))
    assert released(tmp_path / "0", rows, *by) == released(tmp_path / "1", rows + more, *by)
    state = ["--state", "STATE", "--key-file", tmp_path / "key"]
    found = []
    for name, given in (("2", rows), ("3", rows + more)):
        state[1] = tmp_path / name / "state"
        found.append(released(tmp_path / name, given, *by, *state)[2])
    assert found[0]["facts"] == found[1]["facts"]
    assert found[0] == found[1]


def test_the_horizon_is_the_rows_that_a_declared_key_has(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("a\n07\n")
    rows = "".join(f"{'a' if row % 3 else '07'};1,5\n" for row in range(6000))
    (tmp_path / "in.csv").write_text("shop;eur\n" + rows + "7;1,5\n" * 3000)
    words = ["--by", "shop", "--keys", tmp_path / "keys", "--column", "eur", "--epsilon", 1]
    words += ["--bound", 9, "--delimiter", ";", "--decimal", ",", "-o", tmp_path / "out.csv"]
    assert run("release", tmp_path / "in.csv", *words).exit_code == 0
    facts = json.loads((tmp_path / "out.csv.meta.json").read_text())
    # 4,000 rows and 2,000: the key in which an average row lies has Σn²/Σn.
    assert facts["settings"]["perturber"]["horizon"] == 3333


PIPELINE = tg.events(1, 20, every="1h", start="2024-01-01T00:00Z", horizon=64)
KEYED = tg.keyed(PIPELINE, keys=["a", "b"])


def opened(kind: str, folder: Path, **how: Any) -> Any:
    if kind == "keys":
        return DurableKeyed.open(folder, KEYED, **how)
    return DurableRelease.open(folder, PIPELINE, **how)


@pytest.mark.parametrize("kind", ["plain", "keys"])
def test_events_are_charged_before_the_first_one(kind: str, tmp_path: Path) -> None:

    def charges() -> int:
        lines = (tmp_path / "s" / "ledger.jsonl").read_text().splitlines()
        return sum(one["kind"] == "charge" for one in map(json.loads, lines))

    for new_epoch, expected in ((False, 1), (True, 2), (False, 2)):  # opened again: nothing more
        with opened(kind, tmp_path / "s", new_epoch=new_epoch):
            pass
        assert charges() == expected


@pytest.mark.parametrize("kind", ["plain", "keys"])
def test_a_cap_refuses_whatever_comes(kind: str, tmp_path: Path) -> None:
    """A refusal that depends on whether there are events would tell it."""
    with opened(kind, tmp_path / "s", cap="0.5") as release:
        for times in ([], ["2024-01-01T00:10Z"]):
            when = PIPELINE.ticks.read(times)  # type: ignore[union-attr]
            rows = [[1.0] * len(times), None, when]
            if kind == "keys":
                rows = [["a"] * len(times), [1.0] * len(times), when]
            with pytest.raises(CapExceeded):
                release.push_rows(*rows)
        with pytest.raises(CapExceeded):
            release.close_ticks(1) if kind == "keys" else release.advance("2024-01-01T01:00Z")


@pytest.mark.parametrize("keys", [None, {"names": ["a"], "threshold": "per key"}])
def test_the_database_of_a_service_does_not_count_events(http: Clients, keys: Any) -> None:
    # Caught: place and number of the events of every request with a key were kept, readable; and
    # the ledger, which auditors read, was charged with the first event.
    gate = http.service.gate
    gate.call(lambda: gate.streams.create("calls", PIPELINE, keys=keys)).result()
    charged = http("auditor", "GET", "/v1/sources/calls").json()
    assert charged["spent"] == "1"
    for count in (3, 41):
        body: dict[str, Any] = {"times": ["2024-01-01T00:00:01Z"] * count, "values": [1.0] * count}
        body |= {} if keys is None else {"keys": ["a"] * count}
        for again in (False, True):
            answer = http(
                "producer",
                "POST",
                "/v1/streams/calls/values",
                json=body,
                headers={"Idempotency-Key": str(count)},
            )
            assert answer.status_code == (200 if again else 202)
            assert answer.json()["count"] == count
    assert http("auditor", "GET", "/v1/sources/calls").json() == charged
    with gate.streams._database.reading() as connection:
        rows = connection.exec_driver_sql('SELECT "start", "count" FROM tidegate_requests').all()
    assert set(rows) == {(0, 0)}


@pytest.mark.parametrize("keys", [None, {"names": ["a", "b"], "threshold": "per key"}])
def test_no_answer_of_a_service_changes_with_an_event_that_waits(http: Clients, keys: Any) -> None:
    gate = http.service.gate
    gate.call(lambda: gate.streams.create("calls", PIPELINE, keys=keys)).result()

    def send(count: int) -> None:
        body: dict[str, Any] = {"times": ["2024-02-01T00:00:01Z"] * count, "values": [1.0] * count}
        body |= {} if keys is None else {"keys": ["a"] * count}
        assert http("producer", "POST", "/v1/streams/calls/values", json=body).status_code == 202

    def seen() -> dict[Any, Any]:
        found = {}
        for (method, route), roles in ROUTES.items():
            if method != "GET" or "live" in route or "{task_id}" in route:
                continue
            path = route.format(name="calls", source="calls")
            for role in sorted(filter(None, roles)):
                answer = http(role, "GET", path)
                headers = {name: answer.headers.get(name) for name in ("etag", "content-length")}
                found[role, path] = answer.status_code, headers, answer.content
        return found

    until = {"until": "2024-01-02T00:00Z"}
    for released in (False, True):
        if released:
            assert http("producer", "POST", "/v1/streams/calls/advance", json=until).is_success
        before = seen()
        send(1)
        send(30)
        assert seen() == before
        assert sum(status == 200 for status, *_ in before.values()) > 10
