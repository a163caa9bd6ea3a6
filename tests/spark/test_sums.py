"""Range sums over a released table are those of the release itself."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="needs pyspark: pip install '.[spark]'")

import tidegate as tg
import tidegate.spark as ts
from tests.spark.streams import fixed, made_up
from tidegate.errors import SettingError


def test_sums_and_totals_are_those_of_the_keyed_release(spark: Any, tmp_path: Path) -> None:
    data = made_up(3, 300)
    release = tg.keyed(fixed(), keys=list(data)).start(tg.seeded(4))
    rows = release.push(np.repeat(list(data), 300), np.concatenate(list(data.values())))
    table = rows.to_pandas().assign(time=None, epoch="e", epsilon="1")
    rows_of_table = table.sample(frac=1, random_state=1)[["key", "position", "value", "epoch"]]
    place = str(tmp_path / "table")  # files by epoch, as lakes lay tables out
    spark.createDataFrame(rows_of_table).write.partitionBy("epoch").parquet(place)
    frame = spark.read.parquet(place)
    found = ts.range_sums(frame, fixed(), start=17, end=281).toPandas().set_index("key")
    ts.register(spark, fixed())
    frame.createOrReplaceTempView("private")
    asked = "SELECT key, tidegate_sum(position, value, 17, 281) AS s FROM private GROUP BY key"
    by_sql = {row["key"]: row["s"] for row in spark.sql(asked).collect()}
    for key in data:
        wanted = release.query(17, 281, key=key)
        expected = [wanted.estimate, wanted.low, wanted.high, wanted.standard_error]
        mine = found.loc[key][["estimate", "low", "high", "standard_error"]]
        np.testing.assert_allclose(mine.to_numpy(dtype=float), expected, rtol=1e-9)
        np.testing.assert_allclose(by_sql[key], expected, rtol=1e-9)
    total = ts.totals(ts.range_sums(frame, fixed(), start=17, end=281)).toPandas().iloc[0]
    wanted = release.query(17, 281)
    expected = [wanted.estimate, wanted.low, wanted.high, wanted.standard_error]
    mine = total[["estimate", "low", "high", "standard_error"]].to_numpy(dtype=float)
    np.testing.assert_allclose(mine, expected, rtol=1e-9)
    with pytest.raises(SettingError, match="chosen thresholds"):
        ts.range_sums(frame, tg.adaptive(epsilon=1, bound=50, horizon=1000))


def test_a_shared_threshold_says_what_it_costs(spark: Any) -> None:
    pipeline = tg.tops(epsilon=1, bound=50, horizon=500, holdout=256)
    values = [(float(one),) for one in made_up(1, 300)["key-0"]]
    sample = spark.createDataFrame(values, "watts double")
    apart = ts.shared_threshold(sample, pipeline, value="watts", released=False)
    assert 0 < apart.pipeline.threshold.value <= 50
    assert apart.pipeline.holdout == 0
    assert (apart.guarantee.epsilon, apart.sampled) == (1, 256)
    assert apart.guarantee.unit == "event of any key"
    both = ts.shared_threshold(sample, pipeline, value="watts", released=True)
    assert both.guarantee.epsilon == 2
    # A window may lie across sample and stream: both count, as where values are held out.
    windows = tg.sampling(epsilon=1, bound=50, holdout=256)
    found = ts.shared_threshold(sample, windows, value="watts", released=False)
    assert found.guarantee.epsilon == windows.guarantee.epsilon == 1
    users = tg.tops(epsilon=1, bound=50, holdout=256, unit=tg.units.UserHorizon(most=2))
    with pytest.raises(SettingError, match="must not protect users"):
        ts.shared_threshold(sample, users, value="watts", released=False)
    with pytest.raises(SettingError, match="sample: has 10 rows, but 256 are needed"):
        ts.shared_threshold(sample.limit(10), pipeline, value="watts", released=True)
    with pytest.raises(SettingError, match="must have a hold-out"):
        ts.shared_threshold(sample, fixed(), value="watts", released=True)
