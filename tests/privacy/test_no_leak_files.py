"""Nothing of an input leaves the process, whatever is wrong with the input.

Sentinels are planted in files of every format, in every way in which a file can be wrong, and
looked for in all that a command leaves behind: both streams, logs, warnings, every file with its
name, the sealed state, the ledger, and what is in the folder for temporary files.
"""

from __future__ import annotations

import gzip
import json
import logging
import struct
import tempfile
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from typer.testing import CliRunner

from tidegate.cli.app import app

WORD = "Zq7sentinel"
NUMBER = 73491826507
SENTINELS = [WORD.encode(), str(NUMBER).encode(), struct.pack("<q", NUMBER), WORD[::-1].encode()]
SENTINELS += [struct.pack("<d", NUMBER), f"{NUMBER:,}".encode(), b"7.34918", WORD.lower().encode()]
GOOD = 60  # rows before the wrong one: enough for a hold-out and a few released values
SETTINGS = [
    "--epsilon",
    "1",
    "--bound",
    "100",
    "--holdout",
    "20",
    "--horizon",
    "64",
    "--preset",
    "tops",
    "--skipped",
    "0",
]


def csv(*tail: str, header: str = "value\n", good: int = GOOD) -> bytes:
    return (header + f"{NUMBER}\n" * good + "".join(f"{row}\n" for row in tail)).encode()


def jsonl(*tail: str, good: int = GOOD) -> bytes:
    return (f'{{"value":{NUMBER}}}\n' * good + "".join(f"{row}\n" for row in tail)).encode()


def parquet(folder: Path, columns: dict) -> bytes:
    path = folder / "made.parquet"
    pq.write_table(pa.table(columns), path)
    data = path.read_bytes()
    path.unlink()
    return data


