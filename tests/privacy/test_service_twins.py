"""Two services with the same random bytes, and one hidden request that differs: all answers agree.

What differs is protected: a row whose key was not declared, or events of a tick that is open. So
status, body and headers of every answer to everybody else must be the same, whatever they ask.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.entropy import EXPLORING, beginning_with
from tests.service.conftest import PLAIN, Place, served

DAY = "2024-01-01T"
FAR = f"{DAY}20:00Z"
ROLES = {"clinic": "producer", "mallory": "producer", "reader": "reader", "auditor": "auditor"}
VALUES = "/v1/streams/ward/values"
READ = ("", "/keys", "/sum", "/values", "/table?every=4", "/table?every=1d", "/moving?over=4&key=a")
Rows = dict[str, list[Any]]


def rows(*each: tuple[Any, str, str]) -> Rows:
    values, times, keys = (list(column) for column in zip(*each, strict=True))
    return {"values": values, "times": times, "keys": keys}


# What is made beside ε and the horizon, and pairs of hidden rows.
READINGS: dict[str, Any] = {"bound": 9, "keys": ["a", "b"]}
EVENTS = {**READINGS, "events": {"every": "15min", "start": f"{DAY}00:00Z"}}
EARLY, LATE = f"{DAY}00:30Z", f"{DAY}22:00Z"
PAIRS = {
    "late": (READINGS, rows((5, EARLY, "x")), rows((5, LATE, "x"))),
    "many": (READINGS, rows((5, EARLY, "x")), rows(*[(5, EARLY, "x")] * 200)),
    "zone": (READINGS, rows((5, EARLY, "x")), rows((5, f"{DAY}00:30+05:00", "x"))),
    "count": (EVENTS, rows((5, FAR, "a")), rows(*[(5, FAR, "a")] * 3)),
    "size": (EVENTS, rows((5, FAR, "a")), rows((1e300, FAR, "a"))),
    "tick": (EVENTS, rows((5, FAR, "a")), rows((5, "1990-01-01T00:00Z", "a"))),
    "key": (EVENTS, rows((5, FAR, "a")), rows((5, FAR, "x"))),
}


def transcript(folder: Path, new: dict[str, Any], hidden: Rows) -> list[Any]:
    """All that others are answered, but for moments and hashes."""
    with beginning_with("twins"):
        service = Place(folder, None).opened()
        tokens = {who: service.make_token(role, who) for who, role in ROLES.items()}
        tokens["admin"] = service.make_token("admin", "admin")
        found: list[Any] = []
        with served(service) as address, httpx.Client(base_url=address, verify=PLAIN) as client:

            def ask(who: str, method: str, path: str, content: Any = None) -> int:
                known = {"Authorization": f"Bearer {tokens[who]}"}
                answer = client.request(method, path, headers=known, json=content, timeout=240)
                text = re.sub(r'"(created|retired|time|hash|head)":"[^"]*"', "", answer.text)
                text = re.sub(r"_created.*", "", text)
                headers = {name for name, _ in answer.headers.items()}
                if text == answer.text:
                    answer.headers.pop("date", None)
                    headers |= set(answer.headers.items())
                found.append((who, method, path, answer.status_code, text, headers))
                return answer.status_code

            def look() -> None:
                for who in ("reader", "auditor"):
                    for path in (*(f"/v1/streams/ward{one}" for one in READ), "/metrics"):
                        ask(who, "GET", path)
                for path in ("/v1/audit", "/v1/ledger", "/v1/sources/ward"):
                    ask("auditor", "GET", path)

            made = {"name": "ward", "epsilon": "1", "settings": {"horizon": 64}, **new}
            assert ask("admin", "POST", "/v1/streams", made) == 201
            first = rows((1, f"{DAY}00:00Z", "a"), (2, f"{DAY}00:00Z", "b"))
            assert ask("clinic", "POST", VALUES, first) == 202
            known = {"Authorization": f"Bearer {tokens['clinic']}"}
            answer = client.post(VALUES, headers=known, json=hidden, timeout=240)
            assert answer.status_code == 202, answer.text
            look()
            for time in (f"{DAY}02:00Z", f"{DAY}13:00", 1704100000, f"{DAY}00:01Z", None):
                for key in ("a", "zz"):
                    content = {"value": 1, "key": key} | ({"time": time} if time else {})
                    ask("mallory", "POST", VALUES, content)
            ask("mallory", "POST", f"{VALUES}?start=3", {"value": 1, "key": "a"})
            ask("mallory", "POST", "/v1/streams/ward/advance", {"until": f"{DAY}06:00Z"})
            ask("mallory", "POST", "/v1/streams/ward/finish")
            look()
            ask("admin", "POST", "/v1/streams/ward/keys", {"keys": ["c"]})
            ask("admin", "POST", "/v1/streams/ward/retire")
            ask("mallory", "POST", VALUES, {"value": 1, "key": "a", "time": FAR})
            look()
        service.gate.close()
    return found


@pytest.mark.skipif(EXPLORING, reason="twins need the same random bytes")
@pytest.mark.parametrize("pair", PAIRS)
def test_nobody_is_answered_by_what_is_hidden(pair: str, tmp_path: Path) -> None:
    new, *hidden = PAIRS[pair]
    one, other = (
        transcript(tmp_path / str(number), new, each) for number, each in enumerate(hidden)
    )
    assert one == other
