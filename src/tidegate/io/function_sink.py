"""A function as a sink: rows go to Python code instead of a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidegate._contexts import Completed
from tidegate.io.text_sink import Levels, Positions, Times
from tidegate.lattice import FloatArray

Receiver = Callable[[int, FloatArray], object]


class FunctionSink(Completed):
    """Calls `receive(first_position, values)` for each block of rows, in order of position.

    >>> rows = {}
    >>> with FunctionSink(
    ...     lambda first, values: rows.update(enumerate(values.tolist(), first))
    ... ) as sink:
    ...     sink.write(0, [10.5, 12.0])
    ...     sink.write(2, [9.5])
    >>> rows
    {0: 10.5, 1: 12.0, 2: 9.5}

    Args:
        receive: takes the position of the first row, and the values of this and the next rows.
        following: the position that the first write must have; None: any.

    Attributes:
        metadata: the newest public facts about the rows; empty before any were set.
    """

    def __init__(self, receive: Receiver, following: int | None = None) -> None:
        self._receive = receive
        self._positions = Positions(following)
        self.metadata: dict[str, object] = {}

    def __repr__(self) -> str:
        return "<FunctionSink>"

    def write(
        self, first_position: int, values: FloatArray, levels: Levels = None, times: Times = None
    ) -> None:
        """Hand over rows from `first_position` on, which follow those of the call before."""
        array, *_ = self._positions.check(first_position, values, levels, times)
        if array.size:
            self._receive(first_position, array)

    def flush(self, *, sync: bool = False) -> None:
        """Do nothing: the function has every row already."""

    def set_metadata(self, metadata: Mapping[str, object]) -> None:
        """Replace the public facts about the rows."""
        self.metadata = dict(metadata)

    def close(self) -> None:
        """Do nothing: a function has no end."""

    def abort(self) -> None:
        """Do nothing."""
