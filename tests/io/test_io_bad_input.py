"""Whatever is wrong with an input: a clear error that says where, and never what."""

from __future__ import annotations

import errno
import os
import pickle
import traceback

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.errors import InputError, SettingError, TidegateError
from tidegate.io import SourceError, open_source, read_metadata, read_released

SECRET = "Zq7secret"


def failure(path, **settings) -> tuple[list, Exception]:
    """What was delivered, and the error; no trace of the secret is in it."""
    values: list = []

    def read() -> None:
        with open_source(path, **settings) as source:
            for batch in source.batches():
                values.extend(batch.values.tolist())

    with pytest.raises(TidegateError) as caught:
        read()
    error = caught.value
    assert SECRET not in "".join(traceback.format_exception(error))
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    return values, error


BAD_ROWS = [
    (f"{SECRET},u", "column 'load' is not a number"),
    (f'1,"{SECRET}', "does not have 2 fields"),
    (f"12{SECRET},u", "column 'load' is not a number"),
    (f"1,{SECRET},3", "does not have 2 fields"),
    (SECRET, "does not have 2 fields"),
]


@pytest.mark.parametrize(
    ("rows", "bad", "says"),
    [
        *((rows, *bad) for rows in (10, 5000) for bad in BAD_ROWS),  # row by row, a block
        *((150_000, *bad) for bad in BAD_ROWS[:2]),  # many blocks: of each message one
    ],
)
def test_a_bad_csv_row(write, rows, bad, says):
    good = [f"{index},user" for index in range(rows)]
    path = write("s.csv", "\n".join(["load,who", *good, bad, *good, ""]).encode())
    values, error = failure(path, column="load")
    assert values == list(range(rows))  # all that precedes it was given
    assert isinstance(error, InputError)
    assert f"row {rows}" in str(error)
    assert says in str(error)


@pytest.mark.parametrize("rows", [10, 5000])
@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (f'{{"load":"{SECRET}"}}', "column 'load' is not a number"),
        (f'{{"load":["{SECRET}"]}}', "column 'load' is not a number"),
        (f'{{"load":1,"x":"{SECRET}', "is not complete JSON"),
        (f'"{SECRET}"', "is not a JSON object"),
        ("[" * 100_000 + SECRET, "is not complete JSON"),
        (f'{{"load":1,"x":"{SECRET}","load":2}}', "has the key 'load' twice"),
    ],
)
def test_a_bad_json_row(write, rows, bad, says):
    good = [f'{{"load":{index}}}' for index in range(rows)]
    path = write("s.jsonl", "\n".join([*good, bad, *good, ""]).encode())
    values, error = failure(path, column="load")
    assert values == list(range(rows))
    assert isinstance(error, InputError)
    assert f"row {rows}" in str(error)
    assert says in str(error)


def test_users_that_are_not_text(write):
    path = write("s.csv", b"value,who\n1,ann\n2,\xff" + SECRET.encode() + b"\n")
    values, error = failure(path, user_column="who")
    assert values == [1]
    assert "user at row 1, column 'who' is not UTF-8" in str(error)
    assert "key at row 1, column 'who' is not UTF-8" in str(failure(path, by="who")[1])
    path = write("s.jsonl", b'{"value":1,"who":"a"}\n{"value":2,"who":{"x":"%s"}}\n' % b"Zq7secret")
    values, error = failure(path, column="value", user_column="who")
    assert "user at row 1, column 'who' is neither text nor an integer" in str(error)


def test_torn_last_lines(write, read):
    assert read(write("s.csv", b"value\n1\n2")) == [1, 2]
    values, error = failure(write("s.csv", b"a,value\n1,2\n3"), column="value")
    assert values == [2]
    assert "row 1 does not have 2 fields (line 3 of the input) (unfinished last line)" in str(error)
    assert read(write("s.jsonl", b'{"v":1}\n{"v":2}'), column="v") == [1, 2]
    values, error = failure(write("s.jsonl", b'{"v":1}\n{"v":2'), column="v")
    assert values == [1]
    assert "row 1 is not complete JSON (unfinished last line)" in str(error)


@pytest.mark.parametrize("name", ["s.csv", "s.parquet"])
@pytest.mark.parametrize("setting", ["column", "user_column"])
def test_a_wrong_column_lists_the_right_ones(write, tmp_path, name, setting):
    # Only what is certain to be names is shown: a schema, or a first line that the user calls so.
    path, header = tmp_path / name, {}
    if name == "s.csv":
        write(name, b"time,load\n1,2\n")
        header = {"header": True}
    else:
        pq.write_table(pa.table({"time": [1], "load": [2]}), path)
    settings = {"column": "load"} | {setting: "nope"}
    with pytest.raises(SettingError, match=f"^{setting}: .*'nope'.*'time', 'load'"):
        open_source(path, **settings, **header)
    with pytest.raises(SettingError, match=r"^column: choose one with --column: .*'time', 'load'"):
        open_source(path, **header)


@pytest.mark.parametrize("name", ["s.csv", "s.jsonl"])
def test_values_cannot_be_users_too(write, name):
    path = write(name, b"time,load\n1,2\n" if name == "s.csv" else b'{"time":1,"load":2}\n')
    with pytest.raises(SettingError, match="user_column: 'load' is used already"):
        open_source(path, column="load", user_column="load")


