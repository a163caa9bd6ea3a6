"""`Ledger`: check charges against the cap, append them, add them up."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from tidegate._context_managers import Closed
from tidegate.errors import SettingError
from tidegate.exact_numbers import Number, positive, said, whole
from tidegate.guarantee import Guarantee
from tidegate.ledger.account import WritableAccount
from tidegate.ledger.entries import (
    Charge,
    Clock,
    Entry,
    chargeable,
    check_entry_text,
    decoded_entry,
    entry_facts_of_charge,
    entry_time_text,
    system_time,
)
from tidegate.ledger.errors import CapExceeded, LedgerError
from tidegate.ledger.hashed_lines import VERSION, HashedLines, key_of_hashed_lines
from tidegate.ledger.ledger_file import LedgerFile
from tidegate.ledger.ledger_report import ledger_report, report_as_text
from tidegate.ownership import NotCopied
from tidegate.randomness import random_bytes


class Ledger(WritableAccount, Closed, NotCopied):
    """An append-only file of budget charges. Made by `Ledger.open`; close it, or use `with`.

    What it guarantees:

    - A charge is on the disk before `charge` returns. Release only after that, and a crash at any
      moment leaves the ledger with everything that was released charged.
    - A charge that would bring its source above the cap is refused, and not written.
    - Sums are exact fractions. What cannot be added up (other units or models) is refused.
    - One writer at a time. Opening it verifies every entry.

    What it does not:

    - Without a key, the chain shows accidents and naive edits, not a forger who recomputes all
      hashes. With a key, it shows changes by anyone who lacks that key.
    - A ledger that was rolled back to an older copy, or whose last entries were cut off, is a valid
      ledger, keyed or not. Only an anchor kept elsewhere (`count` and `head`, given to `open` as
      `expected`) reveals it.
    - It trusts its callers: in the name of a source, in ranges, and that charges end in time.
    - Units larger than an event (windows, users) may straddle two ranges. The maximum over
      positions holds for these if each charge is pure (δ = 0) and calibrated by group privacy,
      where every single value costs its share.

    Nothing in it is secret: no values, only what the guarantee calls public.
    """

    def __init__(self, chain: HashedLines, clock: Clock) -> None:
        super().__init__()
        self._chain = chain
        self._clock = clock

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        create: bool = True,
        cap: Number | None = None,
        *,
        expected: tuple[int, str] | None = None,
        key: bytes | None = None,
        read_only: bool = False,
        clock: Clock = system_time,
    ) -> Ledger:
        """Open and verify a ledger; `LedgerError` says which entry is wrong.

        Args:
            path: the file; made with permissions 0600 if it is missing and `create` is true.
            cap: how much ε any one source may spend. Stored in the file: None means the stored one,
                and a different number is refused (see `set_cap`).
            expected: an anchor: (`count`, `head`) of an earlier time, kept elsewhere. A ledger that
                is missing, shorter, or different up to there is refused. Without an anchor,
                rollback and truncation cannot be detected.
            key: 32 bytes for a keyed chain; given at creation and every time after.
            read_only: no lock, no repair, no new file. Works beside a writer.
            clock: gives the time of entries.
        """
        create = create and expected is None and not read_only
        chain = LedgerFile(
            Path(path), create=create, read_only=read_only, key=key_of_hashed_lines(key)
        )
        return cls.over(chain, create, cap, expected=expected, read_only=read_only, clock=clock)

    @classmethod
    def over(
        cls,
        chain: HashedLines,
        create: bool = True,
        cap: Number | None = None,
        *,
        expected: tuple[int, str] | None = None,
        read_only: bool = False,
        clock: Clock = system_time,
    ) -> Ledger:
        """Verify a ledger in a store other than a file: see `open`."""
        try:
            wanted = None if cap is None else positive("cap", cap)
            ledger = cls(chain, clock)
            ledger._replay()
            if expected is not None:
                ledger.check_anchor(expected)
            if not ledger.entries and not create:
                raise LedgerError(chain.path, "it holds no entry yet")
            if not read_only:
                ledger._prepare()
            ledger._agree(wanted)
        except BaseException:
            chain.close()
            raise
        return ledger

    def _replay(self) -> None:
        for number, (facts, digest) in enumerate(self._chain.read(), start=1):
            try:
                self._take(decoded_entry(facts, digest))
            except (LookupError, TypeError, ValueError, ZeroDivisionError):
                problem = "it says nothing that this Tidegate understands"
                raise LedgerError(self._chain.path, problem, number) from None

    def check_anchor(self, expected: tuple[int, str]) -> None:
        """Refuse a ledger that does not contain the anchored entry."""
        count, head = whole("expected", expected[0], 1), expected[1]
        if count > self.count:
            raise LedgerError(
                self._chain.path,
                f"it has {self.count} entries, but {count} were anchored: it was cut short or "
                "rolled back; put the newer one in place",
            )
        if self._entries[count - 1].hash != head:
            raise LedgerError(
                self._chain.path, "it is not the entry that was anchored: another history", count
            )

    def _prepare(self) -> None:
        repaired = self._chain.repair() if self._chain.unfinished else ""
        if not self._entries:
            identity = {"version": VERSION, "id": random_bytes(16).hex()}
            self._append("ledger", {**identity, "keyed": self._chain.keyed}, "")
        if repaired:
            self._append("note", {}, repaired)

    def _agree(self, wanted: Fraction | None) -> None:
        if wanted is None or wanted == self._cap:
            return
        if self._cap is not None:
            raise SettingError(
                "cap",
                f"the ledger's is {said(self._cap)}, not {said(wanted)}: change it by `tidegate "
                "ledger DIR --set-cap X` (Ledger.set_cap)",
            )
        self._append("cap", {"epsilon": str(wanted)}, "")

    # -- writing ---------------------------------------------------------------------------------

    def charge(
        self,
        *,
        source: str,
        epoch: str,
        stage: str,
        start: int,
        end: int | None = None,
        guarantee: Guarantee,
        part: str = "",
        note: str = "",
    ) -> Charge:
        """Charge a guarantee to the positions [start, end) of a source, durably, before releasing.

        Args:
            source: the name of the data; the same name wherever the same values are used.
            epoch: the public id of the noise (`Release.epoch`).
            stage: what is charged for, such as "threshold" or "stream".
            start: the first position.
            end: the position after the last; None: no end, until `close_charge`.
            guarantee: the cost. That of a simulation is refused.
            part: of the source, if only this is read: parts have no value in common, so the
                source has spent the maximum over them. Refused where users are protected: a user
                may be in several.
            note: free text.

        Raises:
            CapExceeded: the source would have spent too much. Nothing was written.
        """
        for name, text in (
            ("source", source),
            ("epoch", epoch),
            ("stage", stage),
            ("part", part or "-"),
        ):
            check_entry_text(name, text)
        first = whole("start", start, 0)
        last = None if end is None else whole("end", end, first + 1)
        exact = chargeable(guarantee)
        with self._writing:
            self._check_composes(source, exact, part)
            total = self._spent_with(source, part, first, last, Fraction(exact.epsilon))
            cap = self.cap_of(source)
            if cap is not None and total > cap:
                raise CapExceeded(source, Fraction(exact.epsilon), total, cap)
            facts = entry_facts_of_charge(source, epoch, stage, first, last, exact, part)
            entry = self._append("charge", facts, note)
            self._spent[source] = total
        return self._charges[source][entry.sequence]

    def check(
        self, source: str, charges: Sequence[tuple[int, int | None, Guarantee]], *, part: str = ""
    ) -> None:
        """Refuse what `charge` would refuse of these (start, end, guarantee); write nothing."""
        with self._writing:
            self._check_cap(source, charges, part)

    def close_charge(self, charge: Charge, end: int, note: str = "") -> Charge:
        """Set the end of a charge that has none; return the changed charge.

        Only the caller knows which positions were read: `end` must come after all of them. When a
        new phase begins there, close the old charge first: a crash in between releases nothing.
        """
        with self._writing:
            kept = self._charges.get(charge.source, {}).get(charge.sequence)
            if kept is None or kept.hash != charge.hash:
                raise SettingError("charge", "it is not in this ledger")
            if kept.end is not None:
                raise SettingError("charge", f"it already ends, at {kept.end}")
            last = whole("end", end, kept.start)
            self._append("close", {"charge": kept.sequence, "end": last}, note)
            return self._charges[kept.source][kept.sequence]

    def _append(self, kind: str, facts: Mapping[str, Any], note: str) -> Entry:
        if not isinstance(note, str):
            raise SettingError("note", f"must be text, not {type(note).__name__}")
        time = entry_time_text(self._clock())
        try:
            entry = decoded_entry(*self._chain.append(kind, time, {**facts, "note": note}))
            self._take(entry)
        except BaseException:  # Ctrl-C too: memory may lag behind the file
            self._chain.close()
            raise
        return entry

    # -- reading ---------------------------------------------------------------------------------

    @property
    def head(self) -> str:
        """The hash of the last entry, which covers all before it.

        It covers the same entries as `count`, also after an interrupted append: both are an anchor.
        """
        return self._entries[-1].hash if self._entries else self._chain.head

    @property
    def torn(self) -> int:
        """Bytes of an unfinished entry at the end; opening for writing removes them."""
        return self._chain.torn

    def table(self) -> str:
        """Charges, ranges and totals as plain text."""
        return report_as_text(ledger_report(self, self.sources, self.cap))

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"<Ledger {self._chain.path} entries={self.count} head={self.head[:8]}…>"

    # -- closing ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Release the lock. All charges are on the disk already."""
        self._chain.close()
