"""Law 1: same key, same values, any split into pushes: the same bits out."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate as tg
from tests.depth import examples
from tests.laws.catalogue import bits, facts, inputs, known, length, names_of_law, pipelines, stream

ARRAYS = {
    "int64": lambda part: part,
    "float64": lambda part: part.astype(float),
    "float32": lambda part: part.astype(np.float32),
    "one byte": lambda part: part.astype(np.int8 if (part < 0).any() else np.uint8),
    "list": lambda part: part.tolist(),
    "list of floats": lambda part: part.astype(float).tolist(),
    "mixed list": lambda part: [Decimal(v) if v % 2 else Fraction(v) for v in part.tolist()],
    "reversed view": lambda part: part[::-1].copy()[::-1],
}
SCALARS = (int, float, np.int64, np.float32, Decimal, Fraction)


def push_in_pieces(release: tg.Release, values: np.ndarray, pieces: list[tuple[int, str]]) -> Any:
    """Push pieces of (size, kind), then the rest at once; all that came out, in order."""
    out: list[float] = []
    at = 0
    for size, kind in pieces:
        part = values[at : at + size]
        at += part.size
        if kind in ARRAYS:
            out.extend(release.push(ARRAYS[kind](part)))
            continue
        for index, value in enumerate(part.tolist()):
            single = release.push(SCALARS[index % len(SCALARS)](value))
            out.extend([] if single is None else [single])
    out.extend(release.push(values[at:]))
    return out


def pieces(most: int) -> st.SearchStrategy[list[tuple[int, str]]]:
    one = st.tuples(
        st.one_of(st.integers(0, 6), st.integers(0, most)),
        st.sampled_from([*ARRAYS, "scalars", "scalars"]),
    )
    return st.lists(one, max_size=12)


@pytest.mark.parametrize("name", names_of_law(1))
def test_any_split_gives_the_same_bits(name: str) -> None:
    pipeline = pipelines()[name]
    values = inputs(pipeline)
    whole = pipeline.start(tg.seeded(3))
    expected = whole.push(values)
    assert expected.dtype == np.float64
    assert expected.size == values.size - pipeline.holdout
    assert np.isfinite(expected).all()
    wanted = known(whole)

    @settings(max_examples=examples(12 if pipeline.estimator.adds_up else 6))
    @given(pieces(min(values.size, 200)))
    def check(split: list[tuple[int, str]]) -> None:
        release = pipeline.start(tg.seeded(3))
        assert bits(push_in_pieces(release, values, split)) == bits(expected)
        assert known(release) == wanted

    check()


@pytest.mark.parametrize("name", names_of_law(3))
def test_one_value_at_a_time_is_the_whole_stream_at_once(name: str) -> None:
    pipeline = pipelines()[name]
    values = stream(min(length(pipeline), 600), seed=1)
    whole, single = pipeline.start(tg.seeded(4)), pipeline.start(tg.seeded(4))
    expected = whole.push(values)
    out = [single.push(value) for value in values.tolist()]
    holdout = pipeline.holdout
    assert out[:holdout] == [None] * holdout
    assert all(type(value) is float for value in out[holdout:])
    assert bits(out[holdout:]) == bits(expected)
    compared = facts if pipeline.estimator.adds_up else known
    assert compared(single) == compared(whole)


def test_pieces_beyond_the_inner_piece_size_change_nothing() -> None:
    pipeline = tg.tops(epsilon=1, bound=40, horizon=70_000, holdout=1000, fanout=4)
    values = stream(200_000)
    whole, parts = pipeline.start(tg.seeded(3)), pipeline.start(tg.seeded(3))
    expected = whole.push(values)
    out = np.concatenate([parts.push(part) for part in np.array_split(values, 7)])
    assert bits(out) == bits(expected)
    assert facts(parts) == facts(whole)


def test_another_seed_gives_other_bits() -> None:
    """So that the law is not kept by ignoring the noise."""
    pipeline = pipelines()["tops"]
    values = inputs(pipeline)
    outs = {bits(pipeline.start(tg.seeded(seed)).push(values)) for seed in range(5)}
    assert len(outs) == 5
