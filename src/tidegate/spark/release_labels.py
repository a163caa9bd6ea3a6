"""Which release of a streaming query this is: each has noise of its own.

A query may have several (two columns of one source, in a union). Spark tells its tasks the id of
the query, and nothing of the operator that they belong to; the same noise in both would be gone
from the difference of what they release. So the columns that a release reads, and its name, are a
part of the identity of its noise. They are the same after a restart, as the id of the query is.
"""

from __future__ import annotations

import gc
import json
import weakref

from pyspark.sql import DataFrame

from tidegate.errors import SettingError

# Streaming releases of this process that somebody holds, with their labels and sources.
_held: list[tuple[weakref.ref[DataFrame], str, DataFrame]] = []


def label_of(name: str | None, *columns: str | None) -> str:
    """What tells a release from others of the same query."""
    if name is not None and not isinstance(name, str):
        raise SettingError("name", "must be text")
    return json.dumps([name, *columns])


def check_label(df: DataFrame, label: str) -> None:
    """Refuse a second release of other rows that could not be told from the first."""
    if not _told_apart(df, label):
        gc.collect()  # a release that nobody holds any more may wait for the collector
    if not _told_apart(df, label):
        raise SettingError(
            "name",
            "is needed: another release of this program reads columns of the same names from other "
            "rows, and in one query both would get the same noise. Give each a name of its own, "
            "such as name='fares', and keep it",
        )


def _told_apart(df: DataFrame, label: str) -> bool:
    _held[:] = [one for one in _held if one[0]() is not None]
    return not any(known == label and not df.sameSemantics(other) for _, known, other in _held)


def hold_label(released: DataFrame, label: str, df: DataFrame) -> DataFrame:
    """Remember a streaming release for as long as somebody holds it."""
    _held.append((weakref.ref(released), label, df))
    return released
