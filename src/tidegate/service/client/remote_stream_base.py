"""`RemoteStreamBase`: the common part of the client's streams: facts, and requests for rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from tidegate.randomness import random_bytes
from tidegate.record.times.time_ranges_and_tables import Moment
from tidegate.run.pipeline import Pipeline
from tidegate.service.client.pushed_columns import PushedColumns
from tidegate.service.client.remote_record import remote_time_text

if TYPE_CHECKING:
    from tidegate.service.client.remote_gate import Gate

_BATCH = 100_000  # values of a request
_PAGE = 100_000  # rows of an answer


class RemoteStreamBase:
    """The common part of streams of all kinds. Made by `Gate.stream` or `Gate.create`.

    A push is sent with a random idempotency key, and sent again with the same one if the
    connection breaks: the service releases every value once. It is not safe to push the same
    values by a second call of `push`: that is a second push.
    """

    def __init__(self, gate: Gate, name: str) -> None:
        self._gate = gate
        self.name = name
        self._path = f"/v1/streams/{quote(name)}"

    def __repr__(self) -> str:
        return f"<stream {self.name!r} of {self._gate!r}>"

    # -- facts -----------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """The public facts of the stream."""
        found: dict[str, Any] = self._gate.call("GET", self._path, "read facts")
        return found

    @property
    def position(self) -> int:
        """The number of released rows."""
        released: int = self.facts()["released"]
        return released

    @property
    def holding(self) -> int:
        """How many more values the hold-out will take before anything is released."""
        held: int = self.facts()["withheld"]
        return held

    @property
    def threshold(self) -> float | None:
        """Larger values count as this; None before it is chosen."""
        threshold: float | None = self.facts()["threshold"]
        return threshold

    @property
    def guarantee(self) -> str:
        """The guarantee, as the service derives it."""
        return str(self.facts()["guarantee"])

    @cached_property
    def pipeline(self) -> Pipeline:
        """The settings of its release."""
        plain = self.name.partition("@")[0]  # all epochs have the same
        found = (one["settings"] for one in self._gate.streams() if one["name"] == plain)
        return Pipeline.from_settings(next(found))

    # -- requests --------------------------------------------------------------------------------

    def _sent(self, given: PushedColumns) -> list[dict[str, Any]]:
        """Send rows, in parts; return the receipt of each."""
        zone = "" if given.zone in (None, "UTC") else f"?zone={quote(given.zone, safe='')}"
        found = []
        for start in range(0, given.size, _BATCH):
            body = json.dumps(given.part(start, start + _BATCH)).encode()
            headers = {
                "Content-Type": "application/json",
                "Idempotency-Key": random_bytes(16).hex(),
            }
            path = f"{self._path}/values{zone}"
            found.append(
                self._gate.call("POST", path, "write", body=body, headers=headers, repeat=True)
            )
        return found

    def _advanced(self, until: Moment) -> None:
        content = {"until": remote_time_text(until)}
        self._gate.call("POST", f"{self._path}/advance", "write", content=content, repeat=True)

    def _finished(self) -> None:
        self._gate.call("POST", f"{self._path}/finish", "write", repeat=True)

    def _reads(self) -> bool:
        return self._gate.may("read")

    def asked(self, question: dict[str, Any]) -> dict[str, Any]:
        """The answer to a query, whose arguments of None are left out."""
        given = {name: value for name, value in question.items() if value is not None}
        path = f"{self._path}/query"
        found: dict[str, Any] = self._gate.call("POST", path, "read", content=given, repeat=True)
        return found

    def _pages(self, start: int, end: int | None, more: str = "") -> list[dict[str, Any]]:
        """Pages of the released rows at places [start, end), as the service sends them."""
        pages: list[dict[str, Any]] = []
        position = start
        while end is None or position < end:
            limit = _PAGE if end is None else min(_PAGE, end - position)
            path = f"{self._path}/values?start={position}&limit={limit}{more}"
            found = self._gate.call("GET", path, "read")
            pages += found["rows"]
            if not found["rows"] and not found["more"]:
                break
            position = found["next"]
        return pages

    def _live(self, start: int | None) -> Iterator[dict[str, Any]]:
        position = self.position if start is None else start
        path = f"{self._path}/live?start={position}"
        yield from self._gate.http.events(path, self._gate.token("read"))


def remote_page_times(pages: list[dict[str, Any]]) -> Any:
    """The times of all rows. None: they have none."""
    if not pages or not all("times" in page for page in pages):
        return None
    return np.array([int(tick) for page in pages for tick in page["times"]], dtype=np.int64)
