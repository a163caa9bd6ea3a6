"""Nobody learns from an answer what somebody else has sent: values, keys of requests, rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import tidegate as tg
from tests.service.conftest import Place, served
from tidegate.service.pending_requests import PendingPush

Sent = tuple[int, dict[str, Any]]


class Senders:
    """Two producers of one service, and an admin."""

    def __init__(self, client: httpx.Client, tokens: dict[str, str]) -> None:
        self._client, self._tokens = client, tokens

    def __call__(
        self, who: str, path: str, content: Any, key: str | None = None, **parameters: Any
    ) -> Sent:
        headers = {"Authorization": f"Bearer {self._tokens[who]}"}
        if key is not None:
            headers["Idempotency-Key"] = key
        answer = self._client.post(path, headers=headers, json=content, params=parameters)
        return answer.status_code, answer.json()

    def get(self, who: str, path: str) -> dict[str, Any]:
        """What somebody reads."""
        headers = {"Authorization": f"Bearer {self._tokens[who]}"}
        found: dict[str, Any] = self._client.get(path, headers=headers).json()
        return found


@pytest.fixture
def senders(place: Place) -> Iterator[Senders]:
    service = place.opened()
    tokens = {"admin": service.make_token("admin", "admin")}
    tokens |= {who: service.make_token("producer", who) for who in ("clinic", "mallory")}
    tokens["clinic, new token"] = service.make_token("producer", "clinic")
    with served(service) as address, httpx.Client(base_url=address, timeout=240) as client:
        yield Senders(client, tokens)
    service.gate.close()


def made(senders: Senders, **more: Any) -> str:
    new = {"name": "ward", "epsilon": "0.01", "settings": {"horizon": 600}, **more}
    status, answer = senders("admin", "/v1/streams", new)
    assert status == 201, answer
    return "/v1/streams/ward/values"


def test_a_guess_at_a_place_is_answered_alike_whether_or_not_it_is_right(senders: Senders) -> None:
    path = made(senders, bound=50)
    assert senders("clinic", path, [7, 8, 9], start=0)[0] == 202
    answers = [senders("mallory", path, [guess], start=1) for guess in (7, 8, 9)]
    assert answers[0][0] == 409
    assert all(one == answers[0] for one in answers)
    whole = [senders("mallory", path, guess, start=0) for guess in ([7, 8, 9], [7, 8, 1])]
    assert whole[0] == whole[1]
    assert whole[0][0] == 409
    status, answer = senders("clinic", path, [7, 8, 9], start=0)
    assert (status, answer["repeated"]) == (200, True)
    assert senders("clinic, new token", path, [7, 8, 9], start=0)[0] == 200  # one label, one sender


def test_a_key_of_somebody_else_is_as_good_as_new(senders: Senders) -> None:
    events = {"every": "15min", "start": "2024-01-01T00:00Z", "count": True}
    path = made(senders, events=events)
    visit = {"times": ["2024-01-01T00:03Z"]}
    assert senders("clinic", path, visit, "patient-17")[0] == 202
    answers = [senders("mallory", path, visit, key) for key in ("patient-17", "patient-18")]
    assert answers[0] == answers[1]
    assert answers[0][0] == 202
    again = [senders(who, path, visit, "patient-17") for who in ("clinic", "clinic, new token")]
    assert [status for status, _ in again] == [200, 200]
    assert senders("clinic", path, {"times": ["2024-01-01T00:04Z"]}, "patient-17")[0] == 409


def test_a_conflict_does_not_say_which_column_differs(senders: Senders) -> None:
    columns = {"fare": {"bound": 100}, "tip": {"bound": 30}}
    new = {"name": "trips", "epsilon": "1", "columns": columns}
    assert senders("admin", "/v1/columns", new)[0] == 201
    path = "/v1/columns/trips/values"
    rows = [{"columns": {"fare": [fare], "tip": [tip]}} for fare, tip in ((9, 1), (9, 2), (8, 1))]
    assert senders("clinic", path, rows[0], "a")[0] == 202
    answers = [senders("clinic", path, other, "a") for other in rows[1:]]
    assert answers[0] == answers[1]
    assert answers[0][0] == 409
    assert "column" not in answers[0][1]


def test_rows_of_undeclared_keys_move_no_place(senders: Senders) -> None:
    path = made(senders, bound=1, keys=["a", "b"])
    status, first = senders("clinic", path, {"keys": ["a", "undeclared"], "values": [1, 1]}, "1")
    assert (status, first["start"]) == (202, None)
    status, refused = senders("mallory", path, {"keys": ["a"], "values": [1]}, start=9)
    assert (status, "seen" in refused) == (422, False)
    assert senders("clinic", path, {"keys": ["a", "undeclared"], "values": [1, 1]}, "1")[0] == 200
    status, other = senders("clinic", path, {"keys": ["b"], "values": [1]}, "1")
    assert (status, "seen" in other) == (409, False)


@pytest.mark.parametrize("hidden", [1, 200])
def test_no_message_counts_rows_that_are_dropped(senders: Senders, hidden: int) -> None:
    """A message said "times at position 205": rows of undeclared keys were counted."""
    path = made(senders, bound=9, keys=["a", "b"])
    first = {"values": [1], "times": ["2024-01-01T00:00Z"], "keys": ["a"]}
    assert senders("clinic", path, first)[0] == 202
    rows = {"values": [5], "times": ["2024-01-01T00:30Z"], "keys": ["secret"]}
    assert senders("clinic", path, {name: one * hidden for name, one in rows.items()})[0] == 202
    for times in (["2024-01-01T13:00"], [1704100000], ["2024-01-01T13:00Z", "2024-01-01T13:00"]):
        wrong = {"values": [1] * len(times), "times": times, "keys": ["a"] * len(times)}
        status, answer = senders("mallory", path, wrong)
        assert status == 422
        assert "position 0" in answer["detail"] or "position 1" in answer["detail"]


@pytest.mark.parametrize("first", [None, "2024-01-01T00:00", "2024-01-01T00:00+05:00", 1704067200])
def test_a_first_row_that_is_dropped_leaves_no_trace(senders: Senders, first: Any) -> None:
    """It decided how times are read, and its moment was that of a charge in the ledger."""
    path = made(senders, bound=9, keys=["a"])
    before = senders.get("admin", "/v1/audit")["count"]
    row = {"values": [5], "keys": ["secret"]} | ({} if first is None else {"times": [first]})
    assert senders("clinic", path, row)[0] == 202
    assert senders.get("admin", "/v1/audit")["count"] == before
    facts = senders.get("admin", "/v1/streams/ward")
    assert (facts["timed"], facts["zone"]) == (False, None)
    assert senders("clinic", path, {"value": 1, "time": "2024-01-01T00:00Z", "key": "a"})[0] == 202
    assert senders.get("admin", "/v1/streams/ward")["zone"] == "UTC"
    assert senders.get("admin", "/v1/audit")["count"] == before


def test_a_sealed_database_does_not_tell_which_keys_were_used(tmp_path: Path) -> None:
    """A digest without a key is as good as the name to whoever can guess it, in a backup, say."""
    service = Place(tmp_path / "gate", None).opened()
    pipeline = tg.adaptive(epsilon=1, bound=9, horizon=64)
    service.gate.call(lambda: service.gate.streams.create("ward", pipeline)).result()
    pending = PendingPush("ward", np.array([5.0]), key="patient-17", sender="label clinic")
    service.gate.submit(pending)
    assert not pending.answer.result(timeout=240).repeated
    service.gate.close()
    with sqlite3.connect(tmp_path / "gate" / "service.sqlite") as database:
        ((stored,),) = database.execute("SELECT key FROM tidegate_requests")
    database.close()
    assert stored != pending.request_id
    assert len(stored) == 64
