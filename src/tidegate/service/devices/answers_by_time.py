"""Sums, means and population totals of a task by intervals of time, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.clock import SECOND
from tidegate.errors import InputError, QueryError
from tidegate.local.task import RoundCalendar, RoundSums, TaskRound, sums_by_time
from tidegate.record.answer_text import text_of_cautions
from tidegate.record.range_queries_and_answers import Answers
from tidegate.record.times.time_ranges_and_tables import length_of_time
from tidegate.service.devices import stored_tasks
from tidegate.service.devices.device_queue import DeviceQueue
from tidegate.timestamps import read_times

_MOST_ROWS = 100_000
_MOST_POPULATION = 1 << 53


def described_with_answers(queue: DeviceQueue, task_id: str) -> dict[str, Any]:
    """The public facts of a task, and its progress."""
    facts = queue.facts(task_id)
    number = facts.calendar.number(queue.clock())
    with queue.gate.database.reading() as connection:
        rounds = stored_tasks.task_rounds_between(connection, facts.task, number)
    parts = [part for one in rounds for part in one.parts]
    return {
        **facts.plain(),
        "round": f"{task_id}.{number}",
        "closes": facts.calendar.text(facts.calendar.closes(number)),
        "accepted_until": facts.calendar.text(facts.calendar.accepted_until(number)),
        "asked": sum(part.handed for part in parts),
        "reports": sum(one.reports for one in rounds),
    }


def answers_by_time(queue: DeviceQueue, task_id: str, asked: Mapping[str, str]) -> dict[str, Any]:
    """A row for every round of an interval, or for every part of a given length."""
    facts = queue.facts(task_id)
    calendar, step = facts.calendar, facts.topl.lattice.step
    first = _round_at_time(calendar, asked, "from", 0)
    end = _round_at_time(calendar, asked, "to", None)
    if end is not None and end <= first:
        raise QueryError("from must be before to")
    with queue.gate.database.reading() as connection:
        rounds = stored_tasks.task_rounds_between(connection, facts.task, first, end)
    groups = _answer_groups(rounds, calendar, asked, first if "from" in asked else None)
    confidence = _answer_confidence(asked)
    population = _population_answer(asked, facts.population)
    sums = [[RoundSums.of(one, step) for one in group] for _, _, group in groups]
    answers = sums_by_time(sums, confidence)
    totals = None
    if population is not None:
        whole = [[RoundSums.of(one, step, population) for one in group] for _, _, group in groups]
        totals = sums_by_time(whole, confidence)
    rows = []
    for place, (start, stop, _) in enumerate(groups):
        reports = sum(one.reports for one in sums[place])
        devices = sum(one.devices for one in sums[place])
        row: dict[str, Any] = {
            "from": calendar.text(calendar.opens(start)),
            "to": calendar.text(calendar.opens(stop)),
            "devices": devices,
            "reports": reports,
            "sum": _answer_at_time(answers, place) if reports else None,
            "mean": _answer_at_time(answers, place, devices) if reports else None,
        }
        if totals is not None:
            row["population_total"] = _answer_at_time(totals, place) if reports else None
        rows.append(row)
    return {
        "task_id": task_id,
        "rows": rows,
        "confidence": answers.confidence,
        "population": population,
        "threshold": answers.threshold if rows else None,
        "highest": answers.highest if rows else None,
        "floor": answers.floor if rows else None,
        "warnings": text_of_cautions(answers) if rows else [],
        "guarantee": str(facts.topl.guarantee),
    }


def _answer_at_time(answers: Answers, place: int, divisor: int = 1) -> dict[str, float]:
    names = ("estimate", "low", "high", "standard_error")
    return {name: float(getattr(answers, name)[place]) / divisor for name in names}


def _round_at_time(
    calendar: RoundCalendar, asked: Mapping[str, str], name: str, default: int | None
) -> Any:
    """The round that begins at a time: intervals consist of whole rounds, as in DAP."""
    if name not in asked:
        return default
    try:
        second = int(read_times([asked[name]], zone=calendar.zone).ticks[0]) // SECOND
    except InputError:
        raise QueryError(f"{name} must be a time, such as 2026-11-17 or 2026-11-17T12:00") from None
    number = calendar.number(second)
    if calendar.opens(number) != second:
        begins = calendar.text(calendar.opens(number))
        raise QueryError(f"{name} must be the beginning of a round, such as {begins}")
    return number


def _answer_groups(
    rounds: list[TaskRound], calendar: RoundCalendar, asked: Mapping[str, str], first: int | None
) -> list[tuple[int, int, list[TaskRound]]]:
    """The first and last round of each row, and those between; rows without rounds are left out."""
    size = 1
    if "every" in asked:
        size, rest = divmod(length_of_time(asked["every"]) // SECOND, calendar.length)
        if rest or not size:
            raise QueryError(f"every must be a multiple of the rounds' {calendar.every}")
    by_row: dict[int, list[TaskRound]] = {}
    origin = rounds[0].number if first is None and rounds else first or 0
    for one in rounds:
        by_row.setdefault((one.number - origin) // size, []).append(one)
    if len(by_row) > _MOST_ROWS:
        raise QueryError(f"that is more than {_MOST_ROWS:,} rows: ask for less at a time")
    return [(origin + row * size, origin + (row + 1) * size, some) for row, some in by_row.items()]


def _answer_confidence(asked: Mapping[str, str]) -> float:
    try:
        return float(asked.get("confidence", "0.95"))
    except ValueError:
        raise QueryError("confidence must be a number between 0 and 1") from None


def _population_answer(asked: Mapping[str, str], default: int | None) -> int | None:
    text = asked.get("population")
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:18]) <= _MOST_POPULATION:
        raise QueryError("population must be a whole number of devices")
    return int(text[:18])