TEXTS: dict[str, tuple[str, bytes, list[str]]] = {
    "text": ("in.csv", csv(WORD), []),
    "text, first": ("in.csv", csv(WORD, header="", good=0), []),
    "a quote left open": ("in.csv", csv(f'"{WORD}'), []),
    "too many fields": ("in.csv", csv(f"{WORD},{NUMBER}"), []),
    "not UTF-8": ("in.csv", csv() + b"\xff\xfe" + WORD.encode() + b"\n", []),
    "zeros": ("in.csv", csv() + b"\0" * 9 + WORD.encode() + b"\n", []),
    "torn": ("in.csv", csv()[:-3] + WORD.encode(), []),
    "no header": ("in.csv", csv(header="", good=5), ["--column", "load"]),
    "a word as header": ("in.csv", csv(header=f"{WORD}\n"), []),
    "wrong name": ("in.csv", csv(header=f"{WORD},{NUMBER}\n"), ["--column", "load"]),
    "wrong name and users": (
        "in.csv", csv(header=f"{WORD},who\n"), ["--column", "load", "--user-column", "who",
        "--unit", "user-horizon:2"],
    ),
    "wrong number": ("in.csv", csv(header=f"{WORD},{NUMBER}\n"), ["--column", "7"]),
    "a number under a name": ("in.csv", csv(header=f"{WORD},{NUMBER}\n"), ["--column", "1"]),
    "said to have no header": ("in.csv", csv(header=f"{WORD}\n"), ["--no-header"]),
    "JSON Lines as CSV": ("in.csv", jsonl(), []),
    "objects as CSV": ("in.csv", (f'{{"value":{NUMBER},"w":"{WORD}"}}\n' * 5).encode(), []),
    "CSV as JSON Lines": ("in.jsonl", csv(), ["--column", "value"]),
    "a huge number": ("in.csv", csv(str(NUMBER) * 2000, WORD), []),
    "too long a line": ("in.csv", csv() + WORD.encode() * (3 << 20), []),
    "users": (
        "in.csv", b"value,who\n" + b"%d,ann\n" % NUMBER * 30 + b"1,\xff" + WORD.encode() + b"\n",
        ["--user-column", "who", "--unit", "user-horizon:2"],
    ),
    "JSON text": ("in.jsonl", jsonl(f'{{"value":"{WORD}"}}'), ["--column", "value"]),
    "JSON cut": ("in.jsonl", jsonl(f'{{"value":{NUMBER},"x":"{WORD}'), ["--column", "value"]),
    "JSON list": ("in.jsonl", jsonl(f'["{WORD}"]'), ["--column", "value"]),
    "JSON deep": ("in.jsonl", jsonl('{"value":' + "[" * 99_999 + WORD), ["--column", "value"]),
    "JSON huge": (
        "in.jsonl", jsonl(f'{{"value":{NUMBER}{"9" * 9000}}}', WORD), ["--column", "value"]
    ),
    "JSON users": (
        "in.jsonl", f'{{"value":{NUMBER},"who":{{"{WORD}":1}}}}\n'.encode(),
        ["--column", "value", "--user-column", "who", "--unit", "user-horizon:2"],
    ),
    "JSON, no key": ("in.jsonl", f'{{"{WORD}":{NUMBER}}}\n'.encode() * 30, []),
    "a second column": (
        "in.csv", f"value,tip\n{f'{NUMBER},{NUMBER}{chr(10)}' * GOOD}5,{WORD}\n".encode(),
        ["--column", "value", "--column", "tip"],
    ),
    "JSON, a second column": (
        "in.jsonl",
        (f'{{"value":{NUMBER},"tip":{NUMBER}}}\n' * GOOD + f'{{"tip":"{WORD}"}}\n').encode(),
        ["--column", "value", "--column", "tip"],
    ),
    "money": ("in.csv", csv(f"${NUMBER}"), []),
    "a time": (
        "in.csv", f"value,t\n{f'{NUMBER},2024-01-01{chr(10)}' * GOOD}{NUMBER},{WORD}\n".encode(),
        ["--column", "value", "--time", "t"],
    ),
    "gzip cut": ("in.csv.gz", gzip.compress(csv(WORD))[:-9], []),
    "gzip of text": ("in.csv.gz", gzip.compress(csv(WORD)), []),
    "not gzip": ("in.csv.gz", csv(WORD), []),
    "gzip by another name": ("in.csv", gzip.compress(csv(WORD)), []),
    "gzip junk": ("in.csv.gz", gzip.compress(csv()) + WORD.encode() * 9, []),
    "zstd cut": ("in.jsonl.zst", zstandard.compress(jsonl(WORD))[:-5], ["--column", "value"]),
    "not zstd": ("in.csv.zst", csv(WORD), []),
    "not Parquet": ("in.parquet", csv(WORD), []),
    "unknown format": ("in.log", csv(WORD), []),
}  # fmt: skip
TABLES = {
    "Parquet text": ({"value": [WORD] * 30}, []),
    "Parquet nested": ({"value": [[WORD]] * 30}, []),
    "Parquet, a wrong name": ({"load": [NUMBER] * 30, "x": [WORD] * 30}, ["--column", "value"]),
    "Parquet, users": (
        {"value": [NUMBER] * 30, "who": [[WORD]] * 30},
        ["--user-column", "who", "--unit", "user-horizon:2"],
    ),
    "Parquet cut": ({"value": [NUMBER] * 30, "x": [WORD] * 30}, []),
    "Parquet damaged": ({"value": [NUMBER] * 30, "x": [WORD] * 30}, []),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "in" / "key").write_text("ab" * 32)
    return tmp_path


def left_behind(folder: Path, result, caplog) -> bytes:
    """All that a command let out, and the inputs not."""
    said = [result.stdout_bytes, result.stderr_bytes, caplog.text.encode()]
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    for path in sorted(folder.rglob("*")):
        if path.relative_to(folder).parts[0] != "in":
            said.append(path.relative_to(folder).as_posix().encode())
            if path.is_file():
                said.append(path.read_bytes())
    return b"\n".join(said)


def found_in(text: bytes) -> list[bytes]:
    return [sentinel for sentinel in SENTINELS if sentinel in text]


def run(folder: Path, caplog, *words: str) -> tuple[int, bytes]:
    with warnings.catch_warnings(), caplog.at_level(logging.DEBUG):
        warnings.simplefilter("error")
        result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, left_behind(folder, result, caplog)


