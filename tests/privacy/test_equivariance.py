"""f(N + A·u) = f(N) + u, bit for bit: what is published is a function of the noisy tree alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate as tg
from tests.depth import examples
from tidegate.perturb.consistency import consistent_leaves, own_weights, prefix_leaves
from tidegate.perturb.forest_geometry import Forest

LARGE = 2**44


@st.composite
def shapes(draw):
    fanout = draw(st.integers(2, 7))
    levels = draw(st.integers(1, 4 if fanout < 4 else 3))
    return fanout, levels, draw(st.integers(1, 3))


@st.composite
def cases(draw):
    """A shape, the noise of its nodes, a stream, and a carry."""
    fanout, levels, trees = draw(shapes())
    seed = draw(st.integers(0, 2**32))
    noise_reach = draw(st.sampled_from([1, 50, 10**6, LARGE]))
    stream_reach = draw(st.sampled_from([1, 1000, LARGE]))
    rng = np.random.default_rng(seed)
    leaves = trees * fanout ** (levels - 1)
    nodes = [
        rng.integers(-noise_reach, noise_reach + 1, size=leaves // fanout**level)
        for level in range(levels)
    ]
    stream = rng.integers(-stream_reach, stream_reach + 1, size=leaves)
    if draw(st.booleans()):  # one value replaced: the neighbour
        stream[: leaves - 1] = 0
        stream = np.roll(stream, draw(st.integers(0, leaves - 1)))
    variances = [draw(st.floats(0.01, 1e9)) for _ in range(levels)]
    carry = draw(st.floats(-0.5, 0.5, exclude_max=True))
    return fanout, nodes, stream, variances, carry


def moved(nodes, stream, tools, fanout):
    return [a + b for a, b in zip(nodes, tools.node_sums(stream, fanout, len(nodes)), strict=True)]


# Catches: least squares in floats on the noisy sums themselves, rounding that looks at values, a
# carry that depends on data, leaves of a prefix taken from the wrong node.


@given(case=cases())
def test_consistent_leaves_are_equivariant(tools, case):
    fanout, nodes, stream, variances, carry = case
    weights = own_weights(fanout, variances)
    leaves, rest = consistent_leaves(nodes, fanout, weights, carry)
    other, other_rest = consistent_leaves(
        moved(nodes, stream, tools, fanout), fanout, weights, carry
    )
    assert np.array_equal(other, leaves + stream)
    assert other_rest == rest


@given(case=cases())
def test_prefix_leaves_are_equivariant(tools, case):
    fanout, nodes, stream, _, _ = case
    leaves = prefix_leaves(nodes, fanout)
    assert np.array_equal(
        prefix_leaves(moved(nodes, stream, tools, fanout), fanout), leaves + stream
    )


@given(case=cases(), consistent=st.booleans())
def test_a_forest_is_equivariant(tools, case, consistent):
    fanout, nodes, stream, variances, carry = case
    scales = tuple(tg.exact_numbers.positive("scale", round(v) + 1) for v in variances)
    forest = Forest(fanout, nodes[0].size, scales, consistent)
    leaves, rest = forest.combine(nodes, carry)
    other, other_rest = forest.combine(moved(nodes, stream, tools, fanout), carry)
    assert np.array_equal(other, leaves + stream)
    assert other_rest == rest


@given(case=cases())
@settings(max_examples=examples(30))
def test_the_check_notices_least_squares_on_values(tools, case):
    # The planted fault: rounding that sees the noisy sums, as a plain float version would.
    fanout, nodes, stream, variances, carry = case
    weights = own_weights(fanout, variances)

    def faulty(tree):
        estimates = tree[0] + 0.3  # any float correction, rounded together with the value
        return np.rint(estimates * (1 + 1e-9)).astype(np.int64)

    big = np.full_like(stream, 2**40)
    assert not np.array_equal(faulty(moved(nodes, big, tools, fanout)), faulty(nodes) + big)
    assert np.array_equal(
        consistent_leaves(moved(nodes, big, tools, fanout), fanout, weights, carry)[0],
        consistent_leaves(nodes, fanout, weights, carry)[0] + big,
    )


# -- a whole release ----------------------------------------------------------------------------


def offline(forest, keystream, sums, node_sums):
    """The published leaves of one release, made from noisy trees the way a batch job would."""
    out = []
    for chunk, begin in enumerate(range(0, sums.size, forest.leaves)):
        true = np.zeros(
            -(-forest.leaves // forest.grove_leaves) * forest.grove_leaves, dtype=np.int64
        )
        part = sums[begin : begin + forest.leaves]
        true[: part.size] = part
        carry, leaves = 0.0, []
        for grove, trees in enumerate(true.reshape(-1, forest.grove_leaves)):
            noise = forest.nodes(keystream, chunk, grove)
            noisy = [
                a + b
                for a, b in zip(noise, node_sums(trees, forest.fanout, forest.levels), strict=True)
            ]
            published, carry = forest.combine(noisy, carry)
            leaves.append(published)
        out.append(np.concatenate(leaves)[: part.size])
    return np.concatenate(out)


@pytest.mark.parametrize(
    "perturber",
    [
        tg.perturb.Hierarchy(epsilon="0.5", horizon=500, fanout=3, skipped=1),
        tg.perturb.Hierarchy(epsilon="0.5", horizon=500, fanout=2, skipped=2, consistent=False),
        tg.perturb.Hierarchy(epsilon=2, horizon=97, fanout=4, skipped=0, shares=(3, 1, 2)),
        tg.perturb.Hierarchy(epsilon=2, horizon=1, fanout=4, skipped=0),
        tg.perturb.Flat(epsilon=1, horizon=100, block=3),
    ],
    ids=str,
)
def test_online_is_offline(tools, spy, small_groves, perturber):
    # Catches: a wrong leaf, chunk or grove for some position, noise used twice, a lost carry.
    small_groves(16)  # several in a small horizon
    pipeline = tg.Pipeline(
        threshold=tg.threshold.Fixed(20), perturber=perturber, estimator=tg.estimate.Unsmoothed()
    )
    values = np.random.default_rng(3).integers(0, 60, size=2000)
    release = pipeline.start(tg.seeded(11))
    block = perturber.block
    pieces = np.split(values, [1, 2, 3, 77, 500, 501, 1300])
    out = np.concatenate([release.push(piece) for piece in pieces])
    whole = out[: values.size // block * block].reshape(-1, block)
    sums = np.minimum(values, 20)[: whole.size].reshape(-1, block).sum(axis=1)
    expected = offline(perturber.noise_law(20), spy.last("perturb"), sums, tools.node_sums)
    assert np.array_equal(whole.sum(axis=1), expected)
    assert not np.array_equal(whole.sum(axis=1), sums)
    forest = perturber.noise_law(20)
    assert forest.grove_leaves < forest.leaves or forest.leaves <= 2 * 16
