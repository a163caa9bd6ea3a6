"""The label of a release in a streaming query: each label has its own noise.

A query may have several (two columns of one source, in a union). Spark tells its tasks the id of
the query, and nothing of the operator that they belong to; the same noise in both would be gone
from the difference of what they release. So the columns that a release reads, and its name, are a
part of the identity of its noise. They are the same after a restart, as the id of the query is.

A state is bound to the label of its release. A batch that Spark replays has noise that the world
has seen, perhaps, so it must have the same values: other columns are refused.
"""

from __future__ import annotations

import gc
import json
import weakref

from pyspark.sql import DataFrame

from tidegate.errors import SettingError, SnapshotError
from tidegate.spark.sequence_numbers import CLOSE

# Streaming releases of this process that somebody holds, with their labels and sources.
_held: list[tuple[weakref.ref[DataFrame], str, DataFrame]] = []


def label_of(name: str | None, *columns: str | None, gaps: str = CLOSE) -> str:
    """The label that distinguishes releases in one query.

    Where gaps are filled, or refused until they will be, rows have other positions than where gaps
    are closed.
    """
    if name is not None and not isinstance(name, str):
        raise SettingError("name", "must be text")
    return json.dumps([name, *columns, *([] if gaps == CLOSE else ["gaps are filled"])])


def check_label_of_state(stored: str | None, wanted: str) -> None:
    """Refuse the state of another release.

    Raises:
        SnapshotError: it was begun with other columns, or by a version whose noise had no labels.
    """
    if stored is None:
        raise SnapshotError(
            "the checkpoint was begun by an older version of Tidegate, whose noise had other keys. "
            "Begin with a new checkpointLocation, which is charged on top, and delete the old one"
        )
    if stored != wanted:
        raise SnapshotError(
            f"the checkpoint belongs to the release {stored} (name, columns, policy for gaps), "
            f"and this one is {wanted}. A batch that is replayed would put the same noise on other "
            "values. Name columns, release and gaps as they were, or begin with a new "
            "checkpointLocation, which is charged on top"
        )


def check_label(df: DataFrame, label: str) -> None:
    """Refuse a second release of other rows with the same label."""
    if not _labels_told_apart(df, label):
        gc.collect()  # a release that nobody holds any more may wait for the collector
    if not _labels_told_apart(df, label):
        raise SettingError(
            "name",
            "is needed: another release of this program reads columns of the same names from other "
            "rows, and in one query both would get the same noise. Give each a name of its own, "
            "such as name='fares', and keep it",
        )


def _labels_told_apart(df: DataFrame, label: str) -> bool:
    _held[:] = [one for one in _held if one[0]() is not None]
    return not any(known == label and not df.sameSemantics(other) for _, known, other in _held)


def hold_label(released: DataFrame, label: str, df: DataFrame) -> DataFrame:
    """Reserve the label of a streaming release for as long as the result is referenced."""
    _held.append((weakref.ref(released), label, df))
    return released
