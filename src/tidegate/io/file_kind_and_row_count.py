"""The kind of a file, from its extension or from options; and its approximate number of rows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tidegate.errors import SettingError
from tidegate.exact_numbers import said
from tidegate.tables.optional_libraries import require_library_for_files

KINDS = ("csv", "csv.gz", "csv.zst", "jsonl", "jsonl.gz", "jsonl.zst", "parquet")
"""Every `format` that `open_source` and `open_sink` take."""

_EXTENSIONS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
_TABLE = "write the table as Parquet or CSV, or give it to tidegate.release in Python"
_ADVICE = {  # for files of other kinds, by extension
    **dict.fromkeys(
        (".xlsx", ".xlsm", ".xls", ".ods", ".numbers"),
        "is a spreadsheet: save the sheet as CSV (UTF-8) first",
    ),
    **dict.fromkeys((".zip", ".7z", ".tar", ".tgz", ".rar"), "is an archive: unpack it first"),
    **dict.fromkeys((".bz2", ".xz", ".lz4", ".br"), "is compressed otherwise: use .gz or .zst"),
    **dict.fromkeys((".sqlite", ".sqlite3", ".db", ".duckdb"), f"is a database: {_TABLE}"),
    **dict.fromkeys(
        (".feather", ".arrow", ".ipc", ".orc", ".avro", ".pkl", ".pickle", ".h5", ".dta", ".sav"),
        f"is of a kind that is not read: {_TABLE}",
    ),
}
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}


@dataclass(frozen=True)
class FileKind:
    """A format, its compression ("gzip", "zstd" or None), and the separator of CSV."""

    format: str
    compression: str | None = None
    delimiter: str = ","

    @property
    def recoverable(self) -> bool:
        """Whether a truncated file can be repaired and continued: plain lines only."""
        return self.format != "parquet" and self.compression is None


def file_kind_of(
    path: str | Path | None,
    format: str | None = None,  # noqa: A002  # the public name of the setting
    *,
    setting: str = "format",
) -> FileKind:
    """The kind of `path`; `format` overrides its name. Standard input and output default to CSV.

    `setting`: the name of the option in messages, if it is not `format`.

    >>> file_kind_of("readings.csv.gz")
    FileKind(format='csv', compression='gzip', delimiter=',')
    >>> file_kind_of("readings.log", "jsonl").format
    'jsonl'
    """
    name = "" if is_standard(path) else os.fspath(path or "").lower()
    bare, compression = name, None
    for extension, codec in _COMPRESSIONS.items():
        if name.endswith(extension):
            bare, compression = name.removesuffix(extension), codec
    if format is None:
        found = "csv" if not name else _EXTENSIONS.get(Path(bare).suffix)
        if found is None or (found == "parquet" and compression):
            raise _unknown_kind(path, Path(bare).suffix, setting)
        return FileKind(found, compression, "\t" if Path(bare).suffix == ".tsv" else ",")
    if format not in KINDS:
        raise SettingError(setting, f"must be one of {_file_kind_names()}, not {said(format)}")
    plain, _, codec_name = format.partition(".")
    if codec_name:
        return FileKind(plain, _COMPRESSIONS["." + codec_name])
    return FileKind(plain, None if plain == "parquet" else compression)


def _unknown_kind(path: str | Path | None, extension: str, setting: str) -> SettingError:
    """The error about a name that does not tell the kind of the file."""
    output = setting != "format"
    if Path(path or "").is_dir():
        name = said(os.fspath(path or ""))
        return SettingError("output" if output else setting, f"{name} is a folder: name a file")
    if extension in _ADVICE and not output:
        return SettingError(setting, _ADVICE[extension])
    lines = " (jsonl has an object on every line)" if extension == ".json" else ""
    problem = f"unknown extension; choose one of {_file_kind_names()}{lines}"
    return SettingError(setting, problem)


def is_standard(path: str | Path | None) -> bool:
    """Whether this means standard input or output."""
    return path is None or path == "-"


def _file_kind_names() -> str:
    return ", ".join(KINDS)


_PIECE = 1 << 20
_MOST_UNPACKED = 1 << 20  # lines: with more of them the default horizon is right


def row_count_at_most(
    path: str | Path | None,
    format: str | None = None,  # noqa: A002  # as in open_source
) -> int | None:
    """An upper bound on the rows of a file, from its line ends. None: unknown in advance.

    The number of rows is public; nothing of their content is looked at. A pipe has to be read to
    know it; a compressed file is unpacked for it, up to a million rows.
    """
    kind = file_kind_of(path, format)
    if is_standard(path) or not Path(path or "").is_file():
        return None
    try:
        if kind.format == "parquet":
            parquet = require_library_for_files("pyarrow.parquet")
            return int(parquet.read_metadata(path).num_rows)
        if kind.compression is not None:
            return _row_count_of_unpacked(os.fspath(path or ""), kind.compression)
        with Path(path or "").open("rb") as file:
            return 1 + sum(piece.count(b"\n") for piece in iter(lambda: file.read(_PIECE), b""))
    except Exception:  # noqa: BLE001  # whoever reads it next says what is wrong with it
        return None


def _row_count_of_unpacked(path: str, compression: str) -> int | None:
    """An upper bound on the lines of a compressed file. None: a million or more."""
    from tidegate.io.input_file_or_pipe import InputBytes  # on demand: plain files need none of it

    count, incoming = 1, InputBytes(path, compression)
    try:
        while piece := incoming.read(_PIECE):
            count += piece.count(b"\n")
            if count >= _MOST_UNPACKED:
                return None
    finally:
        incoming.close()
    return count
