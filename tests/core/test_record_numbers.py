"""Nothing is cut on its way into a record: fractions stay where they belong, or are refused.

Assigned to an integer array, 2.5 becomes 2 and NaN any number, without a word: a running sum would
drift, and every answer after it. So would predictions in an array that began with whole numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tidegate.record.segments.leaf_buffers import LeafBuffer, LeafSpanBuffer
from tidegate.record.segments.segment_codec_and_joining import (
    restored_segment,
    segment_array_from_text,
    segment_state,
)

PIPELINES = {
    "tops": tg.tops(epsilon=1, bound=9, holdout=4, horizon=64),
    "adaptive": tg.adaptive(epsilon=5, bound=9, horizon=64),
    "budget_distribution": tg.budget_distribution(epsilon=9, bound=9, holdout=0, horizon=64),
}
WHOLE = np.array([3, 4])
FRACTIONS = [np.array([3, 4.5]), np.array([3.0, 4.0]), np.array([3, np.nan]), np.array([3, 1e300])]


@pytest.mark.parametrize("numbers", FRACTIONS, ids=str)
def test_integer_columns_take_integers_only(numbers: Any) -> None:
    levels = np.array([0.5, 0.5])
    for block in (1, 8):
        ring = LeafBuffer(block=block, most=None)
        with pytest.raises(ValueError, match="whole numbers"):
            ring.append(numbers, levels)
        with pytest.raises(ValueError, match="whole numbers"):
            ring.restore(1, [numbers, levels, levels][: 1 if block == 1 else 3])
        assert ring.closed == 0
    for at in range(3):
        columns = [WHOLE, WHOLE, WHOLE]
        columns[at] = numbers
        spans = LeafSpanBuffer(0)
        with pytest.raises(ValueError, match="whole numbers"):
            spans.extend(columns[0], levels, columns[1], columns[2])
        assert spans.closed == 0
        with pytest.raises(ValueError, match="whole numbers"):
            spans.restore(1, [columns[0], levels, columns[1], columns[2]])


@pytest.mark.parametrize("kind", [LeafBuffer, LeafSpanBuffer])
def test_predictions_keep_their_fractions_after_whole_ones(kind: Any) -> None:
    ring = kind(5) if kind is LeafSpanBuffer else kind(block=8, most=None)
    parts = [WHOLE, np.array([2.5, 0.25])]  # the first array of predictions is one of integers
    for following in parts:
        if kind is LeafSpanBuffer:
            ring.extend(WHOLE, following, WHOLE, WHOLE)
        else:
            ring.append(WHOLE, following)
    assert ring.predictions(np.arange(1, 5)).tolist() == [3.0, 4.0, 2.5, 0.25]
    ring.predict(0.75)
    assert ring.predictions(np.array([4])).tolist() == [0.75]
    assert ring.sums(np.arange(5)).tolist() == [0, 3, 7, 10, 14]


@pytest.mark.parametrize("name", PIPELINES)
def test_a_record_holds_what_was_released_however_it_is_pushed(name: str) -> None:
    """One by one, at once, and through its encoding: the same numbers, of the same types."""
    values = np.random.default_rng(4).integers(0, 7, 90)
    records = []
    for alone in (True, False):
        release = PIPELINES[name].start(tg.seeded(3))
        if alone:
            for value in values.tolist():
                release.push(value)
        else:
            release.push(values)
        records.append(release.record.segments)
    for one, other in zip(*records, strict=True):
        state, second = segment_state(one), segment_state(other)
        if not one.measured:
            continue
        again = segment_state(restored_segment(one.method, state))
        for key, kind in (("sums", "i"), ("marks", "i"), ("predictions", "f")):
            if key in state:
                assert state[key].dtype.kind == kind
                assert state[key].tobytes() == second[key].tobytes() == again[key].tobytes()
        text = dict.fromkeys(("blocks", "sums", "predictions", "squares"), "")
        for key in ("sums", "blocks"):
            with pytest.raises(ValueError, match="invalid literal"):
                segment_array_from_text({**text, key: "3 4.5"})
            with pytest.raises(ValueError, match="whole numbers"):
                restored_segment(one.method, {**state, key: state[key] + 0.5})
