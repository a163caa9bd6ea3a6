"""`tidegate query`: sums over ranges of a released file, with their intervals."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli.exit_codes_and_signals import errors_as_exit_codes
from tidegate.cli.file_options import Released, ReleasedColumn, ReleasedFormat, file_of_column
from tidegate.cli.option_builders import position_argument
from tidegate.cli.printed_answers import printed_facts, printed_remarks
from tidegate.errors import QueryError, SettingError
from tidegate.tables.plain_text import plain_number, plain_percent, table

if TYPE_CHECKING:
    from tidegate.cli.asked_by_key import AskedByKey
    from tidegate.record.range_queries_and_answers import Answers
    from tidegate.record.record import Record
    from tidegate.released import ReleasedFile

Start = Annotated[
    int | None, position_argument("START", "First position, counted from 0. [default: 0]")
]
End = Annotated[
    int | None, position_argument("END", "End position, not included. [default: the end]")
]
Ranges = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Many ranges: CSV with columns start and end; - is stdin."),
]
Confidence = Annotated[float, typer.Option(help="Probability that the interval holds the sum.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]

Ranged = Callable[[int], tuple[list[int], list[int]]]  # starts and ends, given the end of all
_COLUMNS = (
    "estimate", "low", "high",
    "standard_error", "noise_error", "prediction_error", "truncation_error",
)  # fmt: skip


def query(
    released: Released,
    start: Start = None,
    end: End = None,
    ranges: Ranges = None,
    confidence: Confidence = 0.95,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="TIME", help="First time, e.g. 2024-02-01 (if released with --time)."
        ),
    ] = None,
    to: Annotated[
        str | None, typer.Option(metavar="TIME", help="End time, not included, e.g. 2024-03-01.")
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(metavar="LENGTH", help="A table by time: 15min, 1h, 1d, 1w, 1mo, 1y."),
    ] = None,
    as_of: Annotated[
        int | None,
        typer.Option(metavar="POSITION", help="Answer from what was released before POSITION."),
    ] = None,
    column: ReleasedColumn = None,
    ratio: Annotated[
        str | None,
        typer.Option(metavar="A/B", help="Sum of the column A over that of B, such as tip/fare."),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="For a release with --by: this key; repeat it to get a total.",
        ),
    ] = None,
    total: Annotated[
        bool, typer.Option("--total", help="With --every: the total over the keys.")
    ] = False,
    format: ReleasedFormat = None,  # noqa: A002  # the option's name
    as_json: AsJson = False,
) -> None:
    """Ask a released file for sums over ranges, with intervals.

    Without a range the sum is over all rows. Ask by position (START and END count rows from 0; END
    is not included) or, if the release has times, by time: --from and --to ask for the rows with
    from ≤ time < to, --every for a table of sums, means and rates per second. A time without a zone
    is in the zone of the release.

    Large values were capped. For an adaptive release the answer estimates what that removed, and
    its interval allows for it; for other methods it is the sum of the capped values. Answers use
    the whole file; --as-of END uses the first END rows only. Queries spend no privacy budget. The
    first one writes an index beside the file, so later ones are fast.

    Several columns: --column chooses one, --ratio divides the sum of one by that of another.
    Events released with --mean: each row has their number, sum and mean. Keys: one row for each
    --key, or for every key and their total.

    Examples:

    \b
      tidegate query private.csv
      tidegate query private.csv 0 86400
      tidegate query private.parquet 3600 7200 --confidence 0.99 --json
      tidegate query private.csv --ranges days.csv
      tidegate query private.csv --from 2024-02-01 --to 2024-03-01 --every 1d
      tidegate query private.csv 0 86400 --as-of 86400
      tidegate query private.csv --ratio tip/fare --every 1mo
      tidegate query private.csv --ratio tip/fare --key north
      tidegate query private.csv --key north --key south --from 2024-02-01
      tidegate query private.csv --every 1d --total
      printf 'start,end\\n0,60\\n60,120\\n' | tidegate query private.csv --ranges -
    """  # noqa: D301  # \b keeps the lines of the examples
    with errors_as_exit_codes():
        by_time = (from_, to, every) != (None, None, None)
        if by_time and (start is not None or ranges is not None):
            raise SettingError("range", "ask by position or by time, not both")
        from tidegate.keyed.keyed_file import (  # on demand: `--help` needs none
            KeyedFile,
            open_all_means,
            open_one_file,
        )
        from tidegate.keyed.released_means_by_key import ReleasedMeansByKey
        from tidegate.released.checked_metadata import SimulationError

        positions = query_ranges(start, end, ranges)

        def sums(record: Record) -> tuple[list[str], Answers]:
            if every is not None:
                table = record.table(every, from_=from_, to=to, confidence=confidence)
                return table.times, table.answers
            if by_time:
                found = record.answers_between(from_, to, confidence, as_of)
            else:
                found = record.queries(*positions(record.end), confidence, as_of=as_of)
            pairs = zip(found.start.tolist(), found.end.tolist(), strict=True)
            return [f"[{begin}, {end})" for begin, end in pairs], found

        where: dict[str, Any] = {"start": start, "end": end, "from_": from_, "to": to}

        def of_keys() -> AskedByKey:
            from tidegate.cli.asked_by_key import AskedByKey

            if ranges is not None or as_of is not None:
                raise SettingError("ranges", "and --as-of need a file with one stream")
            return AskedByKey(where, key or None, every, confidence, total, as_json)

        if every is not None and as_of is not None:
            raise SettingError("as-of", "cannot be used with --every")
        if ratio is not None:
            from tidegate.cli.printed_ratios_by_key import printed_ratios

            if column is not None:
                raise SettingError("column", "cannot be used with --ratio, which names two columns")
            how: dict[str, Any] = {"format": format, "as_json": as_json}
            how["by_key"] = bool(key or total)
            typer.echo(printed_ratios(released, ratio, sums, of_keys, **how))
            return
        if column is None and (means := open_all_means(released, format)) is not None:
            if isinstance(means, ReleasedMeansByKey):
                from tidegate.cli.printed_means_by_key import printed_means_by_key

                typer.echo(printed_means_by_key(means, of_keys()))
                return
            from tidegate.cli.printed_means import printed_means

            if key or total:
                raise SettingError("key", "this release has no keys: it was made without --by")
            typer.echo(printed_means(means, sums, as_json=as_json))
            return
        try:
            file = open_one_file(file_of_column(released, column), format)
        except SimulationError as rehearsal:
            from tidegate.cli.query_keys_and_simulations import answered_from_simulation

            wanted_or_none = None if by_time else positions
            said = answered_from_simulation(rehearsal, wanted_or_none, confidence, as_json=as_json)
            typer.echo(said)
            return
        if isinstance(file, KeyedFile):
            from tidegate.cli.query_keys_and_simulations import answered_by_key

            typer.echo(answered_by_key(file, of_keys()))
            return
        if key or total:
            raise SettingError("key", "this file has no keys: it was released without --by")
        if every is not None:
            from tidegate.cli.printed_answers import printed_times

            table = file.record.table(every, from_=from_, to=to, confidence=confidence)
            typer.echo(printed_times(table, file, as_json=as_json))
            return
        answers = sums(file.record)[1]
    note = file.note if as_of is None else file.debts
    typer.echo(
        _query_as_json(file, answers, note) if as_json else _query_as_text(file, answers, note)
    )


def query_ranges(start: int | None, end: int | None, ranges: str | None) -> Ranged:
    """The requested ranges: one (by default all released values), or those of a file.

    Gives a function of how many values were released.
    """
    if ranges is None:
        if max(abs(start or 0), abs(end or 0)) >> 62:
            raise QueryError("the range reaches beyond every stream")
        return lambda released: ([start or 0], [released if end is None else end])
    if start is not None:
        raise SettingError("range", "give either START and END or --ranges, not both")
    found = _query_ranges_of(ranges)
    return lambda _: found


def _query_ranges_of(ranges: str) -> tuple[list[int], list[int]]:
    """The ranges from a file, or from standard input."""
    if ranges == "-":
        return _read_query_ranges(sys.stdin, "standard input")
    from tidegate.io.errors import source_error

    try:
        with Path(ranges).open(encoding="utf-8-sig", newline="") as file:
            return _read_query_ranges(file, ranges)
    except OSError as error:
        raise source_error(error, ranges) from None


def _read_query_ranges(lines: Iterable[str], name: str) -> tuple[list[int], list[int]]:
    """The columns start and end. No error quotes the rest of the file."""
    starts, ends, line = [], [], 1
    try:
        rows = csv.reader(lines)
        header = [column.strip().lower() for column in next(rows, [])]
        if not {"start", "end"} <= set(header):
            raise QueryError(f"{name}: its first line must name the columns start and end")
        first, last = header.index("start"), header.index("end")
        for row in rows:
            line = rows.line_num
            if row:
                starts.append(_query_position(row[first]))
                ends.append(_query_position(row[last]))
    except (ValueError, IndexError, csv.Error) as error:  # text that is not UTF-8 is a ValueError
        if isinstance(error, QueryError):
            raise
        raise QueryError(f"{name}, line {line}: not two whole numbers, start and end") from None
    if not starts:
        raise QueryError(f"{name}: there are no ranges in it")
    return starts, ends


def _query_position(text: str) -> int:
    position = int(text)
    if abs(position) >> 62:
        raise ValueError("beyond every stream")
    return position


def _query_as_json(file: ReleasedFile, answers: Answers, note: str) -> str:
    columns = {name: getattr(answers, name).tolist() for name in ("start", "end", *_COLUMNS)}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    found = {**printed_facts(file, answers, note), "answers": rows}
    return json.dumps(found, indent=1, ensure_ascii=False)


def _query_as_text(file: ReleasedFile, answers: Answers, note: str) -> str:
    head = (
        "range",
        "sum",
        f"{plain_percent(answers.confidence)} interval",
        "std. error",
        "noise",
        "prediction",
        "truncation",
    )
    rows = [
        (
            f"[{answer.start}, {answer.end})",
            plain_number(answer.estimate),
            f"{plain_number(answer.low)} to {plain_number(answer.high)}",
            plain_number(answer.standard_error),
            plain_number(answer.noise_error),
            plain_number(answer.prediction_error),
            "not known" if answer.capped else plain_number(answer.truncation_error),
        )
        for answer in map(answers.__getitem__, range(len(answers)))
    ]
    return "\n".join([table(head, rows), "", *printed_remarks(file, answers, note)])
