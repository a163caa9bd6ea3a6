"""Range sums with intervals over the table of released rows, inside Spark; totals over keys.

No question costs privacy: all that is read was released.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tidegate.errors import QueryError, SettingError
from tidegate.lattice import FloatArray
from tidegate.record.record import Record, error_multiple, record_confidence
from tidegate.released.scan_into_block_sums import scan_block_sums, scanned_spans
from tidegate.released.sums_index_file import SumsIndex
from tidegate.run.phased_run import Phase
from tidegate.run.pipeline import Pipeline
from tidegate.spark.frames import unpack
from tidegate.threshold import Fixed

_COLUMNS = ("estimate", "low", "high", "standard_error")
_VARIANCES = ("noise_variance", "prediction_variance", "largest_variance")  # for totals
_SCHEMA = "key string, epoch string, start long, end long, " + ", ".join(
    f"{name} double" for name in (*_COLUMNS, *_VARIANCES)
)


def range_sums(
    released: DataFrame,
    pipeline: Pipeline,
    *,
    start: int | None = None,
    end: int | None = None,
    from_: Any = None,
    to: Any = None,
    confidence: float = 0.95,
) -> DataFrame:
    """The sum over a range of each key: (key, epoch, start, end, estimate, low, high, …).

    The same numbers as `tidegate.open(…).query(key=…)` gives for a file. Keys without a row in the
    range have none here.

    Args:
        released: rows that `release` wrote, of this pipeline; packed or not.
        pipeline: whose threshold is a `threshold.Fixed`: a chosen one is not in the rows.
        start, end: positions of every key, half-open; None: from the first row, to the last.
        from_, to: times instead: rows from `from_` on, and before `to`.
        confidence: of the intervals.
    """
    _check_range_sums(pipeline)
    confidence = record_confidence(confidence)
    if (start is not None or end is not None) and (from_ is not None or to is not None):
        raise QueryError("give a range once: start and end, or from_ and to")
    rows = unpack(released)
    inside = F.lit(True)
    for bound, column, above in (
        (start, "position", True), (end, "position", False), (from_, "time", True),
        (to, "time", False),
    ):  # fmt: skip
        if bound is not None:
            inside &= F.col(column) >= F.lit(bound) if above else F.col(column) < F.lit(bound)
    settings = pipeline.settings()

    def answered(group: tuple[Any, ...], frame: pd.DataFrame) -> pd.DataFrame:
        frame = frame.sort_values("position")
        positions, asked = frame["position"].to_numpy(), frame["inside"].to_numpy(dtype=bool)
        if not asked.any():
            return pd.DataFrame({name: [] for name in _NAMES}).astype(_TYPES)
        first, last = int(positions[asked].min()), int(positions[asked].max()) + 1
        same = Pipeline.from_settings(settings)
        numbers = _range_answer(same, positions, frame["value"].to_numpy(), first, last, confidence)
        found = [*group, first, last, *numbers]
        return pd.DataFrame([found], columns=list(_NAMES))

    columns = ["key", "epoch", "position", "value", inside.alias("inside")]
    return rows.select(*columns).groupBy("key", "epoch").applyInPandas(answered, _SCHEMA)


_NAMES = ("key", "epoch", "start", "end", *_COLUMNS, *_VARIANCES)
_TYPES = {"key": object, "epoch": object, "start": "int64", "end": "int64"} | dict.fromkeys(
    (*_COLUMNS, *_VARIANCES), "float64"
)


def totals(sums: DataFrame, *by: str, confidence: float = 0.95) -> DataFrame:
    """Totals over groups of keys, from `range_sums`: (…, keys, estimate, low, high, …).

    Noise of different keys is independent, so variances add up.

    Args:
        sums: one row for each key; join the group of each key first.
        by: columns that name the group; none: the total over all keys.
        confidence: of the intervals.
    """
    confidence = record_confidence(confidence)
    found = sums.groupBy(*by).agg(
        F.count("key").alias("keys"),
        F.sum("estimate").alias("estimate"),
        F.sum("noise_variance").alias("noise_variance"),
        F.sum("prediction_variance").alias("prediction_variance"),
        F.max("largest_variance").alias("largest_variance"),
    )
    more = ", ".join(f"{name} double" for name in ("standard_error", "low", "high"))

    def widened(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            noise, largest = frame["noise_variance"].to_numpy(), frame["largest_variance"]
            error = np.sqrt(noise + frame["prediction_variance"].to_numpy())
            width = error_multiple(noise, largest.to_numpy(), confidence) * error
            middle = frame["estimate"]
            yield frame.assign(standard_error=error, low=middle - width, high=middle + width)

    kinds = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in found.schema)
    wide = found.mapInPandas(widened, f"{kinds}, {more}")
    return wide.select(*by, "keys", *_COLUMNS)


def register(spark: SparkSession, pipeline: Pipeline, confidence: float = 0.95) -> None:
    """Add `tidegate_sum(position, value, start, end)` to SQL: an aggregate over the rows of a key.

    It gives an array: estimate, low, high, standard error. All rows of one key and epoch must be in
    the group:

        SELECT key, tidegate_sum(position, value, 0, 86400)[1] AS low
        FROM private GROUP BY key, epoch
    """
    _check_range_sums(pipeline)
    confidence = record_confidence(confidence)
    settings = pipeline.settings()

    def summed(position: pd.Series, value: pd.Series, start: pd.Series, end: pd.Series) -> Any:
        order = np.argsort(position.to_numpy())
        positions, values = position.to_numpy()[order], value.to_numpy()[order]
        same = Pipeline.from_settings(settings)
        first, last = int(start.iloc[0]), int(end.iloc[0])
        return _range_answer(same, positions, values, first, last, confidence)[: len(_COLUMNS)]

    # Spark tells an aggregate by its hints, which must not be texts.
    summed.__annotations__ = {
        "position": pd.Series, "value": pd.Series, "start": pd.Series, "end": pd.Series,
        "return": float,
    }  # fmt: skip
    function = F.pandas_udf(summed, "array<double>")
    spark.udf.register("tidegate_sum", function)


def _check_range_sums(pipeline: Pipeline) -> None:
    if type(pipeline.threshold) is not Fixed or not pipeline.estimator.adds_up:
        raise SettingError(
            "pipeline",
            "must have a threshold.Fixed and values that add up: rows do not tell chosen "
            "thresholds. Add up the values of others, without an interval",
        )


def _range_answer(
    pipeline: Pipeline,
    positions: Any,
    values: FloatArray,
    start: int,
    end: int,
    confidence: float,
) -> Sequence[float]:
    if not np.array_equal(positions, np.arange(positions.size)):
        raise QueryError("rows of a key are missing, come twice or are of several epochs")
    record = _range_record(pipeline, values)
    pair = record.checked(np.array([start]), np.array([end]))
    found = record.gathered(*pair, None)
    answers = found.answers(*pair, confidence)
    numbers = [getattr(answers, name) for name in _COLUMNS]
    return [float(one[0]) for one in (*numbers, found.noise, found.prediction, found.largest)]


def _range_record(pipeline: Pipeline, values: FloatArray) -> Record:
    """The record of one key, from its rows."""
    fixed: Any = pipeline.threshold
    phases = [Phase(0, float(fixed.value), "")]
    out = BytesIO()
    found = scan_block_sums(out, pipeline, scanned_spans(pipeline, phases, "the table"), [values])
    facts = {"segments": found["segments"], "version": {}, "metadata": {}}
    index = SumsIndex(out.getvalue(), facts)  # type: ignore[arg-type]  # bytes read as a mapping does
    return index.record(pipeline, str(pipeline.guarantee))