def test_a_column_twice(write):
    with pytest.raises(SettingError, match=r"2 columns are called 'a': give its number, .* 0 or 1"):
        open_source(write("s.csv", b"a,a\n1,2\n"), column="a")
    with open_source(write("s.csv", b"a,a\n1,2\n"), column="1", header=True) as source:
        assert [batch.values.tolist() for batch in source.batches()] == [[2.0]]


def test_many_columns_are_listed_in_part(write):
    header = ",".join(f"c{index}" for index in range(50)).encode()
    with pytest.raises(SettingError, match="'c19' and 30 more"):
        open_source(write("s.csv", header + b"\n"), column="x", header=True)


@pytest.mark.parametrize("name", ["s.csv", "s.jsonl", "s.parquet", "s.csv.gz"])
def test_files_that_are_not_there_or_not_files(tmp_path, name):
    path = tmp_path / name
    for reader in (
        lambda path: open_source(path, column="value"),
        lambda path: next(read_released(path)),
    ):
        with pytest.raises(SourceError, match="no such file") as caught:
            reader(path)
        assert isinstance(caught.value, OSError)
        assert str(path) in str(caught.value)
    path.mkdir()
    with pytest.raises(SourceError, match="is a directory"):
        open_source(path, column="value")


def test_a_file_that_may_not_be_read(monkeypatch, write):
    def forbid(*arguments):
        raise PermissionError(errno.EACCES, SECRET)

    path = write("s.csv", b"1\n")
    monkeypatch.setattr(os, "open", forbid)  # to root nothing is forbidden
    with pytest.raises(SourceError, match=r"s\.csv: permission denied$") as caught:
        open_source(path)
    assert caught.value.errno == errno.EACCES


def test_reasons_of_the_system_are_kept(tmp_path, write):
    path = write("s.csv", b"1\n")
    with pytest.raises(SourceError, match="not a directory"):
        open_source(path / "s.csv")


@pytest.mark.parametrize("packing", [".gz", ".zst"])
@pytest.mark.parametrize("damage", ["cut", "junk", "not packed"])
def test_damaged_compression(write, packing, damage):
    rows = np.random.default_rng(3).integers(0, 30_000, 200_000)
    text = "\n".join(map(str, rows.tolist())).encode()
    path = write("s.csv" + packing, text)
    data = path.read_bytes()
    if damage == "not packed":
        path.write_bytes(SECRET.encode() + text)
    else:
        path.write_bytes(
            data[: len(data) // 2] + (SECRET.encode() * 100 if damage == "junk" else b"")
        )
    values, error = failure(path)
    assert isinstance(error, SourceError)
    assert "truncated or damaged" in str(error)
    if damage == "cut":
        assert 40_000 < len(values) < 110_000
        assert values == rows[: len(values)].tolist()
        assert f"(after {len(values)} rows)" in str(error)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x1f\x8b\x08\x00", "is gzip data"),
        (b"\x28\xb5\x2f\xfd\x00", "is zstd data"),
        (b"PAR1\x15\x04\x15", "is a Parquet file"),
        ("1\n2\n".encode("utf-16"), "UTF-16"),
    ],
)
def test_a_name_that_misleads(write, data, says):
    with pytest.raises(SourceError, match=says):
        open_source(write("s.csv", data))


def test_damaged_parquet(tmp_path):
    path = tmp_path / "s.parquet"
    values = np.random.default_rng(4).integers(0, 1 << 40, 400_000)
    pq.write_table(
        pa.table({"value": values}), path, row_group_size=100_000, data_page_size=4096,
        use_dictionary=False,
    )  # fmt: skip
    data = path.read_bytes()
    for broken in (b"", SECRET.encode(), data[: len(data) // 2], data[:-9], data[9:]):
        path.write_bytes(broken)
        given, error = failure(path)
        assert isinstance(error, SourceError)
        assert "truncated or damaged" in str(error)
        if broken != data[9:]:  # whose end is whole
            with pytest.raises(SourceError, match="is not a complete Parquet file"):
                read_metadata(path)
    at = len(data) * 3 // 4
    path.write_bytes(data[:at] + b"\xff" * 20_000 + data[at + 20_000 :])
    given, error = failure(path)
    assert isinstance(error, SourceError)
    assert len(given) >= 200_000
    assert given[:200_000] == values[:200_000].tolist()
    assert f"after {len(given)} rows" in str(error)


def test_parquet_through_a_pipe():
    reading, writing = os.pipe()
    os.close(writing)
    with pytest.raises(SourceError, match="cannot be read from a pipe"):
        open_source(f"/dev/fd/{reading}", format="parquet")
    os.close(reading)


@pytest.mark.parametrize("rows", [1, 5000])  # row by row, and as a block
def test_keys_that_nobody_asks_for_may_come_twice(write, read, rows):
    lines = ['{"load":1,"x":1,"x":{"load":1,"load":2}}'] * rows
    assert read(write("s.jsonl", "\n".join([*lines, ""]).encode()), column="load") == [1] * rows
