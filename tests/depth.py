"""How far sweeps go: through everything at the gate, and far enough elsewhere.

`.ci/run` sets TIDEGATE_THOROUGH, and nothing lands without it. `make test` by hand meets every kind
of fault too, at fewer moments or in fewer ways: it is to be run often.
"""

import os
from collections.abc import Collection, Iterable
from typing import TypeVar

Amount = TypeVar("Amount")

THOROUGH = bool(os.environ.get("TIDEGATE_THOROUGH"))


def depth(usual: Amount, thorough: Amount) -> Amount:
    """One of both: an amount, a stride, a tuple of ways."""
    return thorough if THOROUGH else usual


def examples(thorough: int) -> int:
    """How many examples hypothesis draws: two fifths of those at the gate, and a few at least."""
    return depth(max(3, 2 * thorough // 5), thorough)


def in_turn(cases: Iterable[Amount], turn: int, always: Collection[Amount] = ()) -> list[Amount]:
    """All cases at the gate; elsewhere every other one, and those that are always wanted.

    Tests of the same cases take turns (0 or 1), so that each case meets half of them.
    """
    return [
        one
        for number, one in enumerate(cases)
        if THOROUGH or number % 2 == turn % 2 or one in always
    ]
