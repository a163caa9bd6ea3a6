"""The entries of a ledger, and their encoding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from typing import Any, cast

from tidegate.errors import SettingError
from tidegate.exact_numbers import exact, positive, said
from tidegate.guarantee import Guarantee

Clock = Callable[[], datetime]
_MOST = 10**30  # the ε of a charge: sums of many of them are numbers still


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One line of the ledger.

    Attributes:
        sequence: its number, from 1.
        time: when it was written, in UTC, by this machine's clock.
        hash: of this entry and, through the chain, of all before it.
        note: free text of the operator.
    """

    sequence: int
    time: datetime
    hash: str
    note: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Opening(Entry):
    """The first entry: a random id, so that no two ledgers share a chain."""

    id: str
    keyed: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Charge(Entry):
    """A guarantee for the positions [start, end) of a source; `end` None: no end.

    `part`: read were only values of this part of the source; parts have no value in common. Empty:
    values of any part.
    """

    source: str
    epoch: str
    stage: str
    start: int
    end: int | None
    guarantee: Guarantee
    part: str = ""

    @property
    def epsilon(self) -> Fraction:
        """The exact ε, which `chargeable` has checked."""
        return cast("Fraction", self.guarantee.epsilon)

    @property
    def delta(self) -> Fraction:
        """The exact δ."""
        return cast("Fraction", self.guarantee.delta)


@dataclass(frozen=True, kw_only=True, slots=True)
class Closing(Entry):
    """Charge number `charge`, which had no end, ends at `end`."""

    charge: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CapChange(Entry):
    """A cap from here on: no source, or `source` alone, may spend more than `epsilon`."""

    epsilon: Fraction
    source: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Declaration(Entry):
    """Whether a source has no value in common with any other source (`disjoint`)."""

    source: str
    disjoint: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Note(Entry):
    """A note without a cost."""


def entry_facts_of_charge(
    source: str,
    epoch: str,
    stage: str,
    start: int,
    end: int | None,
    guarantee: Guarantee,
    part: str = "",
) -> dict[str, Any]:
    """The fields of a charge in the form of entries."""
    return {
        "source": source,
        "epoch": epoch,
        "stage": stage,
        "start": start,
        "end": end,
        "epsilon": str(guarantee.epsilon),
        "delta": str(guarantee.delta),
        "unit": guarantee.unit,
        "model": guarantee.model,
        "arithmetic": guarantee.arithmetic,
        **({} if guarantee.rho is None else {"rho": str(guarantee.rho)}),
        **({"part": part} if part else {}),
    }


def decoded_entry(facts: Mapping[str, Any], digest: str) -> Entry:
    """The entry in a line; KeyError, TypeError or ValueError if it is malformed."""
    return _DECODERS[facts["kind"]](
        facts,
        sequence=facts["sequence"],
        time=datetime.fromisoformat(facts["time"]),
        hash=digest,
        note=facts["note"],
    )


def _charge_entry(facts: Mapping[str, Any], **common: Any) -> Charge:
    start, end = _entry_position(facts["start"]), facts["end"]
    if end is not None and _entry_position(end) <= start:
        raise ValueError("a range ends after its start")
    return Charge(
        source=facts["source"],
        epoch=facts["epoch"],
        stage=facts["stage"],
        start=start,
        end=end,
        guarantee=_entry_guarantee(
            facts["epsilon"],
            facts["delta"],
            facts["unit"],
            facts["model"],
            facts["arithmetic"],
            facts.get("rho"),
        ),
        part=facts.get("part", ""),
        **common,
    )


def _entry_position(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError("positions are whole numbers")
    return value


@lru_cache  # a ledger repeats few guarantees many times
def _entry_guarantee(
    epsilon: str, delta: str, unit: str, model: str, arithmetic: str, rho: str | None
) -> Guarantee:
    return chargeable(
        Guarantee(
            epsilon=exact("epsilon", epsilon),
            delta=exact("delta", delta),
            unit=unit,
            model=model,
            arithmetic=arithmetic,
            rho=None if rho is None else positive("rho", rho),
        )
    )


_DECODERS: dict[str, Callable[..., Entry]] = {
    "ledger": lambda facts, **common: Opening(id=facts["id"], keyed=facts["keyed"], **common),
    "charge": _charge_entry,
    "close": lambda facts, **common: Closing(
        charge=facts["charge"], end=_entry_position(facts["end"]), **common
    ),
    "cap": lambda facts, **common: CapChange(
        epsilon=exact("epsilon", facts["epsilon"]), source=facts.get("source"), **common
    ),
    "source": lambda facts, **common: Declaration(
        source=facts["source"], disjoint=facts["disjoint"], **common
    ),
    "note": lambda _, **common: Note(**common),
}


def chargeable(guarantee: Guarantee) -> Guarantee:
    """The guarantee with exact numbers; a `SettingError` if it cannot be charged."""
    if not isinstance(guarantee, Guarantee):
        raise SettingError("guarantee", f"must be a Guarantee, not {type(guarantee).__name__}")
    if not guarantee.holds:
        raise SettingError(
            "guarantee",
            "there is none to charge: a seeded release is a simulation and keeps no durable "
            "state; start it with tidegate.secure()",
        )
    epsilon, delta = exact("epsilon", guarantee.epsilon), exact("delta", guarantee.delta)
    if not 0 <= epsilon <= _MOST:
        raise SettingError("epsilon", f"must be at least 0 and at most 1e30, not {said(epsilon)}")
    if not 0 <= delta < 1:
        raise SettingError("delta", f"must be at least 0 and below 1, not {said(delta)}")
    return replace(guarantee, epsilon=epsilon, delta=delta)


def system_time() -> datetime:
    """The current time."""
    return datetime.now(UTC)


def entry_time_text(moment: datetime) -> str:
    """A time in the form of entries."""
    if moment.tzinfo is None:
        raise SettingError("clock", "must say its time zone, for example datetime.now(UTC)")
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def check_entry_text(name: str, text: object) -> None:
    """Refuse a name with unreadable characters."""
    if not isinstance(text, str) or not text or not text.isprintable():
        raise SettingError(name, "must be printable text, and not empty")
