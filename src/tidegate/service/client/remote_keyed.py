"""Streams of a service with keys: the interface of a local keyed release.

KeyedStream        push(keys, values, times)            as `KeyedRelease`
KeyedEventStream   push(keys, times, values), advance   as `KeyedEventRelease`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

import numpy as np

from tidegate.clock import Clock
from tidegate.errors import QueryError, SettingError
from tidegate.keyed.key_names import key_text
from tidegate.keyed.keyed_rows import KeyedRows
from tidegate.keyed.keyed_table import KeyedTable
from tidegate.keyed.keyed_verbs_and_plots import AskedOfKeys, KeyedVerbs, PlottedKeys
from tidegate.record.answer import Answer
from tidegate.record.mean_and_ratio import Mean
from tidegate.record.moving_sums import MovingSums, MovingWindows
from tidegate.record.range_queries_and_answers import Answers
from tidegate.record.times.time_ranges_and_tables import Moment, TimeTable
from tidegate.service.answers_json import decoded_answer, decoded_answers, decoded_table_answers
from tidegate.service.client import remote_picture
from tidegate.service.client.pushed_columns import pushed_columns, refuse_pushed_late
from tidegate.service.client.remote_record import RemoteRecord, remote_time_text
from tidegate.service.client.remote_stream import NO_TICKS
from tidegate.service.client.remote_stream_base import RemoteStreamBase, remote_page_times


class KeyedStream(RemoteStreamBase, KeyedVerbs, PlottedKeys):
    """A stream of readings for each key: the methods of `KeyedRelease`, over HTTP."""

    def push(
        self, keys: Any, values: Any, times: Any = None, late: str = "refuse"
    ) -> KeyedRows | None:
        """Send rows of any keys; return the released rows, once they are durable.

        As `KeyedRelease.push`; rows that others push meanwhile are among them. None if no token
        may read.
        """
        refuse_pushed_late(late)
        given = pushed_columns("push(keys, values, times)", values, times, keys, keyed=True)
        before = self.position if self._reads() else 0
        self._sent(given)
        return self.rows(before) if self._reads() else None

    def advance(self, until: Moment) -> KeyedRows | None:
        """Refuse: only event streams have ticks."""
        raise SettingError("until", NO_TICKS)

    def finish(self) -> Any:
        """End open warm-ups with the rows so far: for streams that are over."""
        self._finished()

    # -- answers out -----------------------------------------------------------------------------

    @property
    def keys(self) -> list[str]:
        """All keys: declared ones, or those seen so far."""
        return [key for key, _ in self._counts()]

    def active(self) -> list[str]:
        """The keys that have released rows."""
        return [key for key, count in self._counts() if count]

    def _counts(self) -> list[tuple[str, int]]:
        """All keys, and the number of released rows of each."""
        found: list[tuple[str, int]] = []
        place: int | None = 0
        while place is not None:
            path = f"{self._path}/keys?start={place}&limit=10000"
            page = self._gate.call("GET", path, "read")
            found += zip(page["keys"], page["released"], strict=True)
            place = page["next"]
        return found

    def _queried(self, key: Any, start: Any, end: Any, asked: AskedOfKeys) -> Answer:
        question = _remote_keyed_question(asked if key is None else asked._replace(keys=[key]))
        if start is not None and end is not None:
            question |= {"starts": [start], "ends": [end]}
        elif start is not None or end is not None:
            raise QueryError("give both start and end, or neither for all rows")
        found = self.asked(question)
        return (
            decoded_answers(found["answers"])[0]
            if "answers" in found
            else decoded_answer(found["answer"])
        )

    def moved_over(self, windows: MovingWindows, key: Any) -> MovingSums:
        """The sums of one key over sliding windows."""
        return RemoteRecord(self, key_text(key)).moved_over(windows)

    def mean(self, *where: Any, **how: Any) -> Mean:
        """The mean over the rows of a range; arguments as for `query`."""
        return Mean.of(self.query(*where, **how))

    def _tables(self, every: int | str, asked: AskedOfKeys) -> KeyedTable:
        found = self.asked({"every": every, "each": True, **_remote_keyed_question(asked)})
        parts: dict[str, TimeTable | Answers] = {
            name: decoded_table_answers(one) if "edges" in one else decoded_answers(one["answers"])
            for name, one in found["tables"].items()
        }
        return KeyedTable(parts, str(found.get("note", "")))

    def _totals(self, every: str, asked: AskedOfKeys) -> TimeTable:
        return decoded_table_answers(self.asked({"every": every, **_remote_keyed_question(asked)}))

    def rows(
        self, start: int = 0, end: int | None = None, *, key: str | int | None = None
    ) -> KeyedRows:
        """The released rows [start, end) of all keys, in order of release.

        With a `key`, those of them that it has.
        """
        more = "" if key is None else f"&key={quote(key_text(key), safe='')}"
        return _keyed_rows(self._pages(start, end, more), self._clock())

    def follow(self, start: int | None = None) -> Iterator[KeyedRows]:
        """Released rows as they come, without end; from `start` on, or from now on."""
        clock: Clock | None = None
        for page in self._live(start):
            clock = clock or self._clock()
            yield _keyed_rows([page], clock)

    def _plotted(
        self, key: Any, keys: Iterable[Any] | None, window: int | None, confidence: float, ax: Any
    ) -> Any:
        names = _names_of_remote_keys(keys if key is None else [key])
        return remote_picture.plot_remote_picture_of_keys(self, names, window, confidence, ax)

    def _clock(self) -> Clock | None:
        facts = self.facts()
        return Clock(facts["zone"]) if facts["timed"] else None

    def _repr_html_(self) -> str:
        return remote_picture.remote_picture_shown(self)


class KeyedEventStream(KeyedStream):
    """Events of each key: `push` takes them, `advance` releases ticks, as `KeyedEventRelease`."""

    def push(  # type: ignore[override]  # as in the library
        self, keys: Any, times: Any, values: Any = None
    ) -> None:
        """Send events: key and time of each, and its value; None: each counts as one."""
        self._sent(
            pushed_columns(
                "push(keys, times, values)", values, times, keys, keyed=True, events=True
            )
        )

    def advance(self, until: Moment) -> KeyedRows | None:
        """Release every tick that is over at `until`, for all keys; None if no token may read."""
        before = self.position if self._reads() else 0
        self._advanced(until)
        return self.rows(before) if self._reads() else None

    def finish(self, until: Moment | None = None) -> KeyedRows | None:
        """`advance`, then end open warm-ups: for a log that is over."""
        before = self.position if self._reads() else 0
        if until is not None:
            self._advanced(until)
        self._finished()
        return self.rows(before) if self._reads() else None


def _names_of_remote_keys(keys: Iterable[Any] | None) -> list[str] | None:
    return None if keys is None else [key_text(one) for one in keys]


def _remote_keyed_question(asked: AskedOfKeys) -> dict[str, Any]:
    ends = {"from": remote_time_text(asked.from_), "to": remote_time_text(asked.to)}
    return {"keys": _names_of_remote_keys(asked.keys), **ends, "confidence": asked.confidence}


def _keyed_rows(pages: list[dict[str, Any]], clock: Clock | None) -> KeyedRows:
    """Join pages into one table."""
    keys = [key for page in pages for key in page["keys"]]
    names = {key: code for code, key in enumerate(dict.fromkeys(keys))}
    values, levels = (
        np.array([number for page in pages for number in page[name]], dtype=np.float64)
        for name in ("values", "levels")
    )
    positions = np.array([one for page in pages for one in page["positions"]], dtype=np.int64)
    codes = np.array([names[key] for key in keys], dtype=np.int64)
    return KeyedRows(list(names), codes, positions, values, levels, remote_page_times(pages), clock)
