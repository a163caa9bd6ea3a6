"""The report of a ledger: charges, cost of each range, totals; as plain data and as text."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tidegate.errors import SettingError
from tidegate.exact_numbers import shown
from tidegate.tables.plain_text import table

if TYPE_CHECKING:
    from tidegate.guarantee import Guarantee
    from tidegate.ledger.composition import ChargedRange
    from tidegate.ledger.ledger import Ledger

_EPOCH_SHOWN = 8


def ledger_report(
    book: Ledger, sources: list[str], cap: Fraction | None, *, assumed: bool = False
) -> dict[str, Any]:
    """What these sources were charged, as plain data; exact numbers as text."""
    return {
        "entries": book.count,
        "head": book.head,
        "unfinished_bytes": book.torn,
        "cap": None if cap is None else str(cap),
        "cap_assumed": assumed,
        "charges": [
            {
                "sequence": charge.sequence,
                "time": charge.time.isoformat(),
                "source": charge.source,
                "stage": charge.stage,
                "start": charge.start,
                "end": charge.end,
                **_reported_cost(charge.guarantee),
                "epoch": charge.epoch,
                "note": charge.note,
            }
            for charge in book.charges()
            if charge.source in sources
        ],
        "sources": [
            {
                "source": source,
                "disjoint": source in book.disjoint,
                "ranges": [_reported_range_facts(part) for part in book.ranges(source)],
                "total": _reported_cost(book.total(source)),
                "left": None if cap is None else str(cap - Fraction(book.total(source).epsilon)),
            }
            for source in sources
        ],
        "total": _reported_overall(book) if sources == book.sources else None,
    }


def _reported_range_facts(part: ChargedRange) -> dict[str, Any]:
    return {
        "start": part.start,
        "end": part.end,
        **_reported_cost(part.total),
        "charges": [
            {"sequence": charge.sequence, "stage": charge.stage, "epsilon": str(charge.epsilon)}
            for charge in part.charges
        ],
    }


def _reported_cost(guarantee: Guarantee) -> dict[str, str]:
    return {
        "epsilon": str(guarantee.epsilon),
        "delta": str(guarantee.delta),
        "unit": guarantee.unit,
    }


def _reported_overall(book: Ledger) -> dict[str, str] | None:
    """The total over all sources. None: they cannot be added."""
    try:
        return _reported_cost(book.total())
    except SettingError:  # other units or models
        return None


# -- as text ------------------------------------------------------------------------------------


def report_as_text(report: dict[str, Any]) -> str:
    """The charges, the cost of each range, and totals, as tables."""
    if not report["charges"]:
        parts = ["Nothing was charged yet."]
    else:
        parts = [_reported_charges(report), _reported_ranges(report), _reported_totals(report)]
    if report["unfinished_bytes"]:
        parts.append(
            f"The last {report['unfinished_bytes']} bytes are an unfinished entry: it is being "
            "written, or was cut short. Nothing was released under it."
        )
    return "\n\n".join(parts)


def _reported_charges(report: dict[str, Any]) -> str:
    rows = [
        (
            charge["time"][:19].replace("T", " "),
            charge["source"],
            charge["stage"],
            _reported_span(charge),
            _ledger_number(charge["epsilon"]),
            _ledger_number(charge["delta"]),
            charge["epoch"][:_EPOCH_SHOWN],
        )
        for charge in report["charges"]
    ]
    return table(("when (UTC)", "source", "stage", "positions", "ε", "δ", "epoch"), rows, left=4)


def _reported_ranges(report: dict[str, Any]) -> str:
    """The cost of each range: the sum of the charges on it."""
    rows = [
        (
            item["source"],
            _reported_span(part),
            " + ".join(
                f"{charge['stage']} {_ledger_number(charge['epsilon'])}"
                for charge in part["charges"]
            ),
            _ledger_number(part["epsilon"]),
            _ledger_number(part["delta"]),
        )
        for item in report["sources"]
        for part in item["ranges"]
    ]
    return table(("source", "positions", "charged per value", "ε", "δ"), rows, left=3)


def _reported_totals(report: dict[str, Any]) -> str:
    """The highest cost at any position of a source."""
    cap = report["cap"]
    name = "no cap" if cap is None else f"left of {_ledger_number(cap)}"
    rows = [
        (
            item["source"] + (" (disjoint)" if item["disjoint"] else ""),
            _ledger_number(item["total"]["epsilon"]),
            _ledger_number(item["total"]["delta"]),
            f"per {item['total']['unit']}",
            "" if item["left"] is None else _reported_left(item["left"]),
        )
        for item in report["sources"]
    ]
    overall = report["total"]
    if len(rows) > 1 and overall is None:
        rows.append(("all sources", "—", "—", "units or models differ: no total", ""))
    elif len(rows) > 1:
        numbers = _ledger_number(overall["epsilon"]), _ledger_number(overall["delta"])
        rows.append(("all sources", *numbers, f"per {overall['unit']}", ""))
    text = table(("the most any value has spent", "ε", "δ", "", name), rows)
    if report["cap_assumed"]:
        text += "\n(This cap is an assumption; --set-cap stores it.)"
    return text


def _reported_left(left: str) -> str:
    return f"over by {_ledger_number(left[1:])}" if left.startswith("-") else _ledger_number(left)


def _ledger_number(text: str) -> str:
    return shown(Fraction(text))


def _reported_span(part: dict[str, Any]) -> str:
    end = "…" if part["end"] is None else part["end"]
    return f"[{part['start']}, {end})"
