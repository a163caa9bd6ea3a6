"""What a ledger refuses: a damaged file, and a charge above the cap."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from tidegate.errors import NAME, RefusedError, shortened
from tidegate.exact_numbers import shown


class LedgerError(RefusedError):
    """A ledger cannot be used: damaged, rolled back, locked, or not a ledger.

    Attributes:
        path: the ledger.
        problem: what is wrong.
        entry: the number of the wrong entry, counted from 1 like lines; None: the whole file.
    """

    def __init__(self, path: Path, problem: str, entry: int | None = None) -> None:
        super().__init__(path, problem, entry)  # all of them, so that it can be pickled
        self.path = path
        self.problem = problem
        self.entry = entry

    def _message(self) -> str:
        place = "" if self.entry is None else f", entry {self.entry}"
        return f"{self.path}{place}: {self.problem}"


class CapExceeded(RefusedError):  # noqa: N818  # what happened, as its callers say it
    """A charge was refused because of the cap. Nothing was written; nothing may be released.

    Attributes:
        source: whose budget it is.
        charged: the ε of the refused charge.
        total: what the source would have spent, at its most expensive position.
        cap: what it may spend.
    """

    def __init__(self, source: str, charged: Fraction, total: Fraction, cap: Fraction) -> None:
        super().__init__(source, charged, total, cap)
        self.source = source
        self.charged = charged
        self.total = total
        self.cap = cap

    def _message(self) -> str:
        return (
            f"{shortened(self.source, NAME)}: with this charge of ε = {shown(self.charged)} the "
            f"total would be {shown(self.total)}, above the cap of {shown(self.cap)}; nothing "
            "was charged, so release nothing. A smaller epsilon or positions that were charged "
            "less may fit; the cap is raised by `tidegate ledger DIR --set-cap X` (Ledger.set_cap)"
        )
