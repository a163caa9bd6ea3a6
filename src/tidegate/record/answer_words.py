"""Answers for people: a sentence, and what a notebook shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.tables import html, text

if TYPE_CHECKING:
    from tidegate.record.answer import Answer
    from tidegate.record.answers import Answers

SHOWN = 10  # rows of a table in a notebook
_EVEN = 1.05  # how much further an interval may reach to one side and still be written as ±
CUT = "values lie close to it: if most are cut, the true sum is larger"
CUT_BELOW = "values lie close to the lower end: if most are cut, the true sum is smaller"
CUT_ABOVE = "values lie close to the upper end: if most are cut, the true sum is larger"


def sentence(answer: Answer) -> str:
    """What the answer speaks of, the sum, its interval, and where values were cut."""
    what = "sum of capped values" if answer.capped else "sum"
    below, above = answer.estimate - answer.low, answer.high - answer.estimate
    sure = f"{answer.confidence:.0%}"
    error = f"± {above:.3g} ({sure})"
    if max(below, above) > _EVEN * min(below, above):
        error = f"({sure}: {answer.low:.6g} to {answer.high:.6g})"
    warning = f" ({answer.warning})" if answer.warning else ""
    return (
        f"{what} over [{answer.start}, {answer.end}): {answer.estimate:.6g} {error}, "
        f"values were {answer.cut}{warning}"
    )


def cut(answer: Answer) -> str:
    """Where values were cut."""
    if not answer.floor:
        return f"capped at {moved(answer.threshold, answer.highest)}"
    lower = moved(answer.floor, answer.lowest_floor)
    return f"capped to [{lower}, {moved(answer.threshold, answer.highest)}]"


def moved(lowest: float, highest: float | None) -> str:
    """One level, or from where to where it moved."""
    if highest is None or highest == lowest:
        return f"{lowest:g}"
    return f"{lowest:g} to {highest:g}"


def facts(answer: Answer) -> str:
    """One answer in a notebook."""
    return html.facts(
        f"{answer.estimate:.6g}",
        [
            ("range", f"[{answer.start:,}, {answer.end:,})"),
            (f"{answer.confidence:.0%} interval", f"{answer.low:.6g} to {answer.high:.6g}"),
            ("sum of", f"values {answer.cut}" if answer.capped else "all values"),
            *([] if answer.capped else [("values were", answer.cut)]),
            *([("warning", answer.warning)] if answer.warning else []),
        ],
    )


def numbers(answer: Answer) -> tuple[float, float, float]:
    """Estimate and interval."""
    return answer.estimate, answer.low, answer.high


def rows(answers: Answers) -> str:
    """Many answers in a notebook."""
    head, cells = _cells(answers)
    ends = (f"{answers.start.min():,}", f"{answers.end.max():,}") if len(answers) else ("", "")
    more = len(answers) > SHOWN
    about = _about(answers)
    picture = html.band(answers.estimate, answers.low, answers.high, ends, about) if more else ""
    return f"<div><strong>{about}</strong>{picture}{html.table(head, cells)}</div>"


def lines(answers: Answers) -> str:
    """Many answers as plain text."""
    return f"{_about(answers)}\n{text.table(*_cells(answers))}"


def _about(answers: Answers) -> str:
    return f"{len(answers):,} sums with {answers.confidence:.0%} intervals"


def _cells(answers: Answers) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The head and the first rows of a table."""
    shown = [answers[at] for at in range(min(len(answers), SHOWN))]
    cells = [
        (f"[{one.start:,}, {one.end:,})", *(f"{number:.6g}" for number in numbers(one)))
        for one in shown
    ]
    more = len(answers) - len(shown)
    if more:
        cells.append(("…", f"{more:,} more", "", ""))
    return ("range", "sum", "low", "high"), cells
