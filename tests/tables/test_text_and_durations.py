"""Columns of text, of durations and of truth values: read where they can be, or refused by name."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

import tidegate as tg

pd = pytest.importorskip("pandas", reason="tables need the extra [tables]")
pl = pytest.importorskip("polars", reason="tables need the extra [tables]")
pa = pytest.importorskip("pyarrow", reason="tables need the extra [tables]")


TEXTS = ["12.5"] * 40


@pytest.mark.parametrize(
    "column",
    [
        TEXTS,
        np.array(TEXTS),
        pd.Series(TEXTS),
        pd.Series(TEXTS, dtype="category"),
        pl.Series(TEXTS),
        pl.Series(TEXTS, dtype=pl.Categorical),
        pa.array(TEXTS),
        pa.array(TEXTS).dictionary_encode(),
        pa.array(TEXTS, pa.large_string()),
    ],
)
def test_numbers_written_as_text_are_called_text(column) -> None:
    with pytest.raises(tg.InputError, match="value at position 0 is not a number; it is text") as e:
        tg.release(column, epsilon=1, bound=50)
    assert "12.5" not in str(e.value)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "list"])
def test_durations_and_truths_are_no_times(library: str) -> None:
    for values in ([timedelta(seconds=at) for at in range(40)], [False, True] * 20):
        column = {
            "pandas": pd.Series,
            "polars": pl.Series,
            "pyarrow": pa.array,
            "list": list,
        }[library](values)
        with pytest.raises(tg.InputError, match=r"times must be dates and times|is not a time"):
            tg.release(range(40), time=column, epsilon=1, bound=50)


def test_times_as_text_of_arrow() -> None:
    """A string of pyarrow is no str of Python: such a column was refused."""
    texts = [f"2024-03-01T00:{minute:02}:00Z" for minute in range(40)]
    for column in (pa.array(texts), pa.chunked_array([texts]), pa.array(texts).dictionary_encode()):
        table = pa.table({"when": column, "load": range(40)})
        released = tg.release(table, value="load", time="when", epsilon=3, bound=50)
        assert released.query("2024-03-01T00:10Z", "2024-03-01T00:20Z").end == 20


def test_other_forms_of_times_say_what_to_do() -> None:
    table = pd.DataFrame({"when": ["31.12.2024 23:59"] * 40, "load": range(40)})
    with pytest.raises(tg.InputError, match=r"position 0 is neither.*with pandas.to_datetime"):
        tg.release(table, value="load", time="when", epsilon=3, bound=50)
