"""Parts of the mixture in columns: exact where a shortcut would be wrong in the last bits."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate.estimate.mixture.kalman_filter.kalman_filters import (
    KalmanFilters,
    weigh_filters,
)
from tidegate.estimate.mixture.kalman_filter.leaf_noise import NoisyLeaf
from tidegate.estimate.mixture.kalman_filter.model_weights import weight_rows
from tidegate.estimate.mixture.kalman_filter.state_space_models import (
    SIZE,
    SWING,
    StateTransition,
    models,
)
from tidegate.estimate.mixture.many_streams.units_and_leaves_of_many_streams import (
    ratios_of_streams,
    tiled_for_streams,
)
from tidegate.estimate.mixture.many_streams.wide_kalman_filters import (
    WideKalmanFilters,
    packed_filters,
    unpacked_filters,
)


def test_weights_of_many_streams_are_those_of_each() -> None:
    random = np.random.default_rng(1)
    halvings = random.gamma(0.5, 30, (400, 12))  # some models of each stream are left out
    determinants = random.uniform(0.5, 1, (400, 12))
    found = weight_rows(halvings, determinants)
    assert (found == 0).any()
    for row, weights in enumerate(found):
        expected = weigh_filters(halvings[row].tolist(), np.sqrt(determinants[row]).tolist())
        assert {model: each for model, each in enumerate(weights.tolist()) if each} == {
            model: each for model, each in expected if each
        }


def test_quotients_beyond_53_bits_are_those_of_whole_numbers() -> None:
    random = np.random.default_rng(2)
    above, below = random.integers(-(1 << 62), 1 << 62, 500), random.integers(1, 1 << 50, 500)
    expected = [one / other for one, other in zip(above.tolist(), below.tolist(), strict=True)]
    assert ratios_of_streams(above, below).tolist() == expected
    assert (above / below).tolist() != expected  # what a float division would give


@pytest.mark.parametrize("asymmetry", [0.0, 1e-15, 1e-6, 2.0])
def test_packed_filters_come_back_bit_for_bit(asymmetry: float) -> None:
    random = np.random.default_rng(3)
    swings = np.array([False, True, False, True])
    matrices = random.normal(0, 1, (SIZE, SIZE, 7, 4))
    matrices += matrices.swapaxes(0, 1)
    matrices *= 1 + asymmetry * random.normal(0, 1, matrices.shape)
    augmented = np.concatenate((matrices, random.normal(0, 1, (SIZE, 1, 7, 4))), axis=1)
    augmented[SWING, :, :, ~swings] = augmented[:, SWING, :, ~swings] = 0.0
    flat = augmented.reshape(-1, 7, 4)
    state = packed_filters(flat, swings)
    assert unpacked_filters(state, 7, swings).tobytes() == flat.tobytes()
    if asymmetry < 1e-14:
        assert state["asymmetric"].size == 0
    with pytest.raises(ValueError, match=r"number of streams|reshape"):
        unpacked_filters(state, 6, swings)


def test_many_filters_have_the_bits_of_few() -> None:
    every = tiled_for_streams(models(600), 9)
    few, many = KalmanFilters(every), WideKalmanFilters(every)
    random = np.random.default_rng(0)
    for width in (1, 5, 5, 2, 40):
        share, noisy, contrast = random.random((3, every.count))
        along = np.stack((1.0 - share, share))
        for filters in (few, many):
            filters.fade(0.3)
            filters.predict(StateTransition(every, width))
            filters.update_along(along[:, np.newaxis], along, contrast, noisy)
            filters.open_leaf(NoisyLeaf(0.2, 0.1, 0.5, 0.5, 0.01))
        assert few.augmented.tobytes() == many.augmented.tobytes()
        assert few.halvings() == many.halvings()
        assert few.weights() == many.weights()
        for one, other in zip(few.last_update(), many.last_update(), strict=True):
            assert one.tobytes() == other.tobytes()
