"""Other messages of a service: the open round, and the outcomes of reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any

from tidegate.errors import SettingError
from tidegate.local.canonical_json import (
    VERSION,
    json_field,
    json_name,
    naming_json_message,
    read_canonical_json,
    written_json,
)

# Media types, as in DAP: one for each message.
ROUND = "application/vnd.tidegate.round+json"
ANNOUNCEMENT = "application/vnd.tidegate.announcement+json"
REPORT = "application/vnd.tidegate.report+json"
REPORTS = "application/vnd.tidegate.reports+jsonl"
OUTCOMES = "application/vnd.tidegate.outcomes+json"
SHUFFLED = "application/vnd.tidegate.shuffled+json"
SHUFFLER = "tidegate-shuffler"  # the header of questions that come through one
MISDIRECTED = 421  # the status of questions that come another way than reports of the task must

MOST_OUTCOMES = 10_000  # reports of one request
# What a device need not send again: it was taken, or never will be.
FINAL = frozenset(
    {
        "accepted", "duplicate", "late", "malformed", "version", "round", "slot", "phase",
        "epsilon", "domain", "assignment",
    }
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RoundMessage:
    """Which round of a task is open, and until when.

    Attributes:
        task: the id of the task, 32 bytes in base 64.
        round: its name. Devices are asked under the name that they have in it.
        opens, closes: from when until when it asks, as ISO 8601.
        accepted_until: until when it takes reports of devices that it has asked.

    >>> message = RoundMessage(task="T", round="T.5", opens="", closes="", accepted_until="")
    >>> RoundMessage.from_json(message.json()) == message
    True
    """

    task: str
    round: str
    opens: str
    closes: str
    accepted_until: str

    def plain(self) -> dict[str, Any]:
        """The message as plain data."""
        return {"tidegate": VERSION, "kind": "round", **vars(self)}

    def json(self) -> str:
        """The message as one line of text."""
        return written_json(self.plain())

    @classmethod
    def from_json(cls, text: str | bytes) -> RoundMessage:
        """Parse what `json()` returned; raises `MessageError`."""
        plain = read_canonical_json(text, "round", 7)
        with naming_json_message("round"):
            times = {
                name: _text_in_task_message(plain, name)
                for name in ("opens", "closes", "accepted_until")
            }
            return cls(task=json_name(plain, "task"), round=json_name(plain, "round"), **times)


def _text_in_task_message(plain: dict[str, Any], name: str) -> str:
    value = json_field(plain, name)
    if not isinstance(value, str) or len(value) > 64:
        raise SettingError(name, "must be text of at most 64 characters")
    return value


def outcomes_json(clients: Sequence[str | None], outcomes: Sequence[str]) -> str:
    """The outcomes of reports, in order; a report's id is its device's name in the round.

    Written out, as `written_json` would: every report gets one, and that took a tenth of its time.
    """
    rows = [
        f'{{"report_id":{"null" if client is None else _quoted(client)},"outcome":{_quoted(said)}}}'
        for client, said in zip(clients, outcomes, strict=True)
    ]
    return f'{{"tidegate":{VERSION},"kind":"outcomes","outcomes":[{",".join(rows)}]}}'


def outcomes_from_json(text: str | bytes) -> list[str]:
    """The outcomes of `outcomes_json`; raises `MessageError`."""
    plain = read_canonical_json(text, "outcomes", 3)
    with naming_json_message("outcomes"):
        rows = json_field(plain, "outcomes")
        if not isinstance(rows, list) or len(rows) > MOST_OUTCOMES:
            raise SettingError("outcomes", f"must be a list of at most {MOST_OUTCOMES}")
        found = [row.get("outcome") if isinstance(row, dict) else None for row in rows]
        if not all(isinstance(one, str) and one in FINAL for one in found):
            raise SettingError("outcomes", "has an outcome that is not known")
        return [str(one) for one in found]
