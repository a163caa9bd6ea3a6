"""`Pin`: a device's report in a round, stored so that no value is reported twice."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from typing import Any

from tidegate.local.canonical_json import common_json_fields, json_name, whole_field
from tidegate.local.integer_weights import WORDS

_LONGEST_TIME = 64
DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Pin:
    """An entry of the local ledger: what was reported in a round, and its cost.

    Attributes:
        round, phase, slot, epsilon: of the announcement that was answered.
        digest: of all of that announcement.
        event: a keyed digest of what the value was called.
        client, report: what was sent.
        time: when, by the device's clock (UTC).
    """

    round: str
    phase: str
    slot: int
    epsilon: Fraction
    digest: str
    event: str
    client: str
    report: int
    time: str

    def plain(self) -> dict[str, Any]:
        """The pin as plain data, for the file."""
        return {**asdict(self), "epsilon": str(self.epsilon)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Pin:
        """The pin from a file; a ValueError if it is malformed."""
        if set(plain) != {item.name for item in fields(cls)}:
            raise ValueError("other fields")
        digests = {name: plain[name] for name in ("digest", "event")}
        if not all(isinstance(one, str) and DIGEST.fullmatch(one) for one in digests.values()):
            raise ValueError("no digest")
        if not isinstance(plain["time"], str) or len(plain["time"]) > _LONGEST_TIME:
            raise ValueError("no time")
        return cls(
            **common_json_fields(plain),
            **digests,
            client=json_name(plain, "client"),
            report=whole_field(plain, "report", 0, WORDS - 1),
            time=plain["time"],
        )
