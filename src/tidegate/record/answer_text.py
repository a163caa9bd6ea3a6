"""Answers for people: sentences, and HTML for notebooks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tidegate.tables import html, plain_text

if TYPE_CHECKING:
    from tidegate.record.answer import Answer
    from tidegate.record.range_queries_and_answers import Answers

SHOWN = 10  # rows of a table in a notebook
_EVEN = 1.05  # how much further an interval may reach to one side and still be written as ±
CROWDED = 0.8  # share of the threshold above which the mean of uncut values seldom lies
CUT = "most values lie close to the cap: if many were cut there, the true sum is larger"
CUT_BELOW = "most values lie close to the lower cap: if many were cut, the true sum is smaller"
CUT_ABOVE = "most values lie close to the upper cap: if many were cut, the true sum is larger"
OPEN = "; too few values chose that to see larger ones, so the upper end is far"
FAR = "; that lies far below the bound, and the upper end assumes an ordinary tail above it"
_FAR = 100  # a limit is mentioned if it is this many times the upper end
MUCH = 0.25  # share of the estimate that may be unseen before the upper end is called open


def sentence(answer: Answer) -> str:
    """The range, the sum, its interval, and where values were capped."""
    what = "sum of capped values" if answer.capped else "sum"
    below, above = answer.estimate - answer.low, answer.high - answer.estimate
    sure = f"{answer.confidence:.0%}"
    error = f"± {above:.3g} ({sure})"
    if max(below, above) > _EVEN * min(below, above):
        error = f"({sure}: {six_digit_text(answer.low)} to {six_digit_text(answer.high)})"
    warning = f" ({answer.warning})" if answer.warning else ""
    beyond = "" if answer.capped else answer.beyond_bound.rstrip(".")
    return (
        f"{what} {text_of_range(answer)}: {six_digit_text(answer.estimate)} {error}, "
        f"values were {answer.cut}{text_of_open_end(answer)}{warning}"
        f"{f'. {beyond}' if beyond else ''}"
        f"{f'. {answer.note}' if answer.note else ''}"
    )


def text_of_open_end(answer: Answer) -> str:
    """A note about the upper end, where it matters."""
    if answer.blind:
        return OPEN
    far = answer.limit is not None and answer.limit > _FAR * abs(answer.high)
    return FAR if far else ""


def assumption(answer: Answer) -> str:
    """The assumption behind the upper end; empty if there is none."""
    limit = answer.limit
    if limit is None or limit <= answer.high:
        return ""
    known = (
        "nothing released limits it"
        if math.isinf(limit)
        else f"it is at most {six_digit_text(limit)}"
    )
    return (
        "The upper end assumes an ordinary tail above the cap, as no released number shows how far "
        f"values exceed it. Whatever the tail, {known}."
    )


def text_of_range(answer: Answer) -> str:
    """The range in the form of the query: by time, or by position."""
    return f"from {answer.span}" if answer.span else f"over [{answer.start}, {answer.end})"


def six_digit_text(number: float) -> str:
    """Six digits, or all digits before the point: no exponent where people expect none.

    >>> six_digit_text(28502.7431), six_digit_text(63_057_600.4), six_digit_text(0.00012345678)
    ('28502.7', '63,057,600', '0.000123457')
    """
    return f"{number:,.0f}" if 1e6 <= abs(number) < 1e15 else f"{number:.6g}"


def cut_sentence(answer: Answer) -> str:
    """The caps of values, as a sentence."""
    if not answer.floor:
        # In sums of events there is no level at which all are cut; events may count below 0.
        below = "" if answer.full == math.inf else ", and below 0 at 0"
        return f"capped at {text_of_moved_level(answer.threshold, answer.highest)}{below}"
    # Lowest first, as for the other end: `floor` is the one closest to 0.
    lower = text_of_moved_level(
        answer.floor if answer.lowest_floor is None else answer.lowest_floor, answer.floor
    )
    return f"capped to [{lower}, {text_of_moved_level(answer.threshold, answer.highest)}]"


def text_of_moved_level(lowest: float, highest: float | None) -> str:
    """One cap, or the lowest and the highest if it moved."""
    if highest is None or highest == lowest:
        return f"{lowest:g}"
    return f"{lowest:g} to {highest:g}"


def answer_as_html(answer: Answer) -> str:
    """One answer for a notebook."""
    beyond = "" if answer.capped else answer.beyond_bound
    return html.facts(
        f"{six_digit_text(answer.estimate)}",
        [
            *([("time", answer.span)] if answer.span else []),
            ("range", f"[{answer.start:,}, {answer.end:,})"),
            (
                f"{answer.confidence:.0%} interval",
                f"{six_digit_text(answer.low)} to {six_digit_text(answer.high)}",
            ),
            ("sum of", f"values {answer.cut}" if answer.capped else "all values"),
            *([("but", beyond)] if beyond else []),
            *([] if answer.capped else [("values were", answer.cut)]),
            *([("assumes", answer.assumption)] if answer.assumption else []),
            *([("warning", answer.warning)] if answer.warning else []),
            *([("note", answer.note)] if answer.note else []),
        ],
    )


def text_of_numbers(answer: Answer) -> tuple[float, float, float]:
    """Estimate and interval."""
    return answer.estimate, answer.low, answer.high


def answers_as_html(answers: Answers) -> str:
    """Many answers for a notebook."""
    head, cells = _cells_of_text(answers)
    ends = (f"{answers.start.min():,}", f"{answers.end.max():,}") if len(answers) else ("", "")
    more = len(answers) > SHOWN
    about = _text_about(answers)
    picture = html.band(answers.estimate, answers.low, answers.high, ends, about) if more else ""
    said = html.lines([*text_of_cautions(answers), *_remarks_as_text(answers)])
    return f"<div><strong>{about}</strong>{picture}{html.table(head, cells)}{said}</div>"


def answers_as_text(answers: Answers) -> str:
    """Many answers as a plain-text table."""
    said = filter(None, (*text_of_cautions(answers), *_remarks_as_text(answers)))
    return "\n".join([_text_about(answers), plain_text.table(*_cells_of_text(answers)), *said])


def _remarks_as_text(answers: Answers) -> tuple[str, ...]:
    beyond = "" if answers.capped else answers.beyond_bound
    return text_of_open_ends(answers), beyond, answers.note


def _text_about(answers: Answers) -> str:
    return f"{len(answers):,} sums with {answers.confidence:.0%} intervals"


def _cells_of_text(answers: Answers) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The header and the first rows of a table."""
    shown = [answers[at] for at in range(min(len(answers), SHOWN))]
    cells = [
        (f"[{one.start:,}, {one.end:,})", *map(six_digit_text, text_of_numbers(one)))
        for one in shown
    ]
    more = len(answers) - len(shown)
    if more:
        cells.append(("…", f"{more:,} more", "", ""))
    return ("range", "sum", "low", "high"), cells


