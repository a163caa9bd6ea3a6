"""Plots and notebook output for a service's stream, as for a local release."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from tidegate.clock import Clock
from tidegate.errors import QueryError, TidegateError
from tidegate.keyed.plot_keys import check_number_of_keys_to_plot, draw_keys
from tidegate.lattice import IntArray
from tidegate.record.record import Record
from tidegate.record.rows_and_levels import Rows, moving_average_of_rows, window_of_rows
from tidegate.released.released_plot import plot_released
from tidegate.run.pipeline import Pipeline
from tidegate.service.client.remote_record import RemoteRecord
from tidegate.tables import html

if TYPE_CHECKING:
    from tidegate.released.released import ReleasedTable
    from tidegate.service.client.remote_keyed import KeyedStream
    from tidegate.service.client.remote_stream import UnkeyedStream
    from tidegate.service.client.remote_stream_base import RemoteStreamBase


def plot(stream: UnkeyedStream, window: int | None, confidence: float, axes: Any) -> Any:
    """Plot the level and the moving average of a stream."""
    return plot_released(cast("ReleasedTable", _Pictured(stream)), window, confidence, axes)


def plot_remote_picture_of_keys(
    stream: KeyedStream, keys: list[str] | None, window: int | None, confidence: float, axes: Any
) -> Any:
    """Plot the moving averages of keys; None: of all keys with rows."""
    names = stream.active() if keys is None else keys
    if not names:
        raise QueryError("nothing is released yet" if keys is None else "there are no keys")
    check_number_of_keys_to_plot(len(names))
    records = {name: cast("Record", RemoteRecord(stream, name)) for name in names}
    return draw_keys(
        records,
        stream.pipeline.perturber.block,
        f"{stream.name}. {stream.guarantee}",
        window=window,
        confidence=confidence,
        axes=axes,
    )


def remote_picture_shown(stream: RemoteStreamBase) -> str:
    """Public facts and a plot of a stream without keys, as HTML."""
    try:
        facts = stream.facts()
    except TidegateError as error:  # it may not be read, or the service is gone
        return html.facts(f"Stream {stream.name}", [("not shown", error)])
    rows: list[tuple[str, object]] = [("kind", facts["kind"])]
    if "keys" in facts:
        rows.append(("keys", f"{facts['keys']:,}"))
    rows += [
        ("released", f"{facts['released']:,} rows"),
        ("threshold", _pictured_state(facts)),
        ("guarantee", facts["guarantee"]),
    ]
    picture = ""
    with suppress(QueryError):  # nothing is measured yet, or it has keys
        picture = "" if "keys" in facts else _small_picture(cast("UnkeyedStream", stream))
    return html.facts(f"Stream {stream.name}", rows, picture)


def _pictured_state(facts: dict[str, Any]) -> str:
    if facts["threshold"] is not None:
        return f"{facts['threshold']:g}"
    if facts["withheld"]:
        return f"holding {facts['withheld']:,} more values"
    warming = facts.get("warming")
    return f"warming up for {warming:,} more values" if warming else "of each key"


def _small_picture(stream: UnkeyedStream) -> str:
    source = _Pictured(stream)
    record = cast("Record", source.record)
    window = window_of_rows(record, source.pipeline.perturber.block)
    sums = moving_average_of_rows(record, window)
    mean, low, high = (column / window for column in (sums.estimate, sums.low, sums.high))
    about = f"Moving average of {window:,} released values, with a 95% band"
    return html.band(mean, low, high, source.labels(), about)


class _Pictured:
    """The facts about a stream that `released.released_plot` needs."""

    def __init__(self, stream: UnkeyedStream) -> None:
        self._stream = stream
        self.record = RemoteRecord(stream)
        self.title = stream.name

    @cached_property
    def _facts(self) -> dict[str, Any]:
        return self._stream.facts()

    @cached_property
    def pipeline(self) -> Pipeline:
        return self._stream.pipeline

    @property
    def guarantee(self) -> str:
        return str(self._facts["guarantee"])

    @property
    def axis_label(self) -> str:
        if not self._facts["timed"]:
            return "position"
        zone = self._facts["zone"]
        return "time" if zone is None else f"time ({zone})"

    @cached_property
    def _rows(self) -> Rows:
        return self._stream.rows(self.record.start, self.record.end)

    def rows(self) -> Rows:
        return self._rows

    def along(self, ends: IntArray) -> NDArray[Any]:
        if self._rows.times is None:
            return ends
        ticks = np.maximum.accumulate(self._rows.times)[ends - 1 - self._rows.first]
        local = Clock(self._facts["zone"]).local(ticks)
        return local.astype("datetime64[ns]").astype("datetime64[ms]")

    def labels(self) -> tuple[str, str]:
        """The labels below both ends."""
        start, end = self.record.start, self.record.end
        if not self._facts["timed"]:
            return f"{start:,}", f"{end:,}"
        times = [self._stream.rows(at, at + 1).times for at in (start, end - 1)]
        ticks = np.concatenate([one for one in times if one is not None])
        first, last = Clock(self._facts["zone"]).texts(ticks)
        return first, last
