"""The ledger of a release in Spark: every released row has the cost of its epoch.

Executors share no file, so a charge is a part of the rows it pays for: it cannot be lost without
them, or be written without them. Folding the rows gives what each key has spent.
"""

from __future__ import annotations

from fractions import Fraction

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tidegate.exact_numbers import exact


def charges(released: DataFrame) -> DataFrame:
    """The charges of released rows: (key, epoch, epsilon), each once."""
    return released.select("key", "epoch", "epsilon").distinct()


def spent_by_key(released: DataFrame) -> DataFrame:
    """The exact ε that each key has spent: (key, epochs, epsilon).

    Epochs of one key are releases of the same source, so they add up.
    """

    total = F.udf(_total_charge, "string", useArrow=False)
    return (
        charges(released)
        .groupBy("key")
        .agg(F.count("epoch").alias("epochs"), F.collect_list("epsilon").alias("epsilon"))
        .withColumn("epsilon", total("epsilon"))
    )


def _total_charge(amounts: list[str]) -> str:
    return str(sum((exact("epsilon", one) for one in amounts), start=Fraction(0)))
