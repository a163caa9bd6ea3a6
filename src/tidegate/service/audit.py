"""The audit log: remarks in the chain of the ledger, so that both have one history."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from tidegate.ledger.entries import CapChange, Charge, Closing, Declaration, Entry, Opening
from tidegate.service.gate import Gate
from tidegate.service.tokens import Tokens


def make_token_in(gate: Gate, tokens: Tokens, role: str, label: str) -> Future[str]:
    """Make a token, and note it."""

    def made() -> str:
        token = tokens.make(role, label)
        gate.streams.ledger.remark(f"a token was made for the role {role}: {label}")
        return token

    return gate.call(made)


def revoke_in(gate: Gate, tokens: Tokens, label: str) -> Future[int]:
    """Revoke the tokens with a label, and note it."""

    def revoked() -> int:
        count = tokens.revoke(label)
        if count:
            gate.streams.ledger.remark(f"{count} tokens were revoked: {label}")
        return count

    return gate.call(revoked)


def shown_entry(entry: Entry) -> dict[str, Any]:
    """An entry of the ledger as JSON. Nothing in it is secret."""
    common = {"sequence": entry.sequence, "time": entry.time.isoformat(), "hash": entry.hash}
    more: dict[str, Any] = {"kind": "note"}
    if isinstance(entry, Charge):
        more = {"kind": "charge", "source": entry.source, "part": entry.part, "stage": entry.stage}
        more |= {"start": entry.start, "end": entry.end, "guarantee": str(entry.guarantee)}
        more["epoch"] = entry.epoch
    elif isinstance(entry, CapChange):
        more = {"kind": "cap", "source": entry.source, "epsilon": str(entry.epsilon)}
    elif isinstance(entry, Declaration):
        more = {"kind": "declaration", "source": entry.source, "disjoint": entry.disjoint}
    elif isinstance(entry, Closing):
        more = {"kind": "close", "charge": entry.charge, "end": entry.end}
    elif isinstance(entry, Opening):
        more = {"kind": "opening", "id": entry.id}
    return {**common, **more, "note": entry.note}