def text_with_notes(answers: Answers, *notes: str) -> Answers:
    """Answers followed by their notes, if there are any."""
    said = " ".join(filter(None, (answers.note, *notes)))
    return answers if said == answers.note else replace(answers, note=said)


def warnings(answers: Answers) -> dict[str, int]:
    """The distinct warnings of many answers, each with the number of its answers."""
    size = answers.end - answers.start
    full, empty, floor = answers.threshold * size, np.zeros(size.size), np.zeros(size.size)
    if answers.caps is not None:
        full, empty, floor = (answers.caps[:, at] for at in (2, 5, 3))
    above = (answers.estimate > CROWDED * full) & (full > 0)
    below = (answers.estimate < CROWDED * empty) & (empty < 0) & ~above
    found = {
        CUT: int((above & (floor == 0)).sum()),
        CUT_ABOVE: int((above & (floor != 0)).sum()),
        CUT_BELOW: int(below.sum()),
    }
    return {warning: count for warning, count in found.items() if count}


def text_of_open_ends(answers: Answers) -> str:
    """Why upper ends are far away. Not a warning: these intervals hold."""
    count = int(answers.blind.sum())
    if not count:
        return ""
    where = f" ({count:,} of {len(answers):,} ranges)" if len(answers) > 1 else ""
    return f"Too few values chose the cap to see larger ones, so upper ends are far{where}."


def text_of_far_limits(answers: Answers) -> str:
    """What upper ends assume, and by how much sums may exceed them, where the bound is far."""
    if answers.limit is None:
        return ""
    far = ~answers.blind & (answers.limit > _FAR * np.abs(answers.high))
    if not far.any():
        return ""
    times = float(np.median(answers.limit[far] / np.maximum(np.abs(answers.high[far]), 1e-300)))
    more = "without limit" if math.isinf(times) else f"up to {times:,.0f} times"
    return (
        "Upper ends assume an ordinary tail above the cap: nothing released excludes "
        f"sums {more} beyond them. A smaller bound gives shorter intervals."
    )


def text_of_cautions(answers: Answers) -> list[str]:
    """Warnings about answers, as whole sentences."""
    found = []
    for warning, count in answers.warnings.items():
        where = f" ({count:,} of {len(answers):,} ranges)" if len(answers) > 1 else ""
        found.append(f"Warning{where}: {warning}.")
    return found


def beyond_bound(answers: Answer | Answers) -> str:
    """A note where the cap has reached a bound: intervals ignore what lies beyond it."""
    bound, lower = answers.bound, answers.lower
    if bound is None or (bound == 1 and _answer_counts_events(answers)):
        return ""
    ends = []
    highest = answers.threshold if answers.highest is None else answers.highest
    if highest >= bound:
        ends.append(f"above the bound ({bound:g})")
    lowest = answers.floor if answers.lowest_floor is None else answers.lowest_floor
    if lower and lowest <= lower:
        ends.append(f"below the lower bound ({lower:g})")
    if not ends:
        return ""
    return f"Values {' or '.join(ends)} count as that bound; intervals do not cover what this cuts."


def _answer_counts_events(answers: Answer | Answers) -> bool:
    """Whether the rows are ticks of events: then no cap applies to a whole row."""
    caps, full = getattr(answers, "caps", None), getattr(answers, "full", None)
    return full == math.inf or (caps is not None and bool(np.isinf(caps[:, 2]).any()))
