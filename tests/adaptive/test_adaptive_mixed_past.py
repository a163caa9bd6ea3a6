"""The past as several models see it, and blocks whose noise was large."""

from __future__ import annotations

import numpy as np
import pytest

import tidegate as tg
from tests.adaptive.paths import HORIZON, THETA, blocks_of, covariance_of
from tidegate.estimate.mixture.kalman_filter.block_cells import cells_of
from tidegate.estimate.mixture.kalman_filter.leaf_noise import leaf_noise_path
from tidegate.estimate.mixture.kalman_filter.model_weights import (
    MOST_MODELS,
    UNDECIDED,
    packed_weights,
    unpacked_weights,
)
from tidegate.estimate.mixture.kalman_filter.state_space_models import COUNT, models
from tidegate.estimate.mixture.mixture_posterior import PosteriorSums
from tidegate.estimate.mixture.smoother.block_batches import MeasuredBlock
from tidegate.estimate.mixture.smoother.block_totals import block_totals
from tidegate.estimate.mixture.smoother.forward_backward_passes import SmoothingTask
from tidegate.estimate.mixture.smoother.mixture_smoother import (
    MixtureToSmooth,
    mixture_views,
    reweighted_mixture,
)
from tidegate.estimate.mixture.smoother.model_and_cycle_smoothers import ModelSmoother
from tidegate.lattice import FloatArray, IntArray
from tidegate.perturb.adaptive.tree_shapes import RANGE_ERROR


def again(blocks: list[MeasuredBlock], model: int) -> list[MeasuredBlock]:
    """The blocks as they are looked at for the second time."""
    return reweighted_mixture(blocks, *block_totals([SmoothingTask(blocks, HORIZON, model)]))


def between(sums: PosteriorSums, starts: IntArray, ends: IntArray) -> FloatArray:
    each = [view.variances(starts, ends) for _, view in sums.models]
    return sums.mixed_variances(starts, ends, each)


def test_models_share_the_past_as_they_are_trusted() -> None:
    """Mean and variance of a mixture: within its models, and between them."""
    blocks = blocks_of("1/2", 40)
    model_weights = packed_weights([(0, 0.2), (4, 0.8)])
    both = PosteriorSums(*mixture_views([MixtureToSmooth(blocks, HORIZON, model_weights)]))
    weighed = again(blocks, 4)
    calm, rough = (ModelSmoother(weighed, HORIZON, model) for model in (0, 4))
    np.testing.assert_allclose(both.sums, 0.2 * calm.sums + 0.8 * rough.sums, rtol=1e-12)
    np.testing.assert_allclose(both.levels, 0.2 * calm.levels + 0.8 * rough.levels, rtol=1e-12)
    starts, ends = np.array([0, 3, 100]), np.array([50, 400, 101])
    within = 0.2 * calm.variances(starts, ends) + 0.8 * rough.variances(starts, ends)
    apart = (calm.sums[ends] - calm.sums[starts]) - (rough.sums[ends] - rough.sums[starts])
    assert (np.square(apart) > within / 100).all()  # the models disagree: the test can fail
    np.testing.assert_allclose(between(both, starts, ends), within + 0.16 * apart**2, rtol=1e-9)


def calm_blocks(noise: list[float]) -> list[MeasuredBlock]:
    """Blocks over a level of 0.1 that never moves, with this noise, in its deviations."""
    tree = tg.perturb.AdaptiveTrees(epsilon="1/2", horizon=HORIZON).layouts(128, THETA, THETA)[0]
    cells = cells_of(tree, THETA)
    error = np.sqrt(tree.variances[0]) * np.array(noise)
    share = THETA * 128 * 0.1 / tree.leaves
    return [
        MeasuredBlock(
            at * 128, cells, np.round(np.full(tree.leaves, share + each / tree.leaves)), end
        )
        for at, each in enumerate(error.tolist())
        for end in [at * 128 + 128]
    ]


def test_blocks_with_a_large_draw_of_noise_count_less() -> None:
    quiet = [0.3, -0.2, 0.1, -0.4, 0.2, -0.1, 0.3, -0.2] * 4
    assert {block.noise_factor for block in again(calm_blocks(quiet), 0)} == {1.0}
    loud = [*quiet[:7], 7.0, *quiet[8:]]
    found = [block.noise_factor for block in again(calm_blocks(loud), 0)]
    assert found == [1.0] * 7 + [4.0] + [1.0] * 24
    # A model that lets the level jump does not take a jump for noise.
    assert {block.noise_factor for block in again(calm_blocks(loud), 7)} == {1.0}
    # The block's own sum, and all later running sums with it, are nearer to the truth.
    blocks, model_weights = calm_blocks(loud), packed_weights([(0, 1.0)])
    truth = THETA * 128 * 0.1 / THETA
    plain, better = (
        ModelSmoother(blocks, HORIZON, 0),
        PosteriorSums(*mixture_views([MixtureToSmooth(blocks, HORIZON, model_weights)])),
    )
    first, last = (int(np.searchsorted(plain.edges, at)) for at in (7 * 128, 8 * 128))
    errors = [abs(seen.sums[last] - seen.sums[first] - truth) for seen in (plain, better)]
    assert errors[1] < 0.7 * errors[0]
    # And no interval is shorter for it.
    everything = np.array([0]), np.array([plain.edges.size - 1])
    assert between(better, *everything)[0] >= plain.variances(*everything)[0]


@pytest.mark.parametrize("shape", RANGE_ERROR)
def test_a_doubled_variance_is_that_of_the_whole_block(shape: tuple[int, ...]) -> None:
    """Of its coarsest nodes only: contrasts inside stay as they were."""
    path = leaf_noise_path(shape, [3.0 * 2**level for level in range(len(shape))])
    more = tuple(leaf.reweighted(4.0) for leaf in path)
    coarsest = np.kron(np.eye(shape[0]), np.ones((1, shape[-1] // shape[0])))
    before, after = (coarsest @ covariance_of(each) @ coarsest.T for each in (path, more))
    np.testing.assert_allclose(after, 4 * before, atol=1e-12)
    assert np.trace(before) == pytest.approx(sum(leaf.coarsest for leaf in path))
    inside = np.eye(shape[-1]) - coarsest.T @ coarsest * shape[0] / shape[-1]
    kept = [inside @ covariance_of(each) @ inside for each in (path, more)]
    np.testing.assert_allclose(kept[0], kept[1], atol=1e-12)


def test_trust_is_kept_in_one_number() -> None:
    assert models(HORIZON).count == COUNT <= MOST_MODELS
    weights = [(0, 1 / 3), (COUNT - 1, 2 / 3)]
    assert unpacked_weights(packed_weights(weights)) == weights
    assert 0 < packed_weights([(MOST_MODELS - 1, 1.0)]) < 2**63
    # However it is divided, somebody is trusted, and what is left out is little.
    even = [(model, 1 / COUNT) for model in range(COUNT)]
    assert unpacked_weights(packed_weights(even)) == even
    assert unpacked_weights(packed_weights([(1, 0.97), (2, 0.03)])) == [(1, 1.0)]
    assert unpacked_weights(UNDECIDED) == [(0, 1.0)]
    for damaged in (0, -1, packed_weights([(COUNT, 1.0)])):
        with pytest.raises(ValueError, match="weights"):
            unpacked_weights(damaged)
