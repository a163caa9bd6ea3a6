"""The contracts of readers and sinks of brokers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from tidegate._context_managers import Completed
from tidegate.clock import Clock
from tidegate.io.released_row_text import released_json_rows
from tidegate.io.text_sink import Levels, PositionsOfSink, Times
from tidegate.lattice import FloatArray

MOST = 1024  # messages of a batch


class Message(NamedTuple):
    """A message and its offset, in the order of the broker."""

    offset: str
    payload: bytes

    def __repr__(self) -> str:  # never shows raw values
        return f"<Message {self.offset}>"


class Reader(Protocol):
    """Reads messages in order. Lost connections are made again."""

    numbered: bool
    """Whether the broker numbers messages; else every message must carry a number of its own."""

    def read(self, after: str | None, wait: float) -> Sequence[Message]:
        """The next messages after an offset (None: the first); empty if none came within `wait`."""

    def ended(self, after: str | None) -> bool:
        """Whether there is nothing after this offset at present."""

    def taken(self, messages: Sequence[Message]) -> None:
        """Note that these are committed, with their rows written: the broker may forget them."""

    def close(self) -> None:
        """Close the connection."""


class BrokerSink(Completed):
    """Publishes a JSON object for each row. Subclasses publish, and find how far they came."""

    def __init__(self, epoch: str) -> None:
        self.epoch = epoch
        self.clock: Callable[[], Clock | None] = lambda: None
        self._positions = PositionsOfSink(None)

    def rows_held(self, clock: Callable[[], Clock | None]) -> int:
        """`written`, for a writer that will continue, with times in the form of this clock."""
        self.clock = clock
        return self.written()

    @abstractmethod
    def written(self) -> int:
        """The number of rows that the broker has."""

    @abstractmethod
    def publish(self, first: int, rows: Sequence[bytes]) -> None:
        """Publish rows from position `first` on; when this returns, the broker has stored them."""

    def write(
        self, first_position: int, values: FloatArray, levels: Levels = None, times: Times = None
    ) -> None:
        """Publish rows from `first_position` on, which follow those of the last call."""
        numbers = self._positions.check(first_position, values, levels, times)
        if not numbers[0].size:
            return
        clock = self.clock()
        texts = None if times is None or clock is None else clock.texts(times)
        lines = bytes(released_json_rows(first_position, numbers, texts)).splitlines()
        for start in range(0, len(lines), MOST):
            self.publish(first_position + start, lines[start : start + MOST])

    def flush(self, *, sync: bool = False) -> None:
        """Do nothing: `write` waits for the broker."""

    def set_metadata(self, metadata: Mapping[str, object]) -> None:
        """Do nothing: the state has the facts."""

    def abort(self) -> None:
        """Close the sink."""
        self.close()
