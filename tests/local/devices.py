"""Devices and announcements for tests of what a device remembers."""

from fractions import Fraction
from pathlib import Path
from typing import Any

from tidegate.local.announcements_and_reports import Announcement, Report
from tidegate.local.client import Client
from tidegate.local.device_memory import Memory
from tidegate.local.integer_weights import coin_weights
from tidegate.local.questions import ValueQuestion

ONE = Fraction(1)


def reply(asked: Announcement, client: str, report: int = 0) -> Report:
    """What a client that answered like this sends."""
    same = {name: getattr(asked, name) for name in ("round", "phase", "slot", "epsilon")}
    return Report(**same, client=client, report=report)


def coin(threshold: int = 100, epsilon: Fraction = ONE) -> ValueQuestion:
    """Stochastic rounding at exactly ε: two reports, so that two draws often differ."""
    lie, truth = coin_weights(epsilon)
    return ValueQuestion.fitted(threshold, [[truth, lie], [lie, truth]], [-1.0, 1.0])


def wide(columns: int = 64) -> ValueQuestion:
    """A question with so many reports that two draws hardly ever agree."""
    weight = (1 << 32) // columns
    rows = [[weight] * columns, [weight] * columns]
    for column in range(columns // 2):  # the second row leans to the right, hardly
        rows[0][column] += 1
        rows[0][-1 - column] -= 1
        rows[1][column] -= 1
        rows[1][-1 - column] += 1
    return ValueQuestion.fitted(100, rows, [2 * c / (columns - 1) - 1 for c in range(columns)])


QUESTION = wide()


def asked(name: str = "r1", question: Any = QUESTION, **changed: Any) -> Announcement:
    fields: dict[str, Any] = {
        "round": name,
        "phase": "stream",
        "epsilon": ONE,
        "bound": Fraction(100),
        "resolution": ONE,
        "slot": 0,
        "question": question,
    }
    return Announcement(**{**fields, **changed})


def device(memory: Memory | str | Path, **changed: Any) -> Client:
    return Client(**{"epsilon": 1, "bound": 100, "lifetime": 50, "memory": memory, **changed})
