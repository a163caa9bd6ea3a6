"""The metadata of a released file: inside Parquet, beside other formats."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidegate.errors import SettingError
from tidegate.io.errors import SourceError, source_error
from tidegate.io.file_kind_and_row_count import file_kind_of
from tidegate.io.output_file_or_pipe import write_output_file
from tidegate.tables.optional_libraries import require_library_for_files

KEY = "tidegate"
# Made once: `json.dumps` makes one for each of a few hundred facts.
_compact = json.JSONEncoder(sort_keys=True, ensure_ascii=False, allow_nan=False).encode
_MOST = 1 << 30  # bytes; the record of an adaptive release grows with it


def metadata_sidecar(path: str | Path) -> Path:
    """The metadata file of a CSV or JSONL file: `<name>.meta.json`."""
    return Path(os.path.realpath(path) + ".meta.json")


def encode_metadata(metadata: Mapping[str, object]) -> str:
    """Encode as JSON; equal facts give equal text."""
    try:
        return _indented_metadata(dict(metadata), "\n")
    except (TypeError, ValueError, RecursionError):
        raise SettingError("metadata", "must be plain JSON: text, numbers, lists, maps") from None


def _indented_metadata(fact: object, line: str) -> str:
    """Format as JSON: one line for each fact, and for each list of plain items.

    (`json.dumps(…, indent=1)` has a line for each item, and is ten times as slow: it encodes
    indented text without C.)
    """
    inner = line + " "
    if isinstance(fact, dict) and fact and all(type(name) is str for name in fact):
        pairs = [
            f"{_compact(name)}: {_indented_metadata(fact[name], inner)}" for name in sorted(fact)
        ]
        return "{" + inner + f",{inner}".join(pairs) + line + "}"
    if isinstance(fact, list | tuple) and any(isinstance(item, dict) for item in fact):
        return (
            "["
            + inner
            + f",{inner}".join(_indented_metadata(item, inner) for item in fact)
            + line
            + "]"
        )
    return _compact(fact)


def write_metadata_sidecar(path: str | Path, metadata: Mapping[str, object]) -> None:
    """Write the metadata file in one step, durably."""
    write_encoded_metadata(path, encode_metadata(metadata))


def write_encoded_metadata(path: str | Path, text: str) -> None:
    """Write metadata that `encode_metadata` returned."""
    write_output_file(metadata_sidecar(path), (text + "\n").encode())


def read_metadata(
    path: str | Path,
    format: str | None = None,  # noqa: A002  # as in open_source
) -> dict[str, Any] | None:
    """The metadata of a released file. None: there is none."""
    name = os.fspath(path)
    if file_kind_of(path, format).format == "parquet":
        text = _metadata_from_parquet(name)
    else:
        try:
            if metadata_sidecar(path).stat().st_size > _MOST:
                raise SourceError(None, f"its metadata is longer than {_MOST >> 20} MiB", name)
            text = metadata_sidecar(path).read_bytes()
        except SourceError:
            raise
        except FileNotFoundError:
            return None
        except OSError as error:
            raise source_error(error, str(metadata_sidecar(path))) from None
    if text is None:
        return None
    try:
        metadata = json.loads(text)
    except (ValueError, RecursionError):  # not JSON, digits without end, or nested without end
        raise SourceError(None, "its metadata is damaged", name) from None
    if not isinstance(metadata, dict):
        raise SourceError(None, "its metadata is damaged", name)
    return metadata


def _metadata_from_parquet(name: str) -> bytes | None:
    arrow, parquet = (
        require_library_for_files("pyarrow"),
        require_library_for_files("pyarrow.parquet"),
    )
    try:
        with Path(name).open("rb") as file:
            found: dict[bytes, bytes] = parquet.read_metadata(file).metadata or {}
    except OSError as error:
        if error.errno is None:
            raise SourceError(None, "is not a complete Parquet file", name) from None
        raise source_error(error, name) from None
    except (arrow.ArrowException, ValueError):
        raise SourceError(None, "is not a complete Parquet file", name) from None
    return found.get(KEY.encode())


_UNFINISHED = (
    "This file is not complete: the run that wrote it stopped before the end of its input, or is "
    "still writing. To finish it, run the same command again if it had --state; if not, release "
    "the rest of the input into another file (rows that are in here would be paid for twice)."
)


def unfinished_run_note(metadata: Mapping[str, Any]) -> str:
    """A note if the run that wrote a file did not end, with advice; else empty."""
    return "" if metadata.get("complete", True) else _UNFINISHED
