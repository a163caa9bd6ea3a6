"""Law 4: adding an integer stream to the truth moves the output by exactly that stream."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate as tg
from tests.depth import examples
from tests.laws.catalogue import courses, length, plain_pipelines
from tidegate.perturb.consistency import consistent_leaves, own_weights, prefix_leaves

FIXED = {name: one for name, one in plain_pipelines().items() if one.estimator.adds_up}
IRREGULAR = {name: one for name, one in plain_pipelines().items() if one.perturber.irregular}
GUIDED = {
    name: one
    for name, one in plain_pipelines().items()
    if not one.estimator.adds_up and name not in IRREGULAR
}


@pytest.mark.parametrize("name", IRREGULAR)
def test_measured_values_under_the_same_noise_differ_by_their_difference(name: str) -> None:
    """Where both measure, with noise of one scale: the noise depends on the position alone, or on
    how many segments were summed up before."""
    pipeline = IRREGULAR[name]
    random, holdout = np.random.default_rng(8), pipeline.threshold.holdout
    held = random.integers(0, 41, size=holdout)
    releases = [pipeline.start(tg.seeded(6)) for _ in range(2)]
    for release in releases:
        release.push(held)
    theta = releases[0].threshold
    assert theta is not None
    streams = random.integers(0, int(theta) + 1, size=(2, length(pipeline) - holdout))
    summed = hasattr(pipeline.perturber, "sum_law")  # spans are measured, not single values
    measured = []
    for release, values in zip(releases, streams, strict=True):
        release.push(values)
        known = courses(release)[0].leaves.spans()
        ends = known.edges[1:].tolist()
        starts = known.edges[:-1].tolist() if summed else [end - 1 for end in ends]
        counts = range(len(ends)) if summed else [0] * len(ends)
        places = zip(starts, ends, counts, known.marks.tolist(), strict=True)
        measured.append(dict(zip(places, known.numbers.tolist(), strict=True)))
    both = [place for place in measured[0].keys() & measured[1].keys() if place[3]]
    assert both or not pipeline.perturber.epsilon  # `zeros` measures nothing
    for place in both:
        moved = int((streams[1] - streams[0])[place[0] : place[1]].sum())
        assert measured[1][place] - measured[0][place] == moved


@pytest.mark.parametrize("name", GUIDED)
def test_leaf_sums_under_the_same_noise_differ_by_their_difference(name: str) -> None:
    """The same for guided releases, as long as the same trees are chosen.

    (What was released decides about later trees, so other data may meet other noise from then on:
    that is the adaptive composition of `docs/privacy/adaptive.md`.)
    """
    pipeline = GUIDED[name]
    count, holdout = length(pipeline), pipeline.holdout
    random = np.random.default_rng(8)
    step = float(pipeline.resolution)
    held = random.integers(0, 40, size=holdout) * step
    releases = [pipeline.start(tg.seeded(6)) for _ in range(2)]
    for release in releases:
        release.push(held)
    theta = releases[0].threshold
    assert theta is not None
    streams = random.integers(0, int(0.8 * theta / step) + 1, size=(2, count - holdout))
    for release, units in zip(releases, streams, strict=True):
        release.push(units * step)
    one, two = (courses(release)[0] for release in releases)
    start, leaf, agreeing = one.start, 0, 0
    for block, other in zip(one.blocks, two.blocks, strict=True):
        tree = block.layout
        if tree != other.layout:
            break
        for number in range(tree.leaves):
            inside = slice(start + tree.edge(number), start + tree.edge(number + 1))
            if inside.stop <= one.end:
                moved = int(streams[1][inside].sum() - streams[0][inside].sum())
                assert two.released[leaf] - one.released[leaf] == moved
                leaf += 1
        start += tree.length
        agreeing += 1
    assert leaf
    if len(pipeline.perturber.layouts(one.blocks[0].layout.length, 12, 12)) == 1:
        assert agreeing == len(one.blocks)  # without a choice, all of them


@pytest.mark.parametrize("name", FIXED)
def test_two_streams_under_the_same_noise_differ_by_their_difference(name: str) -> None:
    """The noise must not feel the data: with one seed, block sums differ by u and nothing else."""
    pipeline = FIXED[name]
    holdout, block = pipeline.holdout, pipeline.perturber.block
    count = length(pipeline)
    random = np.random.default_rng(8)
    resolution = pipeline.resolution
    low = random.integers(0, 40, size=count) * float(resolution)
    releases = [pipeline.start(tg.seeded(6)) for _ in range(2)]
    releases[0].push(low[:holdout])
    releases[1].push(low[:holdout])
    theta = releases[0].threshold
    assert theta == releases[1].threshold
    top = int(min(Fraction(theta), pipeline.threshold.bound) / resolution)
    first = random.integers(0, top + 1, size=count - holdout)
    second = random.integers(0, top + 1, size=count - holdout)
    outs = [
        release.push(units * float(resolution))
        for release, units in zip(releases, (first, second), strict=True)
    ]
    blocks = (count - holdout) // block
    starts = np.arange(blocks)[-(releases[0].position - releases[0].record.start) // block :]
    starts = starts[starts * block >= releases[0].record.start]
    sums = [release.queries(starts * block, (starts + 1) * block).estimate for release in releases]
    moved = (second - first)[: blocks * block].reshape(-1, block).sum(axis=1)[starts]
    step = float(resolution)
    np.testing.assert_array_equal(
        np.rint(sums[1] / step) - np.rint(sums[0] / step), moved.astype(float)
    )
    if resolution == 1:
        np.testing.assert_array_equal(sums[1] - sums[0], moved.astype(float))
        if block == 1 and not pipeline.non_negative:
            np.testing.assert_array_equal(outs[1] - outs[0], (second - first).astype(float))


@settings(max_examples=examples(60))
@given(st.integers(2, 7), st.integers(1, 4), st.integers(1, 3), st.integers(0, 2**32))
def test_the_algebra_is_equivariant_bit_for_bit(
    fanout: int, levels: int, trees: int, seed: int
) -> None:
    """f(N + Au) = f(N) + u, also for noise and streams far beyond what floats resolve."""
    random = np.random.default_rng(seed)
    leaves = trees * fanout ** (levels - 1)
    nodes = [
        random.integers(-(2**44), 2**44, size=leaves // fanout**level) for level in range(levels)
    ]
    u = random.integers(-(2**55), 2**55, size=leaves) // leaves
    moved = [node + u.reshape(-1, fanout**level).sum(axis=1) for level, node in enumerate(nodes)]
    weights = own_weights(fanout, random.uniform(0.1, 10, size=levels).tolist())
    plain, carry = consistent_leaves(nodes, fanout, weights, 0.25)
    shifted, moved_carry = consistent_leaves(moved, fanout, weights, 0.25)
    np.testing.assert_array_equal(shifted, plain + u)
    assert carry == moved_carry
    np.testing.assert_array_equal(prefix_leaves(moved, fanout), prefix_leaves(nodes, fanout) + u)
