"""Totals of ledger entries, without files; and entries without a cost: caps, notes."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from tidegate.errors import NAME, SettingError, shortened
from tidegate.exact_numbers import Number, positive
from tidegate.guarantee import OF_USERS, Guarantee
from tidegate.ledger import composition
from tidegate.ledger.entries import (
    CapChange,
    Charge,
    Closing,
    Declaration,
    Entry,
    chargeable,
    check_entry_text,
)
from tidegate.ledger.errors import CapExceeded


class Account:
    """The entries of a ledger, with totals by source and what is left of caps."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._charges: dict[str, dict[int, Charge]] = {}  # as they stand, by source and number
        self._disjoint: set[str] = set()
        self._cap: Fraction | None = None
        self._caps: dict[str, Fraction] = {}  # of single sources
        self._spent: dict[str, Fraction] = {}  # remembered sums, touched by writers only

    @property
    def entries(self) -> list[Entry]:
        """All entries in order; the first is the `Opening`."""
        return list(self._entries)

    @property
    def count(self) -> int:
        """The number of entries. With `head` it makes an anchor to store elsewhere."""
        return len(self._entries)

    @property
    def cap(self) -> Fraction | None:
        """How much ε any source may spend, unless it has its own cap. None: no limit."""
        return self._cap

    @property
    def caps(self) -> dict[str, Fraction]:
        """Sources with their own caps."""
        return dict(self._caps)

    def cap_of(self, source: str) -> Fraction | None:
        """How much ε this source may spend. None: no limit."""
        return self._caps.get(source, self._cap)

    @property
    def sources(self) -> list[str]:
        """The charged sources, in order of their first charge."""
        return list(self._charges)

    @property
    def disjoint(self) -> frozenset[str]:
        """Sources that were declared to share no value with any other."""
        return frozenset(self._disjoint)

    def charges(self, source: str | None = None) -> list[Charge]:
        """Charges in order; a charge that was closed has its end."""
        if source is not None:
            return list(self._charges.get(source, {}).values())
        every = [charge for name in self.sources for charge in self.charges(name)]
        return sorted(every, key=lambda charge: charge.sequence)

    def ranges(self, source: str) -> list[composition.ChargedRange]:
        """The charged positions, divided into ranges with the same charges."""
        return composition.composed_ranges(self.charges(source))

    def total(self, source: str | None = None) -> Guarantee:
        """The total charged to a source. None: to all, added up unless declared disjoint."""
        if source is not None:
            return composition.total_by_composition(self.charges(source))
        return composition.total_of_sources(
            [self.total(name) for name in self.sources if name not in self._disjoint],
            [self.total(name) for name in self.sources if name in self._disjoint],
        )

    def left(self, source: str) -> Fraction | None:
        """The rest of a source's cap at its most charged position; may be negative."""
        cap = self.cap_of(source)
        return None if cap is None else cap - composition.spent(self.charges(source))

    # -- for writers -----------------------------------------------------------------------------

    def _take(self, entry: Entry) -> None:
        """Apply an entry."""
        if isinstance(entry, Charge):
            self._charges.setdefault(entry.source, {})[entry.sequence] = entry
            self._spent.pop(entry.source, None)
        elif isinstance(entry, Closing):
            charge = self._entries[entry.charge - 1]
            if not isinstance(charge, Charge) or entry.end < charge.start:
                raise ValueError("only charges are closed, after their start")
            if self._charges[charge.source][charge.sequence].end is not None:
                raise ValueError("a charge that has an end keeps it")
            self._charges[charge.source][charge.sequence] = replace(charge, end=entry.end)
            self._spent.pop(charge.source, None)
        elif isinstance(entry, CapChange):
            if entry.source is None:
                self._cap = entry.epsilon
            else:
                self._caps[entry.source] = entry.epsilon
        elif isinstance(entry, Declaration):
            (self._disjoint.add if entry.disjoint else self._disjoint.discard)(entry.source)
        self._entries.append(entry)

    def _check_composes(self, source: str, guarantee: Guarantee, part: str) -> None:
        if part and guarantee.unit.startswith(OF_USERS):
            raise SettingError(
                "part",
                f"must be left out where a {guarantee.unit} is protected: parts share no value, "
                "but a user may have values in several, and spends what all of them cost",
            )
        charges = self._charges.get(source, {}).values()
        before = next((charge.guarantee for charge in charges), guarantee)
        if (before.unit, before.model) != (guarantee.unit, guarantee.model):
            raise SettingError(
                "guarantee",
                f"{shortened(source, NAME)} is charged per {before.unit} in the {before.model} "
                f"model; a charge per {guarantee.unit} in the {guarantee.model} model cannot be "
                "added to that. Protect the same unit, or name another source and add both up "
                "yourself",
            )

    def _spent_with(
        self, source: str, part: str, start: int, end: int | None, epsilon: Fraction
    ) -> Fraction:
        """The source's total with a new charge, which can only raise the sum where it applies."""
        new = composition.ComposedAmount(part, start, end, epsilon)
        meeting = [
            composition.ComposedAmount(one.part, max(start, one.start), one.end, one.epsilon)
            for one in self._charges.get(source, {}).values()
            if (end is None or one.start < end) and (one.end is None or start < one.end)
        ]
        return max(self._spent_by(source), composition.most_spent([*meeting, new]))

    def _check_cap(
        self, source: str, charges: Sequence[tuple[int, int | None, Guarantee]], part: str
    ) -> None:
        """Refuse what a ledger would refuse of these (start, end, guarantee)."""
        cap, amounts = self.cap_of(source), composition.amounts_of(self.charges(source))
        for start, end, guarantee in charges:
            exact = chargeable(guarantee)
            self._check_composes(source, exact, part)
            epsilon = Fraction(exact.epsilon)
            amounts.append(composition.ComposedAmount(part, start, end, epsilon))
            if cap is not None and (total := composition.most_spent(amounts)) > cap:
                raise CapExceeded(source, epsilon, total, cap)

    def _spent_by(self, source: str) -> Fraction:
        if source not in self._spent:
            self._spent[source] = composition.spent(self.charges(source))
        return self._spent[source]


class WritableAccount(Account, ABC):
    """An account that can be written to."""

    def __init__(self) -> None:
        super().__init__()
        self._writing = threading.Lock()  # from the check of a charge until it is written

    @abstractmethod
    def _append(self, kind: str, facts: Mapping[str, Any], note: str) -> Entry:
        """Append an entry, durably."""

    def set_cap(self, epsilon: Number, note: str = "", *, source: str | None = None) -> None:
        """Change how much ε any source, or `source` alone, may spend from now on.

        A source that has spent more already is refused every further charge.
        """
        wanted = positive("cap", epsilon)
        if source is not None:
            check_entry_text("source", source)
        named = {} if source is None else {"source": source}
        with self._writing:
            self._append("cap", {"epsilon": str(wanted), **named}, note)

    def declare(self, source: str, *, disjoint: bool, note: str = "") -> None:
        """Declare that a source shares no value with any other, or withdraw that.

        The total over all sources then takes the larger cost instead of the sum. Where users are
        protected, it must have no user in common with any other either.
        """
        check_entry_text("source", source)
        with self._writing:
            self._append("source", {"source": source, "disjoint": bool(disjoint)}, note)

    def remark(self, note: str) -> None:
        """Append a note without a cost."""
        with self._writing:
            self._append("note", {}, note)
