"""Rows of JSON Lines, one object per line, by two readers with one meaning, as in `csv_rows`."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from tidegate.errors import InputError, SettingError
from tidegate.io.column_choice import WantedColumn
from tidegate.io.csv_rows import from_arrow
from tidegate.tables.optional_libraries import require_library_for_files

_INTEGER_DIGITS = 20  # all of 64 bits, with a sign


class FieldTwice(ValueError):  # noqa: N818  # caught where it is known which object that is
    """An object has the same field twice."""


def each_json_field_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of an object, for `json`; refuses duplicates: readers may differ on them."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise FieldTwice
    return found


class JsonRows:
    """Columns by key; `a.b` is the key b of the object a, unless there is a key `a.b`.

    The keys are given, never read off the rows: a row that lacks one is a row whose value is
    missing, the first like any other. But names are public, as a header is: if the first row does
    not have a key, `doubt` says so, whatever its values are.
    """

    doubt = ""

    def __init__(self, wanted: Sequence[WantedColumn]) -> None:
        for column in wanted:
            if column.name is None:
                example = f"--{column.setting.replace('_', '-')} value"
                raise SettingError(
                    column.setting, f"is missing: JSON Lines need a key, such as {example}"
                )
        self._wanted = wanted
        self._keys = [column.name or "" for column in wanted]
        if len(set(self._keys)) < len(self._keys):
            raise SettingError(wanted[-1].setting, f"{wanted[-1].name!r} is used already")
        # pyarrow does not look into objects.
        self._one_by_one = any("." in key for key in self._keys)
        # What `many` expects; where it is wrong, `one` reads the block.
        self._integer_users = False
        self._times: type = str

    def begin(self, line: bytes) -> bool | None:
        """Begin: JSON Lines have no header."""
        try:
            row = _json_object(line, 0, self._keys) if line.strip() else None
        except InputError:  # it is read again as a row
            row = None
        missing = [key for key in self._keys if row is not None and not _json_has(row, key)]
        if missing:
            self.doubt = (
                f"the first row has no key {missing[0]!r}: a row without it counts as missing. Is "
                "it spelt as in the input?"
            )
        return False

    def one(self, line: bytes, position: int) -> list[Any]:
        """The wanted members of one row; those of a blank row are missing."""
        row = _json_object(line, position, self._keys) if line.strip() else {}
        found: list[Any] = []
        for column, key in zip(self._wanted, self._keys, strict=True):
            if column.numeric:
                found.append(_json_number(_json_member(row, key), key, position))
            else:
                read = _json_time if column.time else _json_user
                found.append(read(_json_member(row, key), key, position, column.content))
                if found[-1] is None:
                    continue
                if column.time:
                    self._times = type(found[-1])
                else:
                    self._integer_users = type(found[-1]) is int
        return found

    def many(self, text: bytes, count: int) -> list[NDArray[Any]] | None:
        """The wanted columns of a block of `count` lines. None: read them one by one."""
        arrow, arrow_json = (
            require_library_for_files("pyarrow"),
            require_library_for_files("pyarrow.json"),
        )
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n")
        # pyarrow reads values, not lines. A value cannot go on over "}\n{", so with these it does.
        if text.count(b"}\n") != count or text.count(b"\n{") != count - 1:
            return None
        if self._one_by_one:
            return None
        types = {str: arrow.string(), int: arrow.int64(), float: arrow.float64()}
        user_type = types[int if self._integer_users else str]
        time_type = types.get(self._times, arrow.string())
        schema = arrow.schema(
            [
                (
                    key,
                    types[float] if column.numeric else time_type if column.time else user_type,
                )
                for key, column in zip(self._keys, self._wanted, strict=True)
            ]
        )
        try:
            table = arrow_json.read_json(
                arrow.BufferReader(text),
                read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(text) + 1),
                parse_options=arrow_json.ParseOptions(
                    explicit_schema=schema, unexpected_field_behavior="ignore"
                ),
            )
            if table.num_rows != count:
                return None
            return from_arrow([table.column(key) for key in self._keys], self._wanted)
        except (arrow.ArrowException, UnicodeDecodeError):  # they quote the row; `one` will not
            return None


def _json_lines_advice(position: int) -> str:
    """Advice for a file that is one array, or one object: shown with its first row."""
    wanted = "; every line must be an object of its own: `jq -c '.[]'` writes an array so"
    return "" if position else wanted


def _json_object(line: bytes, position: int, wanted: Sequence[str]) -> dict[str, Any]:
    last: list[tuple[str, Any]] = []  # the fields of the object that ended last: of the row itself

    def noted(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal last
        last = pairs
        return dict(pairs)

    try:
        text = line.decode("utf-8", "surrogateescape")
        row = json.loads(text, parse_int=_json_integer, object_pairs_hook=noted)
    except (ValueError, RecursionError):
        raise InputError(
            f"row {position} is not complete JSON{_json_lines_advice(position)}"
        ) from None
    if not isinstance(row, dict):
        raise InputError(f"row {position} is not a JSON object{_json_lines_advice(position)}")
    if len(row) < len(last):
        names = [name for name, _ in last]
        for key in wanted:
            if names.count(key) > 1 or names.count(key.partition(".")[0]) > 1:
                raise InputError(f"row {position} has the key {key!r} twice")
    return row


def _json_member(row: dict[str, Any], key: str) -> Any:
    """The value under a key, or under a path of keys."""
    if key in row or "." not in key:
        return row.get(key)
    first, _, rest = key.partition(".")
    inner = row.get(first)
    return _json_member(inner, rest) if isinstance(inner, dict) else None


def _json_has(row: dict[str, Any], key: str) -> bool:
    if key in row or "." not in key:
        return key in row
    first, _, rest = key.partition(".")
    inner = row.get(first)
    return isinstance(inner, dict) and _json_has(inner, rest)


def _json_integer(text: str) -> int | float:
    # No number is too large to be read, and −0 keeps its sign, as it does in a block.
    return int(text) if len(text) <= _INTEGER_DIGITS and text != "-0" else float(text)


def _json_number(value: object, key: str, position: int) -> float:
    if value is None:
        return math.nan
    if isinstance(value, int | float):  # true and false count as 1 and 0, as in Parquet
        return float(value)
    advice = _json_advice(value, key)
    raise InputError(f"value at row {position}, column {key!r} is not a number{advice}")


def _json_advice(value: object, key: str) -> str:
    """Advice about a value of another type."""
    if isinstance(value, str):
        return "; it is text: write numbers without quotes, and null for a missing one"
    if isinstance(value, dict):
        return f"; it is an object: name a key in it, as in --column {key}.KEY"
    return "; it is a list: write one number a line"


def _json_user(value: object, key: str, position: int, what: str) -> str | int | None:
    if value is None or value == "":
        return None
    if isinstance(value, str) and _json_is_text(value):
        return value
    if type(value) is int and -(1 << 63) <= value < 1 << 63:
        return value
    raise InputError(f"{what} at row {position}, column {key!r} is neither text nor an integer")


def _json_time(value: object, key: str, position: int, what: str) -> Any:
    """A time as text or a number, to be parsed later."""
    if value is None or (isinstance(value, str | int | float) and not isinstance(value, bool)):
        return value
    raise InputError(f"{what} at row {position}, column {key!r} is neither text nor a number")


def _json_is_text(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:  # half a surrogate pair, or bytes that were not UTF-8
        return False
    return True
