"""One threshold for all keys, chosen from a sample before the release begins."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tidegate.errors import SettingError
from tidegate.guarantee import Guarantee, by_key, parallel, sequential
from tidegate.randomness import secure
from tidegate.run import two_sided_caps
from tidegate.run.pipeline import Pipeline
from tidegate.settings import digest
from tidegate.spark.frames import check_number_in_frame
from tidegate.threshold import Fixed


@dataclass(frozen=True)
class SharedThreshold:
    """A pipeline with a known threshold, and the cost of choosing it.

    Attributes:
        pipeline: with the chosen threshold, as a public number: for `release`.
        guarantee: of everything that is published, for a row of the sample and any other row.
        sampled: how many values chose.
    """

    pipeline: Pipeline
    guarantee: Guarantee
    sampled: int


def shared_threshold(
    sample: DataFrame, pipeline: Pipeline, *, value: str, released: bool
) -> SharedThreshold:
    """Choose one threshold for all keys of a pipeline from the values of a sample.

    For keys with few rows: none of them could choose one by itself. It is also the default of keys
    that come later.

    **Privacy.** Released: θ, by the pipeline's own rule, from the first `holdout` values of the
    sample; it costs each of them what the rule costs (`Pipeline.choice_guarantee`). Where the rows
    of the sample are `released`, too, a value is used twice: budgets add up. Where they are left
    out, every value is used once: the larger counts. A method that protects a window natively adds
    up all the same: a window may lie across sample and stream, as in `Pipeline.guarantee`. Users
    are refused: nobody counts whose values the sample has. Which rows are in the sample must not
    depend on values.

    Args:
        sample: rows of any keys; as many as the pipeline holds out are needed.
        pipeline: with a hold-out, such as `tidegate.tops(…, holdout=4096)`.
        value: the column with the values.
        released: whether rows of the sample will be released, too.
    """
    needed = pipeline.threshold.holdout
    if not needed or pipeline.reselect is not None or pipeline.ticks is not None:
        raise SettingError("pipeline", "must have a hold-out: tidegate.tops(..., holdout=4096)")
    if pipeline.unit.counted_per_user is not None:
        raise SettingError("pipeline", "must not protect users: nobody knows whose sample it is")
    check_number_in_frame(sample, value)
    rows = sample.select(F.col(value).cast("double")).limit(needed).collect()
    if len(rows) < needed:
        raise SettingError("sample", f"has {len(rows)} rows, but {needed} are needed")
    numbers = np.array([np.nan if row[0] is None else row[0] for row in rows])
    lattice, epoch = pipeline.lattice, secure().new_epoch()
    identity = digest({**pipeline.resolved_settings, "threshold": "shared in Spark"})
    chosen = two_sided_caps.choose_caps(
        pipeline.threshold,
        lattice.units(numbers),
        lattice,
        lambda name: epoch.keystream(name, identity),
    )
    if chosen.below:
        raise SettingError("pipeline", "must not have values below 0 (lower)")
    fixed = replace(pipeline, threshold=Fixed(chosen.above * pipeline.resolution))
    compose = sequential if released or pipeline.native else parallel
    both = compose(pipeline.unit.widen(pipeline.choice_guarantee), fixed.guarantee)
    return SharedThreshold(fixed, by_key(both), needed)
