"""What holds raw values inside prints none of them, whoever writes it into a log."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tidegate.cli.check_rehearsal import RehearsalValues
from tidegate.io import Batch
from tidegate.keyed.keyed_store import KeyedChanges
from tidegate.perturb.sampled_values import Stretch
from tidegate.run.event_log import _LoggedEvents
from tidegate.run.selection_counts import _SelectionTally

SECRET = "471100471100"  # longer than what an address of memory may hold by chance
RAW = np.array([int(SECRET)] * 2)


def request() -> Any:
    pending = pytest.importorskip("tidegate.service.pending_requests")
    return pending.PendingPush("stream", RAW * 1.0, key=f"patient-{SECRET}", keys=[SECRET, SECRET])


def body() -> Any:
    bodies = pytest.importorskip("tidegate.service.push_bodies")
    body = b'{"values": [471100471100], "keys": ["471100471100"]}'
    return bodies.parsed_body(body, "application/json", None)


def pushed() -> Any:
    columns = pytest.importorskip("tidegate.service.client.pushed_columns")
    return columns.PushedColumns({"values": RAW.tolist()}, 2)


def rehearsed() -> RehearsalValues:
    found = RehearsalValues(False)
    found.push(Batch(RAW * 1.0))
    return found


def commit() -> Any:
    """The head of a state without a key holds the secret of its noise as it is."""
    return KeyedChanges(SECRET.encode(), {0: SECRET.encode()}, SECRET.encode(), b"", None)


HOLDERS = {
    "request": request,
    "body": body,
    "pushed": pushed,
    "rehearsed": rehearsed,
    "commit": commit,
    "events": lambda: _LoggedEvents([RAW], [RAW], ordered=True),
    "tally": lambda: _SelectionTally(RAW, RAW, 2, [RAW], RAW.tolist()),
    "stretch": lambda: Stretch(RAW, 0, 2, 0, 0, [], None),  # type: ignore[arg-type]  # not read
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_no_repr_shows_what_is_inside(holder: str) -> None:
    found = HOLDERS[holder]()
    for text in (repr(found), str(found), f"{[found]}", f"{(found,)!r}"):
        assert SECRET not in text
