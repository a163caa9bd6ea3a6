"""Ratios of two released columns: text for people, or JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tidegate.cli.remarks import warned
from tidegate.cli.tables import percent, table
from tidegate.errors import QueryError, SettingError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tidegate.record.answers import Answers
    from tidegate.released import ReleasedFile


def printed(
    released: Path,
    wanted: str,
    ask: Callable[[ReleasedFile], tuple[list[str], Answers]],
    format: str | None,  # noqa: A002  # as in open_source
    *,
    as_json: bool,
) -> str:
    """The ratios over the ranges that `ask` asks each column for, with their names."""
    from tidegate.record.ratio import ratio
    from tidegate.released.released_columns import open_columns
    from tidegate.released.released_file import ReleasedFile

    above, sign, below = wanted.partition("/")
    if not (above and sign and below):
        raise SettingError("ratio", "must name two columns: tip/fare")
    columns = open_columns(released, [above, below], format)
    files = [one for one in (columns[above], columns[below]) if isinstance(one, ReleasedFile)]
    (names, tops), (_, bottoms) = (ask(file) for file in files)
    rows: list[dict[str, Any]] = []
    for at, name in enumerate(names):
        row: dict[str, Any] = {"range": name, above: tops.estimate[at], below: bottoms.estimate[at]}
        try:
            found = ratio(tops[at], bottoms[at])
            row |= {"ratio": found.estimate, "low": found.low, "high": found.high}
        except QueryError as error:
            if len(names) == 1:
                raise
            row |= {"ratio": None, "low": None, "high": None, "problem": str(error)}
        rows.append(row)
    said = [
        f"{one}: {line}" for one, sums in ((above, tops), (below, bottoms)) for line in warned(sums)
    ]
    notes = list(
        dict.fromkeys(filter(None, (tops.note, bottoms.note, *(f.unfinished for f in files))))
    )
    capped = tops.capped or bottoms.capped
    if as_json:
        facts = {"guarantee": columns.guarantee, "confidence": tops.confidence, "capped": capped}
        return json.dumps(
            {**facts, "warnings": said, "note": " ".join(notes), "ratios": rows},
            indent=1,
            ensure_ascii=False,
        )
    head = ("range", above, below, f"{above}/{below}", f"{percent(tops.confidence)} interval")
    cells = [
        (
            row["range"],
            *(f"{row[name]:,.0f}" for name in (above, below)),
            *(
                ("not known", "")
                if row["ratio"] is None
                else (f"{row['ratio']:.5g}", f"{row['low']:.5g} to {row['high']:.5g}")
            ),
        )
        for row in rows
    ]
    speaks = "These are ratios of sums of capped values. " if capped else ""
    promise = f"{speaks}{columns.guarantee}, all columns together."
    return "\n".join([table(head, cells), "", promise, *said, *notes])
