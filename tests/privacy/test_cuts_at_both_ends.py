"""One value, from far below to far above, moves one released sum by the cap, and no other.

Warm-ups and blocks, in arrays and value by value, with one end and with two, by key too. A sum that
moves further than its noise was scaled to is not private, however right the scales are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import tidegate as tg
from tests.adaptive.test_refinement_schedule import seasonal
from tests.privacy.measured_blocks import leaves_of

ROWS, FAR = 1024, 10**6


class Leaf(NamedTuple):
    """A released sum, and where its values are cut."""

    released: int
    above: int
    below: int


def released(lower: int, values: np.ndarray, how: str) -> dict[tuple[int, int], Leaf]:
    """Every leaf, by the rows that it begins and ends at."""
    pipeline = tg.adaptive(epsilon=3, bound=FAR, lower=lower, resolution=1, horizon=ROWS)
    if how == "by key":
        keyed = tg.keyed(pipeline, keys=["a", "b"]).start(tg.seeded(4))
        for part in np.array_split(values, 5):
            names = np.repeat(["a", "b"], part.size).tolist()
            keyed.push(names, np.concatenate((part, np.full(part.size, 7.0))))
        segments = keyed.record("a").segments
    else:
        release: Any = pipeline.start(tg.seeded(4))
        for part in [values] if how == "at once" else values.tolist():
            release.push(part)
        segments = release.record.segments
    found = {}
    for segment in segments:
        layouts = {
            (block.start + block.layout.edge(at)): block.layout
            for block in segment.blocks
            for at in range(block.layout.leaves)
        }
        for rows, noisy in leaves_of(segment):
            cap = layouts[rows[0]].cap
            found[rows] = Leaf(noisy, cap - segment.below, segment.below)
    return found


@pytest.mark.parametrize("how", ["at once", "one by one", "by key"])
@pytest.mark.parametrize("lower", [0, -FAR])
def test_a_value_moves_one_sum_from_one_end_to_the_other(lower: int, how: str) -> None:
    base = np.rint(seasonal(ROWS, 3) * 20)
    base = base if lower else np.abs(base)
    warm_up = tg.adaptive(epsilon=3, bound=FAR, lower=lower, resolution=1, horizon=ROWS).warm_up
    compared: dict[int, int] = {}
    for at in [1, warm_up - 1, *range(warm_up, ROWS, 101 if how == "at once" else 301)]:
        low, high = (base.copy() for _ in range(2))
        low[at], high[at] = lower or -FAR, FAR
        one, two = (released(lower, values, how) for values in (low, high))
        (rows,) = (rows for rows in one if rows[0] <= at < rows[1])
        for before in sorted(one):
            if before[0] > at:
                break  # what comes later follows from what was released
            if before not in two or one[before][1:] != two[before][1:]:
                assert at < warm_up  # it chose other ends
                break
            leaf = one[before]
            moved = two[before].released - leaf.released
            assert moved == (leaf.above + leaf.below if before == rows else 0)
            compared[at] = leaf.above
    assert len(compared) > 3
    assert max(compared.values()) < FAR / 10  # ends within the public bounds, or they cut nothing
