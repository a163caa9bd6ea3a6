"""Answers from a file of `tidegate local simulate`, marked as a simulation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tidegate.cli.answer_tables import capped, warned
from tidegate.errors import SettingError
from tidegate.io import SourceError
from tidegate.tables.plain_text import percent, shown, table

if TYPE_CHECKING:
    from tidegate.cli.query import Ranged
    from tidegate.released.released_file import SimulationError

_WHAT = "A rehearsal: one process played all devices. Devices would be promised: {}."


def answered(
    error: SimulationError,
    positions: Ranged | None,
    confidence: float,
    *,
    as_json: bool,
) -> str:
    """The sums over ranges of positions, with the intervals that the local model would give."""
    from tidegate.local.range_sums import CollectedSums

    if positions is None:
        raise SettingError("from", "is for files with times: ask a rehearsal by position")
    facts = error.metadata
    try:
        collected = CollectedSums.from_plain(facts["collected"])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise SourceError(
            None, "its record is damaged, or of an older version", str(error.filename)
        ) from None
    answers = collected.queries(*positions(collected.count), confidence)
    said = _WHAT.format(facts.get("would_promise", "not known"))
    names = ("start", "end", "estimate", "low", "high", "standard_error")
    columns = {name: getattr(answers, name).tolist() for name in names}
    rows: list[dict[str, Any]] = [
        dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
    ]
    if as_json:
        plain = {"simulation": True, "note": said, "confidence": answers.confidence}
        plain |= {"warnings": warned(answers), "answers": rows}
        return json.dumps(plain, indent=1, ensure_ascii=False)
    head = ("range", "sum", f"{percent(answers.confidence)} interval", "std. error")
    cells = [
        (
            f"[{row['start']}, {row['end']})",
            shown(row["estimate"]),
            f"{shown(row['low'])} to {shown(row['high'])}",
            shown(row["standard_error"]),
        )
        for row in rows
    ]
    return "\n".join([table(head, cells), "", capped(answers), *warned(answers), said])
