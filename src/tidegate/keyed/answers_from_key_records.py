"""Answers about keys: for one, for each in a table, and totals over groups of keys."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np

from tidegate.errors import QueryError
from tidegate.exact_numbers import whole
from tidegate.keyed.key_names import key_text
from tidegate.keyed.keyed_table import KeyedTable
from tidegate.keyed.keyed_verbs_and_plots import AskedOfKeys, KeyedVerbs
from tidegate.lattice import IntArray
from tidegate.record.answer import Answer
from tidegate.record.answer_text import text_with_notes
from tidegate.record.joint_smoothing import smooth_together
from tidegate.record.moving_sums import MovingSums, MovingWindows, moving_sums
from tidegate.record.range_queries_and_answers import Answers
from tidegate.record.record import Record, record_confidence
from tidegate.record.times.sums_between_times import (
    check_sums_between_times_are_known,
    known_edges_of_sums,
    places_of_sums,
    sums_with_late_rows,
    table_between_times,
    words_of_sums_between_times,
)
from tidegate.record.times.ticks_cut_by_ranges import cut_ticks
from tidegate.record.times.time_index import TimeIndex, TimeKnots
from tidegate.record.times.time_ranges_and_tables import Moment, TimeTable, check_rows_in_time_range
from tidegate.record.times.time_ranges_and_tables import time_range_asked_for as ends_of
from tidegate.run.pipeline import Pipeline


class KeyedQueries(KeyedVerbs):
    """Queries about many keys, answered from their records. No query costs privacy."""

    @abstractmethod
    def record(self, key: Any) -> Record:
        """The record of one key."""

    def _record(self, key: Any) -> Record:
        """The record of a key, for callers that hold `_reading` while they query it."""
        return self.record(key)

    @abstractmethod
    def _active(self) -> list[str]:
        """The keys that have released rows."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Any]:
        """A context to hold while records are read."""

    def _queried(self, key: Any, start: Any, end: Any, asked: AskedOfKeys) -> Answer:
        keys, from_, to, confidence = asked
        ends = (start, end), (from_, to)
        with self._reading():
            if key is None:
                records = [self._record(one) for one in self._group(keys)]
                if (from_, to) != (None, None) and (start, end) == (None, None):
                    index = _whole_time_of_keys(records)
                    cuts = ends_of(index, from_, to)
                    check_sums_between_times_are_known(records, int(cuts[0]))
                    total, rows = self._by_time(records, cuts, confidence)
                    check_rows_in_time_range(index, rows)
                    return replace(total, span=words_of_sums_between_times(index, cuts, to))[0]
                return self._total(
                    records, [_key_range(one, *ends) for one in records], confidence
                )[0]
            record = self._record(key)
            if (from_, to) != (None, None) and (start, end) == (None, None):
                return record.query(from_=from_, to=to, confidence=confidence)
            begin, finish = _key_range(record, *ends)
            return record.queries(begin, finish, confidence)[0]

    def _tables(self, every: int | str, asked: AskedOfKeys) -> KeyedTable:
        keys, from_, to, confidence = asked
        with self._reading():
            names = self._group(keys)
            records = {name: self._record(name) for name in names}
            each = [*records.values()]
            if not isinstance(every, str):
                if from_ is not None or to is not None:
                    raise QueryError("from_ and to need a length of time, such as every='1d'")
                size = whole("every", every, minimum=1)
                smooth_together(each)
                return KeyedTable({n: one.table(size, confidence) for n, one in records.items()})
            cuts, note = _cuts_of_keys(each, every, from_, to)
            places = [places_of_sums(one, cuts) for one in each]
            smooth_together(each, [(at[:-1], at[1:]) for at in places])
            return KeyedTable(
                {
                    name: table_between_times(record, cuts, confidence, note, at)
                    for (name, record), at in zip(records.items(), places, strict=True)
                },
                " ".join(filter(None, (note, cut_ticks(each, cuts)))),
            )

    def _totals(self, every: str, asked: AskedOfKeys) -> TimeTable:
        keys, from_, to, confidence = asked
        with self._reading():
            records = [self._record(one) for one in self._group(keys)]
            cuts, note = _cuts_of_keys(records, every, from_, to)
            total, rows = self._by_time(records, cuts, confidence, note)
            return TimeTable(total, cuts, records[0].time_index.clock, rows)

    def moved_over(self, windows: MovingWindows, key: Any) -> MovingSums:
        """The sums of one key over sliding windows."""
        with self._reading():
            return moving_sums(self._record(key), windows)

    def _drawn(
        self,
        keys: Iterable[Any] | None,
        pipeline: Pipeline,
        heading: str,
        window: int | None,
        confidence: float,
        axes: Any,
    ) -> Any:
        """A picture of these keys, or of all."""
        from tidegate.keyed.plot_keys import (  # on demand: it reads files
            check_number_of_keys_to_plot,
            draw_keys,
        )

        names = self._group(keys)
        check_number_of_keys_to_plot(len(names))
        with self._reading():
            records = {name: self._record(name) for name in names}
            return draw_keys(
                records,
                pipeline.perturber.block,
                heading,
                window=window,
                confidence=confidence,
                axes=axes,
            )

    def _by_time(
        self, records: list[Record], cuts: IntArray, confidence: float, note: str = ""
    ) -> tuple[Answers, IntArray]:
        """Totals between times, which all records must know; and the number of rows of each."""
        places = [places_of_sums(record, cuts) for record in records]
        total = self._total(records, [(at[:-1], at[1:]) for at in places], confidence)
        return sums_with_late_rows(text_with_notes(total, note), records, cuts, places)

    def _group(self, keys: Iterable[Any] | None) -> list[str]:
        names = self._active() if keys is None else [key_text(one) for one in keys]
        if not names:
            raise QueryError("nothing is released yet" if keys is None else "there are no keys")
        if len(set(names)) < len(names):
            raise QueryError("a key comes twice in the group")
        return names

    def _total(
        self, records: list[Record], ranges: list[tuple[IntArray, IntArray]], confidence: float
    ) -> Answers:
        confidence = record_confidence(confidence)
        pairs = [one.checked(*places) for one, places in zip(records, ranges, strict=True)]
        smooth_together(records, pairs)
        found = [one.gathered(*pair, None) for one, pair in zip(records, pairs, strict=True)]
        total, *others = found
        for other in others:
            total.join(other)
        counts: IntArray = np.sum([end - begin for begin, end in pairs], axis=0)
        return text_with_notes(
            total.answers(np.zeros_like(counts), counts, confidence), records[0].note
        )


def _key_range(
    record: Record,
    positions: tuple[Any, Any],
    times: tuple[Moment | None, Moment | None],
) -> tuple[IntArray, IntArray]:
    """The requested positions, as arrays with one entry."""
    start, end = positions
    if times != (None, None):
        raise QueryError("give a range once: start and end, or from_ and to")
    if (start is None) != (end is None):
        raise QueryError("give both start and end, or neither for all rows")
    first = 0 if start is None else start
    last = record.end if end is None else end
    return np.array([first]), np.array([last])


def _cuts_of_keys(
    records: list[Record], every: str, from_: Moment | None, to: Moment | None
) -> tuple[IntArray, str]:
    """The edges that all keys share, and a note about parts that are left out."""
    return known_edges_of_sums(records, _whole_time_of_keys(records), every, from_, to)


def _whole_time_of_keys(records: list[Record]) -> TimeIndex:
    """A time index from the first to the last time of these keys."""
    known = [one for one in (each.time_index for each in records) if one.end > one.start]
    if not known:
        raise QueryError("nothing is released yet")
    ticks = [min(one.first_time for one in known), max(one.last_time for one in known)]
    return TimeIndex(known[0].clock, TimeKnots(np.array([0, 1]), np.array(ticks)))
