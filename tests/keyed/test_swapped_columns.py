"""Keys and values in the wrong order."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import tidegate as tg

KEYS = ["north", "south", "north"]


def started(keys):
    return tg.keyed(tg.adaptive(epsilon=1, bound=9, horizon=64), keys=keys).start()


@pytest.mark.parametrize(
    "keys",
    [KEYS, np.array(KEYS), pd.Series(KEYS), pd.Series(KEYS).astype("category"), pl.Series(KEYS)],
)
def test_swapped_columns_are_told_how_to_write_them(keys):
    """It said to turn the keys into numbers with pandas.to_numeric."""
    with pytest.raises(tg.errors.InputError, match=r"text, not numbers: write push\(keys, values"):
        started(["north", "south"]).push([1.0, 2.0, 3.0], keys)


@pytest.mark.parametrize("keys", [["7", "8"], [7, 8]])
def test_rightly_placed_columns_are_taken(keys):
    release = started(["7", "8"])
    release.push(keys, [1.0, 2.0])
    assert release.position == 2


@pytest.mark.parametrize("values", [["7", "8"], np.array([1, 2], dtype="datetime64[s]")])
def test_a_refused_column_counts_no_dropped_rows(values):
    """How many rows of undeclared keys came before stays unsaid, as in every other message."""
    release = started(["1", "2"])
    release.push(["other"] * 5, [1.0] * 5)
    with pytest.raises(tg.errors.InputError, match="values at position 0 are "):
        release.push([1, 2], values)
