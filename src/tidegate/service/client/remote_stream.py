"""A stream of a service: pushed to, asked and followed as a release in this process is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
from numpy.typing import ArrayLike

from tidegate.errors import QueryError
from tidegate.lattice import FloatArray
from tidegate.randomness import random_bytes
from tidegate.record.answer import Answer
from tidegate.record.answers import Answers
from tidegate.record.rows import Rows
from tidegate.record.time_ranges import Moment, TimeTable
from tidegate.service.answers_json import decoded, decoded_answer, decoded_table
from tidegate.timestamps import read_times

if TYPE_CHECKING:
    from tidegate.service.client.remote_gate import Gate

_BATCH = 100_000  # values of a request
_PAGE = 100_000  # rows of an answer


class Stream:
    """The verbs of `Release`, over HTTP. Made by `Gate.stream` or `Gate.create`.

    A push is sent with a random idempotency key, and sent again with the same one if the
    connection breaks: the service releases every value once. It is not safe to push the same
    values by a second call of `push`: that is a second push.
    """

    def __init__(self, gate: Gate, name: str) -> None:
        self._gate = gate
        self._name = name
        self._path = f"/v1/streams/{quote(name)}"

    def __repr__(self) -> str:
        return f"<stream {self._name!r} of {self._gate!r}>"

    # -- values in -------------------------------------------------------------------------------

    def push(
        self,
        values: ArrayLike | None = None,
        times: Any = None,
        *,
        keys: Sequence[str | int] | None = None,
        until: str | None = None,
    ) -> FloatArray | None:
        """Send one value or many; returns what is released, once it is durable.

        None if no token may read: a producer is told nothing about the stream.

        Args:
            values: of readings or events; None: events that are counted.
            times: of the values.
            keys: of the values, in a stream with keys.
            until: what the clock shows, in a stream of events: ticks before it are released.
        """
        reading = self._gate.may("read")
        before = self.position if reading else 0
        columns: dict[str, list[Any]] = {}
        if values is not None:
            columns["values"] = plain(np.atleast_1d(np.asarray(values, dtype=np.float64)))
        if times is not None:
            listed = times if hasattr(times, "__len__") and not isinstance(times, str) else [times]
            when = read_times(listed)
            columns["times"] = when.clock.texts(when.ticks)
        if keys is not None:
            columns["keys"] = list(keys)
        size = max((len(column) for column in columns.values()), default=0)
        for start in range(0, size, _BATCH):
            part = {name: column[start : start + _BATCH] for name, column in columns.items()}
            self._send("values", part if start + _BATCH < size else part | _given(until=until))
        if not size and until is not None:
            self._send("advance", {"until": until})
        return self.rows(before).values if reading else None

    def _send(self, route: str, content: dict[str, Any]) -> None:
        headers = {"Content-Type": "application/json", "Idempotency-Key": random_bytes(16).hex()}
        body = json.dumps(content).encode()
        path = f"{self._path}/{route}"
        self._gate.call("POST", path, "write", body=body, headers=headers, repeat=True)

    def finish(self) -> None:
        """End open warm-ups from the values that came: for a stream that is over."""
        self._gate.call("POST", f"{self._path}/finish", "write", repeat=True)

    # -- answers out -----------------------------------------------------------------------------

    def query(
        self,
        start: Moment | None = None,
        end: Moment | None = None,
        confidence: float = 0.95,
        *,
        from_: Moment | None = None,
        to: Moment | None = None,
        as_of: int | None = None,
        key: str | int | None = None,
        keys: Sequence[str | int] | None = None,
    ) -> Answer:
        """The sum over positions [start, end), or over a range of time: see `Release.query`.

        Of a stream with keys: of one key, or the total over some keys, or over all.
        """
        named = _names(key, keys)
        asked: dict[str, Any] = {"confidence": confidence, "as_of": as_of, "keys": named}
        if isinstance(start, int) and isinstance(end, int):
            found = self._asked({"starts": [start], "ends": [end], **asked})
            return decoded(found["answers"])[0] if "answers" in found else _one(found)
        if start is not None or end is not None:
            if from_ is not None or to is not None:
                raise QueryError("give a range once: start and end, or from_ and to")
            from_, to = start, end
        return _one(self._asked({"from": _text(from_), "to": _text(to), **asked}))

    def queries(
        self,
        starts: ArrayLike,
        ends: ArrayLike,
        confidence: float = 0.95,
        *,
        as_of: int | None = None,
    ) -> Answers:
        """The sums over many ranges of positions."""
        asked = {"starts": np.asarray(starts).tolist(), "ends": np.asarray(ends).tolist()}
        return decoded(self._asked({**asked, "confidence": confidence, "as_of": as_of})["answers"])

    def table(
        self,
        every: int | str,
        confidence: float = 0.95,
        *,
        from_: Moment | None = None,
        to: Moment | None = None,
        key: str | int | None = None,
        keys: Sequence[str | int] | None = None,
    ) -> Answers | TimeTable:
        """The sums over `every` values at a time, or over parts of a range of time.

        Of a stream with keys: by time, of one key or of the total over some, or over all.
        """
        asked = {"every": every, "confidence": confidence, "from": _text(from_), "to": _text(to)}
        found = self._asked({**asked, "keys": _names(key, keys)})
        return decoded_table(found) if "edges" in found else decoded(found["answers"])

    def rows(self, start: int = 0, end: int | None = None) -> Rows:
        """The released rows [start, end), with their levels and times."""
        pages: list[dict[str, Any]] = []
        position = start
        while end is None or position < end:
            limit = _PAGE if end is None else min(_PAGE, end - position)
            path = f"{self._path}/values?start={position}&limit={limit}"
            found = self._gate.call("GET", path, "read")
            if not found["rows"]:
                break
            pages += found["rows"]
            position = found["next"]
        return _rows(pages, start)

    def follow(self, start: int | None = None) -> Iterator[Rows]:
        """Released rows as they come, for ever; from `start` on, or from now on."""
        position = self.position if start is None else start
        headers = {"Last-Event-ID": str(position), "Accept": "text/event-stream"}
        token = self._gate.token("read")
        with self._gate.http.stream(f"{self._path}/live", token, headers) as lines:
            for line in lines:
                if line.startswith(b"data: "):
                    yield _rows([json.loads(line[6:])], position)

    # -- facts -----------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """What is public about the stream."""
        found: dict[str, Any] = self._gate.call("GET", self._path, "read")
        return found

    @property
    def position(self) -> int:
        """How many rows were released."""
        released: int = self.facts()["released"]
        return released

    @property
    def threshold(self) -> float | None:
        """Larger values count as this; None while it is not chosen."""
        threshold: float | None = self.facts()["threshold"]
        return threshold

    @property
    def guarantee(self) -> str:
        """What is promised, as the service derives it."""
        return str(self.facts()["guarantee"])

    def _asked(self, question: dict[str, Any]) -> dict[str, Any]:
        asked = _given(**question)
        path = f"{self._path}/query"
        found: dict[str, Any] = self._gate.call("POST", path, "read", content=asked, repeat=True)
        return found


def plain(numbers: FloatArray) -> list[float | None]:
    """Values for JSON, which knows no infinity: it lies beyond every bound, as does the largest."""
    most = np.finfo(np.float64).max
    return [None if value != value else value for value in np.clip(numbers, -most, most).tolist()]


def _given(**more: Any) -> dict[str, Any]:
    """What is not None."""
    return {name: value for name, value in more.items() if value is not None}


def _names(key: str | int | None, keys: Sequence[str | int] | None) -> list[str] | None:
    if key is not None:
        if keys is not None:
            raise QueryError("give key or keys, not both")
        return [str(key)]
    return None if keys is None else [str(one) for one in keys]


def _one(found: dict[str, Any]) -> Answer:
    return decoded_answer(found["answer"])


def _text(when: Moment | None) -> str | None:
    return None if when is None else str(when)


def _rows(pages: list[dict[str, Any]], start: int) -> Rows:
    """Pages as one table."""
    values, levels = (
        np.array([number for page in pages for number in page[name]], dtype=np.float64)
        for name in ("values", "levels")
    )
    times = None
    if pages and all("times" in page for page in pages):
        ticks = [int(tick) for page in pages for tick in page["times"]]
        times = np.array(ticks, dtype=np.int64)
    return Rows(pages[0]["first"] if pages else start, values, levels, times)