def released(folder: Path, caplog, name: str, data: bytes, options: list[str]) -> None:
    source = folder / "in" / name
    source.write_bytes(data)
    for more in ([], ["-o", folder / "out.csv", "--state", folder / "state"]):
        key = ["--key-file", folder / "in" / "key"] if more else []
        code, text = run(folder, caplog, "release", source, *options, *more, *key, *SETTINGS)
        assert code in (2, 4), text
        assert found_in(text) == []


@pytest.mark.parametrize("case", TEXTS)
def test_a_wrong_text_file_is_not_shown(folder, caplog, case):
    released(folder, caplog, *TEXTS[case])


@pytest.mark.parametrize("case", TABLES)
def test_a_wrong_parquet_file_is_not_shown(folder, caplog, case):
    columns, options = TABLES[case]
    data = parquet(folder, columns)
    if case == "Parquet cut":
        data = data[: len(data) // 2]
    elif case == "Parquet damaged":
        data = data[:8] + WORD.encode() * 4 + data[8 + 4 * len(WORD) :]
    released(folder, caplog, "in.parquet", data, options)


# A file of values in the place of every other file that a command takes.
MISTAKEN = {
    "config": ["release", "-", "--config", "FILE"],
    "key": ["release", "-", "--state", "FOLDER/state", "--key-file", "FILE", *SETTINGS],
    "state": ["release", "-", "--state", "FILE", *SETTINGS],
    "query": ["query", "FILE", "0", "3"],
    "query, its metadata": ["query", "FOLDER/in/twin.csv", "0", "3"],
    "ranges": ["query", "FOLDER/in/twin.csv", "--ranges", "FILE"],
    "show": ["show", "FILE"],
    "ledger": ["ledger", "FILE"],
    "state show": ["state", "show", "FILE"],
    "output": ["release", "FOLDER/in/good.csv", "-o", "FILE", "--state", "FOLDER/state", *SETTINGS],
    "collect": ["local", "collect", "FILE", "FILE"],
}
FORMATS = {
    "csv": csv(WORD),
    "jsonl": jsonl(f'{{"value":"{WORD}"}}'),
    "toml": f'{WORD} = {NUMBER}\n[x.{WORD}]\n{WORD} = "{WORD}\n'.encode(),
    "ledger": b'{"sequence":1,"' + WORD.encode() + b'":%d,"hash":"%s"}\n' % (NUMBER, b"0" * 64),
}


@pytest.mark.parametrize("place", MISTAKEN)
@pytest.mark.parametrize("kind", FORMATS)
def test_values_in_the_place_of_another_file_are_not_shown(folder, caplog, place, kind):
    suffix = "csv" if kind == "toml" else "jsonl" if kind == "ledger" else kind
    source = folder / "in" / f"values.{suffix}"
    source.write_bytes(FORMATS[kind])
    (folder / "in" / "twin.csv").write_text("position,value\n0,1\n")
    (folder / "in" / "twin.csv.meta.json").write_bytes(FORMATS[kind])
    (folder / "in" / "good.csv").write_text("7\n" * 80)
    words = [
        word.replace("FILE", str(source)).replace("FOLDER", str(folder)) for word in MISTAKEN[place]
    ]
    code, text = run(folder, caplog, *words)
    assert code not in (0, 1, 70), text
    assert found_in(text) == []


def test_an_error_that_nobody_thought_of_is_not_shown(folder, caplog, monkeypatch):
    # Catches: a traceback, whose last line is the error's own words.
    def fails(*_):
        raise RuntimeError(f"{WORD} {NUMBER}")

    monkeypatch.setattr("tidegate.io.csv_rows.CsvRows.one", fails)
    (folder / "in" / "in.csv").write_bytes(csv())
    code, text = run(folder, caplog, "release", folder / "in" / "in.csv", *SETTINGS)
    assert code == 70
    assert b"this should not happen: RuntimeError in test_no_leak_files.py" in text
    assert found_in(text) == []


def test_the_search_finds_what_is_planted(folder, caplog):
    # The planted faults: a value in an output's name, in a file, on a stream.
    assert found_in(csv(WORD)) == [WORD.encode(), str(NUMBER).encode()]
    assert found_in(json.dumps({"threshold": float(NUMBER)}).encode())
    (folder / f"{WORD}.csv").touch()
    _, text = run(folder, caplog, "release", folder / "in" / "none.csv", *SETTINGS)
    assert found_in(text) == [WORD.encode()]
