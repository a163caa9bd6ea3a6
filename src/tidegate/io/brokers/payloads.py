"""Payloads of messages: a number, an array of numbers, or a JSON object with columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tidegate.errors import InputError, SettingError
from tidegate.io.batches import Batch, object_array
from tidegate.io.brokers.broker_protocols import Message
from tidegate.io.column_choice import WantedColumn
from tidegate.io.json_rows import JsonRows
from tidegate.io.time_reader import TimeReader
from tidegate.lattice import FloatArray
from tidegate.timestamps import Times

_FORM = "is neither a number nor an array of numbers. Name the key of its value with --column"


class TakenPayloads(NamedTuple):
    """The values of some messages, and the number of values in each."""

    batch: Batch
    offsets: list[str]
    counts: list[int]


class Payloads:
    """Parses messages one after another.

    Args:
        column: the key of the value, if messages are JSON objects; None: they are numbers, or
            arrays of them.
        time, zone, late: as of `open_source`; `time` is a key of the objects.
        order: the key of the number of a message, for brokers that give it none. A message whose
            number is not above the newest one taken is dropped: it was delivered again, or late.
    """

    def __init__(
        self,
        *,
        column: str | None = None,
        time: str | None = None,
        zone: str | None = None,
        late: str = "refuse",
        order: str | None = None,
    ) -> None:
        if column is None and (time is not None or order is not None):
            raise SettingError("column", "is missing: the key of the value in a message")
        wanted = [] if column is None else [WantedColumn(column)]
        if time is not None:
            wanted.append(WantedColumn(time, "time", numeric=False, time=True))
        if order is not None:
            wanted.append(WantedColumn(order, "order", numeric=False))
        self._rows = None if column is None else JsonRows(wanted)
        self._times = None if time is None else TimeReader(zone, late)
        self._order = order
        self.numbered = order is not None  # by the producer

    def read(self, messages: Sequence[Message], after: str | None) -> TakenPayloads:
        """The values of messages that follow the offset `after`."""
        if self._rows is None:
            parts = [_payload_numbers(message) for message in messages]
            counts = [part.size for part in parts]
            whole = np.concatenate([np.zeros(0), *parts])
            return TakenPayloads(Batch(whole), [one.offset for one in messages], counts)
        rows = [self._row(message) for message in messages]
        offsets = [message.offset for message in messages]
        if self._order is not None:
            numbers = [self._number(row[-1], one) for row, one in zip(rows, messages, strict=True)]
            newest = int(after) if after is not None else None
            first: dict[int, int] = {}
            for at, number in enumerate(numbers):
                if newest is None or number > newest:
                    first.setdefault(number, at)
            kept = [first[number] for number in sorted(first)]
            rows, offsets = [rows[at] for at in kept], [str(numbers[at]) for at in kept]
        values = np.array([row[0] for row in rows], dtype=np.float64)
        times: Times | None = None
        if self._times is not None and rows:
            times, problem = self._times.read(object_array([row[1] for row in rows]))
            if problem is not None:
                raise problem
        return TakenPayloads(Batch(values, times=times), offsets, [1] * len(rows))

    def _row(self, message: Message) -> list[Any]:
        if self._rows is None:
            raise AssertionError("only objects have columns")
        try:
            return self._rows.one(message.payload, 0)
        except InputError as error:
            said = str(error).replace(" at row 0", "").replace("row 0", "it")
            raise InputError(f"message {message.offset}: {said}") from None

    def _number(self, number: Any, message: Message) -> int:
        if type(number) is not int:
            raise InputError(f"message {message.offset} has no whole number {self._order!r}")
        return number


def _payload_numbers(message: Message) -> FloatArray:
    try:
        # No number is too large to be read: it is clamped, like any other above the bound.
        found = json.loads(message.payload, parse_int=float) if message.payload.strip() else None
    except (ValueError, RecursionError):
        raise InputError(f"message {message.offset} {_FORM}") from None
    listed = found if isinstance(found, list) else [found]
    if not all(one is None or isinstance(one, int | float) for one in listed):
        raise InputError(f"message {message.offset} {_FORM}")
    return np.array([np.nan if one is None else one for one in listed], dtype=np.float64)
