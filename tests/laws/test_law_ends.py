"""A value beyond an end counts as that end, and held-out values count for the ends alone.

The same bits, in arrays and one by one.

Noise is scaled to the distance between both ends, so a value that reached further would not be
protected. The lattice cuts at the public bounds; here the chosen ends lie within them. The trees of
`adaptive` are in `tests/privacy/test_cuts_at_both_ends.py`, events in `test_event_privacy.py`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tidegate as tg
from tests.fixed_below_bound import FixedBelowBound
from tests.laws.catalogue import bits, length, plain_pipelines

# Trees of a guided release have caps of their own, up to the bound.
PLAIN = {
    name: one
    for name, one in plain_pipelines().items()
    if one.estimator.adds_up or one.perturber.irregular
}


def begun(pipeline: tg.Pipeline, seed: int, held: np.ndarray) -> tg.Release:
    release = pipeline.start(tg.seeded(seed))
    release.push(held)
    return release


@pytest.mark.parametrize("name", PLAIN)
def test_what_lies_beyond_an_end_counts_as_that_end(name: str) -> None:
    pipeline = PLAIN[name]
    if not pipeline.holdout:
        pipeline = replace(pipeline, threshold=FixedBelowBound(value=12))
    lattice, random = pipeline.lattice, np.random.default_rng(5)
    held = random.integers(-4 if pipeline.lower else 0, 8, size=pipeline.holdout)
    for seed in range(400):
        ends = begun(pipeline, seed, held)._run.ends
        narrow = 2 * ends.below <= lattice.bottom or not pipeline.holdout  # fixed: the lowest
        if 4 * ends.above <= 3 * lattice.top and narrow:
            break
    else:
        pytest.fail("no end lies within the public bounds")
    size = length(pipeline) - pipeline.holdout
    units = random.integers(-lattice.bottom, lattice.top + 1, size=size)
    far, cut = (one * lattice.step for one in (units, np.clip(units, -ends.below, ends.above)))
    assert np.count_nonzero(far != cut) > size / 8
    both = [begun(pipeline, seed, held).push(values) for values in (far, cut)]
    assert bits(both[0]) == bits(both[1])
    one_by_one = begun(pipeline, seed, held)
    assert bits([one_by_one.push(value) for value in far.tolist()]) == bits(both[0])


HELD = {name: one for name, one in plain_pipelines().items() if one.holdout > 1}


@pytest.mark.parametrize("name", HELD)
def test_held_out_values_are_told_by_the_ends_alone(name: str) -> None:
    """Other held-out values that lead to the same ends: all that follows is the same."""
    pipeline, random = HELD[name], np.random.default_rng(6)
    lowest = -4 if pipeline.lower else 0
    values = random.integers(lowest, 30, size=length(pipeline) - pipeline.holdout)
    found: dict[tuple[int, ...], list[bytes]] = {}
    for seed in range(3):
        for _ in range(20):
            held = random.integers(lowest, 30, size=pipeline.holdout)
            release = begun(pipeline, seed, held)
            known = found.setdefault((seed, *release._run.ends), [])
            if len(known) < 2:
                known.append(bits(release.push(values)))
    assert max(map(len, found.values())) > 1
    assert all(len(set(outputs)) == 1 for outputs in found.values())
