"""How far sweeps go: through everything at the gate, and far enough elsewhere.

`.ci/run` sets TIDEGATE_THOROUGH, and nothing lands without it. `make test` by hand meets every kind
of fault too, at fewer moments or in fewer ways: it is to be run often (docs/decisions/0101).
"""

import os
from collections.abc import Collection, Iterable
from itertools import count
from typing import TypeVar
from zlib import crc32

import pytest

Amount = TypeVar("Amount")

THOROUGH = bool(os.environ.get("TIDEGATE_THOROUGH"))


def depth(usual: Amount, thorough: Amount) -> Amount:
    """One of both: an amount, a stride, a tuple of ways."""
    return thorough if THOROUGH else usual


def examples(thorough: int) -> int:
    """How many examples hypothesis draws: a quarter of those at the gate, and a few at least."""
    return depth(max(3, thorough // 4), thorough)


def in_turn(
    cases: Iterable[Amount], turn: int, always: Collection[Amount] = (), of: int = 2
) -> list[Amount]:
    """All cases at the gate; elsewhere one of `of`, and those that are always wanted.

    Tests of the same cases take turns (0, 1, … below `of`), so that each case meets some of them.
    """
    return [
        one
        for number, one in enumerate(cases)
        if THOROUGH or number % of == turn % of or one in always
    ]


def turn_of(name: str, of: int) -> int:
    """0, 1, … or `of` - 1: always the same for a name, and mostly another for the next."""
    return crc32(name.encode()) % of


def moments() -> Iterable[int]:
    """0, 1, 2, … at the gate; elsewhere every third, from one on that the name of the test decides.

    The cases of a family go through the same lines: together they meet all of them.
    """
    name = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]  # without its "(call)"
    return depth(count(turn_of(name, 3), 3), count())


# A test whose every kind of fault, format and feature others meet too, in another way.
at_the_gate = pytest.mark.at_the_gate


def left_to_the_gate(items: Iterable[pytest.Item], arguments: Iterable[str]) -> set[pytest.Item]:
    """The tests of that mark by hand, unless a test is asked for by its name."""
    if THOROUGH or any("::" in one for one in arguments):
        return set()
    return {item for item in items if item.get_closest_marker("at_the_gate")}
