"""Reports in the one spelling in which Tidegate's devices write them, read by one pattern.

Servers read millions of them. Whatever is spelled otherwise, or is not valid, is read field by
field (`canonical_json`), which says what is wrong; both give the same report.
"""

from __future__ import annotations

import re
from typing import Any

from tidegate.local.canonical_json import PHASES, SLOTS, VERSION, fraction
from tidegate.local.integer_weights import WORDS

_NAME = r'"([!#-\[\]-~]{1,128})"'  # characters that JSON need not escape
_WHOLE = "(0|[1-9][0-9]{0,14})"  # every double of up to 15 digits is exact
_WRITTEN = re.compile(
    rf'{{"tidegate":{VERSION},"kind":"report","round":{_NAME},"phase":"([a-z]{{1,16}})",'
    rf'"epsilon":"([0-9/]{{1,37}})","slot":{_WHOLE},"client":{_NAME},"report":{_WHOLE}}}'
)


def as_written(text: object) -> dict[str, Any] | None:
    """The fields of a valid report in its one spelling; None: read it field by field."""
    if not isinstance(text, str | bytes):
        return None
    found = _WRITTEN.fullmatch(text if isinstance(text, str) else text.decode("latin-1"))
    if found is None:
        return None
    name, phase, budget, place, client, answer = found.groups()
    epsilon, slot, report = fraction(budget), int(place), int(answer)
    if phase not in PHASES or epsilon is None or slot >= SLOTS or report >= WORDS:
        return None
    common = {"round": name, "phase": phase, "epsilon": epsilon, "slot": slot}
    return {**common, "client": client, "report": report}
