"""Which question of a round a client answers, if questions are assigned by name.

In rotation nothing stops a client from answering another question than the one it was handed. By
name, both sides compute which is its own: a public hash of round and name. It depends on no value,
so it costs no privacy. A client cannot pick its question without picking another name: that
helps where names are given out (accounts, certificates), and not where clients make them up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING

from tidegate.local.announcements_and_reports import Announcement
from tidegate.local.canonical_json import MessageError

if TYPE_CHECKING:
    from tidegate.local.server_collection import Slot

_MOST_SLOTS = 256  # the rounds of `Topl` have 220 at most


def slot_of(name: str, client: str, slots: int) -> int:
    """The slot of a client in the round `name`, of `count` slots.

    The first 48 bits of a SHA-256, modulo `slots`: what JavaScript can do in plain numbers; with
    at most 2**16 slots they are equally likely to 2**-32.

    >>> [slot_of("r1", client, 5) for client in ("a", "b", "c", "d")]
    [4, 1, 4, 0]
    """
    digest = hashlib.sha256(f"tidegate/1/slot/{name}/{client}".encode()).digest()
    return int.from_bytes(digest[:6], "big") % slots


def announced(
    slots: Sequence[Slot],
    *,
    name: str,
    lower: Fraction,
    bound: Fraction,
    resolution: Fraction,
    first: int = 0,
) -> tuple[Announcement, ...]:
    """The announcements of a round with these slots, numbered from `first`."""
    return tuple(
        Announcement(
            round=name,
            phase=slot.phase,
            epsilon=slot.epsilon,
            lower=lower,
            bound=bound,
            resolution=resolution,
            slot=index,
            question=slot.question,
        )
        for index, slot in enumerate(slots, start=first)
    )


def of_one_round(announcements: Iterable[Announcement]) -> tuple[Announcement, ...]:
    """All announcements of one round by slot, or a `MessageError`.

    They are read one by one: a server that sends many is refused after a few.
    """
    taken = tuple(islice(announcements, _MOST_SLOTS + 1))
    if len(taken) > _MOST_SLOTS:
        raise MessageError(f"announcements: a round has at most {_MOST_SLOTS} of them")
    ordered = tuple(sorted(taken, key=lambda one: one.slot))
    complete = [one.slot for one in ordered] == list(range(len(ordered)))
    if len({one.round for one in ordered}) != 1 or not complete:
        raise MessageError("announcements: must be all those of one round, each once")
    return ordered
