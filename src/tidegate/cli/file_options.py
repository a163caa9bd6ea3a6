"""Options for the files that commands read and write: source, output, column, format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.cli.exit_codes_and_signals import complain
from tidegate.cli.option_builders import FORMATS, offering_options
from tidegate.errors import SettingError, TidegateError

Source = Annotated[
    str,
    typer.Argument(metavar="INPUT", help="File to read (default, or -: standard input)."),
]
OutputFile = Annotated[
    str | None, typer.Option("--output", "-o", help="File to write (default: standard output).")
]
Column = Annotated[
    str | None,
    typer.Option(
        help="Column that holds the values: a name, a number from 0 (CSV), a key (JSONL)."
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of a CSV file names the columns. Default: it does if --column "
        "or --user-column is a name, or if --column is not given and a field is named value.",
        show_default=False,
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(help="What separates the fields of a CSV file: ',' (default), ';', '|' or tab."),
]
DecimalSign = Annotated[
    str | None, typer.Option(help="Decimal sign of a CSV file: '.' (default) or ','.")
]
InputFormat = Annotated[
    str | None,
    typer.Option(
        help="Format of the input: csv, jsonl or parquet (default: by extension).",
        autocompletion=offering_options(FORMATS),
    ),
]
OutputFormat = Annotated[
    str | None,
    typer.Option(
        help="Format of the output: csv, jsonl or parquet (default: by extension).",
        autocompletion=offering_options(FORMATS),
    ),
]
Released = Annotated[
    Path, typer.Argument(metavar="RELEASED", help="A file that `tidegate release` wrote.")
]
# The largest file that is read before its release, in bytes; and the assumed compression ratio.
_READ_FIRST, _PACKED = 1 << 23, 8
_MOST_PUBLIC_KEYS = 100_000  # in twice as many rows: about 8 kB of memory each

ReleasedColumn = Annotated[
    str | None,
    typer.Option(
        "--column",
        help="If several columns were released: which one (RELEASED is the name given to -o).",
    ),
]
ReleasedFormat = Annotated[
    str | None,
    typer.Option(
        help="Format of RELEASED: csv, jsonl or parquet (default: by extension).",
        autocompletion=offering_options(FORMATS),
    ),
]


def file_of_column(released: Path, column: str | None) -> Path:
    """The file for one column; without a column, the file itself."""
    if column is not None:
        from tidegate.released.released_columns import (
            column_file,  # on demand: `--help` needs no files
        )

        return Path(column_file(released, column))
    if not released.exists():
        from tidegate.released.released_columns import columns_beside

        if found := columns_beside(released):
            names = ", ".join(found)
            raise SettingError("column", f"is required, since several were released: {names}")
    return released


def check_output(source: str, output: str | None, output_format: str | None) -> None:
    """Refuse an output that cannot be written, before anything is read or spent."""
    from tidegate.io.file_kind_and_row_count import (
        file_kind_of,  # on demand: `--help` needs no files
    )

    file_kind_of(output, output_format, setting="output-format")
    if output in (None, "-") or source == "-":
        return
    if Path(output).exists() and Path(source).exists() and Path(output).samefile(source):
        raise SettingError("output", "is the input, which would be overwritten: give another name")


def output_format(
    opened: Any, source: str, options: Mapping[str, Any]
) -> str | Callable[[], str] | None:
    """The format of the output: the given one; on standard output, that of the input.

    For a pipe a function is returned: its format is known after its first row. Not with --state:
    after a restart rows are written again before any is read.
    """
    from tidegate.io.file_kind_and_row_count import file_kind_of, is_standard

    given: str | None = options.get("output-format")
    if given or not is_standard(options.get("output")):
        return given
    if is_standard(source) and "format" not in options and "state" not in options:
        return lambda: str(opened.format)
    return "jsonl" if file_kind_of(source, options.get("format")).format == "jsonl" else None


def refuse_bad_rows_in_file(
    source: str, opening: dict[str, Any], options: Mapping[str, Any]
) -> None:
    """Read a file to its end before the release: a bad row late in it then costs no epsilon.

    Nor does a misspelt key of JSON Lines, where a row without it counts as missing.

    Not a large file, which would be read twice; nor with --state, which continues after a bad row.

    Privacy: a row that cannot be read is no input, so no two neighbours differ in this; and a run
    that is refused publishes nothing, where one that stops at the bad row publishes its place. A
    key that no row has is refused for the same reason: who sees it holds the file.
    """
    import numpy as np  # on demand: other commands need their help alone

    from tidegate.io import open_source

    if "state" in options or "follow" in options or source == "-" or not Path(source).is_file():
        return
    if unpacked_file_size(source, options.get("format")) > _READ_FIRST:
        return
    try:
        with open_source(source, **opening) as opened:
            known: set[int] = set()  # columns with a number
            columns = 0
            for batch in opened.batches():
                each = batch.values, *batch.others
                columns = len(each)
                known.update(at for at, one in enumerate(each) if not np.isnan(one).all())
            if (doubt := getattr(opened, "doubt", "")) and len(known) < columns:
                raise SettingError("column", f"no row has a number there, and {doubt}")
    except TidegateError as error:
        error.add_note("no rows were released, so no epsilon was spent")
        raise


def refuse_key_for_each_row(source: str, opening: dict[str, Any]) -> None:
    """Refuse a file in which hardly two rows share a key: a wrong --by would fill the memory.

    Each key is a stream of its own: three million took all of 24 GB, and the run was killed after
    it had released rows. Looks at keys alone, which are public here; a pipe cannot be read twice.
    """
    from tidegate.io import open_source
    from tidegate.keyed.key_names import key_texts

    if not Path(source).is_file():
        return
    keys: set[str | None] = set()
    left = 2 * _MOST_PUBLIC_KEYS  # rows to look at
    with open_source(source, **{**opening, "follow": False}) as opened:
        for batch in opened.batches():
            keys.update(key_texts(batch.part(0, left).users))
            left -= min(left, len(batch.values))
            if len(keys) > _MOST_PUBLIC_KEYS:
                raise SettingError(
                    "by",
                    f"has more than {_MOST_PUBLIC_KEYS:,} keys in the first rows, and each is a "
                    "stream of its own: is it the column of the keys? If so, declare them: --keys "
                    "FILE",
                )
            if not left:
                return


def unpacked_file_size(source: str, format: str | None) -> int:  # noqa: A002  # as elsewhere
    """Roughly how many bytes a file has after decompression."""
    from tidegate.io.file_kind_and_row_count import file_kind_of

    kind = file_kind_of(source, format)
    packed = kind.compression is not None or kind.format == "parquet"
    return Path(source).stat().st_size * (_PACKED if packed else 1)


def warn_of_released_file(source: str, format: str | None) -> None:  # noqa: A002  # as elsewhere
    """Warn if the input was written by Tidegate: it has metadata inside or beside it."""
    from tidegate.io.metadata_files import read_metadata

    try:
        facts = read_metadata(source, format) if Path(source).is_file() else None
    except TidegateError:  # not to be read as one; as an input it is read elsewhere
        return
    if facts and "guarantee" in facts:
        complain(
            f"warning: {source} was released by Tidegate before. A second release adds noise and "
            f"protects nothing: ask the file, with `tidegate query {source}`"
        )


def file_holds_something(output: str) -> bool:
    """Whether overwriting the file would lose data. (Not if it is empty, a pipe or a device.)"""
    place = Path(output)
    return output not in ("", "-") and place.is_file() and place.stat().st_size > 0
