"""Notes below answers from a released file: the same lines under every table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.keyed.released_file import KeyedFile
    from tidegate.record.answers import Answers
    from tidegate.released import ReleasedFile

_MORE = "Use more epsilon, or more values."


def remarks(file: ReleasedFile | KeyedFile, answers: Answers, note: str) -> list[str]:
    """Where values were cut, the guarantee, warnings, and notes."""
    speaks = " These are sums of capped values." if answers.capped else ""
    first = f"{_cut(file, answers)}{speaks} {file.guarantee}."
    from tidegate.record.answer_text import open_ends  # on demand: `--help` needs no numbers

    return [
        first,
        *warned(answers),
        *filter(
            None,
            (open_ends(answers), answers.note, getattr(file, "shared", ""), file.unfinished, note),
        ),
    ]


def warned(answers: Answers) -> list[str]:
    """Warnings about the answers alone."""
    from tidegate.record.answer_text import cautions  # on demand: `--help` needs no numbers

    return [f"{line} {_MORE}" if line.startswith("Warning") else line for line in cautions(answers)]


def facts(file: ReleasedFile | KeyedFile, answers: Answers, note: str) -> dict[str, Any]:
    """The same for programs."""
    return {
        "file": str(file.path),
        "guarantee": file.guarantee,
        "confidence": answers.confidence,
        "threshold": answers.threshold,
        "floor": answers.floor,
        "capped": answers.capped,
        "complete": not file.unfinished,
        "warnings": warned(answers),
        "note": " ".join(filter(None, (answers.note, note))),
    }


def _cut(file: ReleasedFile | KeyedFile, answers: Answers) -> str:
    """Where values, or the values of events, were cut."""
    pipeline = file.pipeline
    if pipeline.ticks is None:
        return capped(answers)
    ends = f"{answers.threshold:g}"
    if answers.highest != answers.threshold:
        ends = f"between {ends} and {answers.highest:g}"
    below = "below 0 as well" if pipeline.lattice.bottom else "and below 0 as 0"
    return f"The value of an event was capped at {ends}, {below}."


def capped(answers: Answers) -> str:
    """Where values were cut, at both ends."""
    if answers.lowest_floor:
        ends = (answers.lowest_floor, answers.floor), (answers.threshold, answers.highest)
        low, high = (f"{a:g}" if a == b else f"{a:g} to {b:g}" for a, b in ends)
        return f"Values were capped to [{low}, {high}]."
    if answers.highest == answers.threshold:
        return f"Values were capped at {answers.threshold:g}; values below 0 counted as 0."
    caps = f"between {answers.threshold:g} and {answers.highest:g}"
    return f"Values were capped; the cap moved {caps}. Values below 0 counted as 0."
