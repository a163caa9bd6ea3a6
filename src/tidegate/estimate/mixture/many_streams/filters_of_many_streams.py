"""The Kalman filters of many streams in arrays, stepped together.

`KalmanFilters` computes elementwise, an entry for each model, so it gives the same bits for one
stream and for many side by side. Streams are taken out of the arrays in chunks that fit into the
cache of a processor, moved on together, and put back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate.mixture.catch_up import CatchUp
from tidegate.estimate.mixture.kalman_filter.kalman_filters import (
    DISTANCE_PER_HALVING,
    KalmanFilters,
)
from tidegate.estimate.mixture.kalman_filter.leaf_noise import NoisyLeaves
from tidegate.estimate.mixture.kalman_filter.model_weights import (
    mixed_rows,
    weight_halving_rows,
    weight_rows,
)
from tidegate.estimate.mixture.kalman_filter.state_space_models import (
    INNER,
    LEAF,
    LEVEL,
    MEAN,
    SCATTER,
    SECOND_CHANCE,
    SIZE,
    SUM,
    SWING,
    models,
    state_transition_over,
)
from tidegate.estimate.mixture.many_streams.units_and_leaves_of_many_streams import (
    EndedLeaves,
    FilterUnit,
    tiled_for_streams,
    transition_of_many,
)
from tidegate.estimate.mixture.many_streams.wide_kalman_filters import (
    WideKalmanFilters,
    packed_filters,
    unpacked_filters,
)
from tidegate.lattice import FloatArray, IntArray
from tidegate.state_as_bytes import State

_CHUNK = 128  # streams that are moved on together
_GRAIN = 16  # a chunk is filled up to a multiple of this, so that few sizes of scratch are needed
_ENTRIES = SIZE * (SIZE + 1)


class FiltersOfManyStreams:
    """The filters by stream: [P | m] of every model, likelihoods and weights of the models.

    Means are those of the present cell, covariances those of the beginning of the open leaf: they
    do not depend on data, so they are brought up to date when the leaf ends, all cells in one go.
    `weights` follow from the likelihoods: they are no part of the state.
    """

    def __init__(self, horizon: int) -> None:
        self._horizon = horizon
        self._models = models(horizon)
        count = self._models.count
        self._scratch: dict[int, WideKalmanFilters] = {}
        self._one = KalmanFilters(self._models)  # the same for a single stream
        self._augmented: FloatArray = np.zeros((_ENTRIES, 0, count))
        self._mahalanobis: FloatArray = np.zeros((0, count))
        self._determinant: FloatArray = np.zeros((0, count))
        self._exponent: NDArray[np.int32] = np.zeros((0, count), dtype=np.int32)
        self.weights: FloatArray = np.zeros((0, count))

    def grow(self, room: int) -> None:
        """Make room for more streams; they `begin`."""
        had, count = self.weights.shape
        larger = np.zeros((_ENTRIES, room, count))
        larger[:, :had] = self._augmented
        self._augmented = larger
        rest = room - had, count
        self._mahalanobis = np.concatenate((self._mahalanobis, np.zeros(rest)))
        self._determinant = np.concatenate((self._determinant, np.ones(rest)))
        self._exponent = np.concatenate((self._exponent, np.zeros(rest, dtype=np.int32)))
        self.weights = np.concatenate((self.weights, np.zeros(rest)))

    def begin(self, codes: IntArray) -> None:
        """Reset these streams to their beginning."""
        first = KalmanFilters(self._models)
        self._augmented[:, codes] = first.augmented.reshape(_ENTRIES, 1, -1)
        self._mahalanobis[codes], self._exponent[codes] = 0.0, 0
        self._determinant[codes] = 1.0
        self.weigh(codes)

    def copy(self, source: int, targets: IntArray) -> None:
        """Copy the state of one stream to others."""
        self._augmented[:, targets] = self._augmented[:, source : source + 1]
        for part in (self._mahalanobis, self._determinant, self._exponent, self.weights):
            part[targets] = part[source]

    # -- chunks ----------------------------------------------------------------------------------

    def _chunks(self, codes: IntArray) -> Iterator[tuple[slice, IntArray, KalmanFilters]]:
        """Chunks of the codes, the same filled up, and filters that hold their [P | m]."""
        for start in range(0, codes.size, _CHUNK):
            here = slice(start, min(start + _CHUNK, codes.size))
            part = codes[here]
            size = -(-part.size // _GRAIN) * _GRAIN
            padded = np.concatenate((part, np.full(size - part.size, part[0])))
            filters = self._scratch.get(size)
            if filters is None:
                filters = WideKalmanFilters(tiled_for_streams(self._models, size))
                self._scratch[size] = filters
            shape = _ENTRIES, size, self._models.count
            np.take(self._augmented, padded, 1, filters.augmented.reshape(shape), "clip")
            yield here, padded, filters

    def _put_back(self, codes: IntArray, filters: KalmanFilters) -> None:
        found = filters.augmented.reshape(_ENTRIES, -1, self._models.count)
        # All models of an entry as one item: copied at once.
        item = f"V{found.itemsize * self._models.count}"
        self._augmented.view(item)[:, codes] = found[:, : codes.size].view(item)

    def _each(self, numbers: FloatArray, padded: IntArray) -> FloatArray:
        """Repeat each stream's number for its filters."""
        filled = np.concatenate((numbers, np.full(padded.size - numbers.size, numbers[0])))
        return np.repeat(filled, self._models.count)

    # -- steps -----------------------------------------------------------------------------------

    def end_cells(
        self,
        codes: IntArray,
        width: int,
        ends: IntArray,
        leaves: EndedLeaves | None,
        unit: FilterUnit,
        catch_up: CatchUp | None = None,
    ) -> FloatArray:
        """End cells of one width at these positions; return integer sums that correct running sums.

        `MixtureRun._end_cell` of many streams. `leaves` are those that end with the cells; None:
        none does. Then only means are needed now: covariances wait for the end of the leaf.
        """
        over = state_transition_over(self._horizon, width, SCATTER)
        growth = over.width * self.means(LEVEL, codes) + over.swing_row * self.means(SWING, codes)
        ages = np.minimum(ends - width, self._horizon)
        sums = self.means(SUM, codes) * (1.0 - width / (ages + width))[:, np.newaxis] + growth
        for entry in (LEAF, INNER):
            self._means[entry][codes] += growth
        self._means[SWING][codes] *= over.decay[SWING, MEAN]
        if leaves is not None:
            self._means[SUM][codes] = sums
            self._end_leaves(codes, ends, leaves)
            sums = self.means(SUM, codes)
        threshold, added = unit.threshold, unit.truncated * width
        known = mixed_rows(self.weights[codes], sums) * threshold + added
        whole: FloatArray = np.floor((known if catch_up is None else catch_up.of(known)) + 0.5)
        self._means[SUM][codes] = sums - ((whole - added) / threshold)[:, np.newaxis]
        return whole

    def _end_leaves(self, codes: IntArray, ends: IntArray, leaves: EndedLeaves) -> None:
        """Predict covariances up to the end of leaves, cell by cell; then update all."""
        for here, padded, filters in self._chunks(codes):
            part, means = codes[here], filters.mean.copy()
            position = ends[here] - sum(leaves.widths)
            for width in leaves.widths:
                age = np.minimum(position, self._horizon)
                filters.fade(self._each(width / (age + width), padded))
                filters.predict(transition_of_many(self._horizon, width, padded.size))
                position = position + width
            filters.mean[:] = means  # these were moved on with each cell
            self._update(padded, part, filters, leaves, here)
            self._put_back(part, filters)

    def _update(
        self,
        padded: IntArray,
        codes: IntArray,
        filters: KalmanFilters,
        leaves: EndedLeaves,
        here: slice,
    ) -> None:
        shape = padded.size, self._models.count
        filters.mahalanobis.reshape(shape)[:] = self._mahalanobis[padded]
        filters.determinant.reshape(shape)[:] = self._determinant[padded]
        filters.exponent.reshape(shape)[:] = self._exponent[padded]
        given = leaves.share, leaves.contrast, leaves.noisy
        share, contrast, noisy = (self._each(each[here], padded) for each in given)
        narrow = np.stack((1.0 - share, share))
        filters.update_along(narrow[:, np.newaxis], narrow, contrast, noisy)
        count = codes.size
        self._mahalanobis[codes] = filters.mahalanobis.reshape(shape)[:count]
        self._determinant[codes] = filters.determinant.reshape(shape)[:count]
        self._exponent[codes] = filters.exponent.reshape(shape)[:count]
        self.weigh(codes)

    def open_leaves(self, codes: IntArray, leaves: NoisyLeaves) -> None:
        """Begin tree nodes with a leaf of each stream: the same kinds of nodes for all."""
        outer, inner, handed, *_ = leaves
        for here, padded, filters in self._chunks(codes):
            filters.open_leaf(
                leaves._replace(
                    outer=None if outer is None else self._each(outer[here], padded),
                    inner=None if inner is None else self._each(inner[here], padded),
                    inner_share=handed
                    if isinstance(handed, float)
                    else self._each(handed[here], padded),
                )
            )
            self._put_back(codes[here], filters)

    def inflate_level(self, codes: IntArray, shares: FloatArray) -> None:
        """Add variance after changes of caps, which may have moved levels by these shares."""
        level = LEVEL * (SIZE + 1) + LEVEL
        self._augmented[level, codes] += (shares[:, np.newaxis] * self.means(LEVEL, codes)) ** 2

    def forecast(self, codes: IntArray, width: int) -> FloatArray:
        """Expected sums of the values of the next cells, all of one width."""
        over = state_transition_over(self._horizon, width, SCATTER)
        levels, swings = self.means(LEVEL, codes), self.means(SWING, codes)
        return mixed_rows(self.weights[codes], over.width * levels + over.swing_row * swings)

    @property
    def _means(self) -> FloatArray:
        return self._augmented[MEAN :: SIZE + 1]

    def means(self, entry: int, codes: IntArray) -> FloatArray:
        """The means of one state entry, one row for each stream."""
        found: FloatArray = self._augmented[entry * (SIZE + 1) + MEAN, codes]
        return found

    def weigh(self, codes: IntArray) -> None:
        """Update the models' weights from their likelihoods."""
        halvings = weight_halving_rows(self._mahalanobis[codes], self._exponent[codes])
        self.weights[codes] = weight_rows(halvings, self._determinant[codes])

    def reconsider(self, codes: IntArray) -> None:
        """`MixtureRun._reconsider`: at a new horizon, every model gets a second chance."""
        halvings = weight_halving_rows(self._mahalanobis[codes], self._exponent[codes])
        behind = np.minimum(halvings - halvings.min(axis=1, keepdims=True), SECOND_CHANCE)
        self._mahalanobis[codes] = behind * DISTANCE_PER_HALVING
        self._exponent[codes] = 0
        self.weigh(codes)

    # -- one stream ------------------------------------------------------------------------------

    def stream_state(self, code: int, widths: Sequence[int], end: int) -> dict[str, Any]:
        """The filters of one stream in the form of `MixtureRun.state`.

        Cells of these `widths` of the open leaf are complete, the last one at `end`.
        """
        filters = self._one
        filters.augmented[:] = self._augmented[:, code].reshape(filters.augmented.shape)
        if widths:  # covariances wait for the end of a leaf here
            means, position = filters.mean.copy(), end - sum(widths)
            for width in widths:
                filters.fade(width / (min(position, self._horizon) + width))
                filters.predict(state_transition_over(self._horizon, width, SCATTER))
                position += width
            filters.mean[:] = means
        return {
            "augmented": filters.augmented.reshape(-1).copy(),
            "mahalanobis": self._mahalanobis[code].copy(),
            "determinant": self._determinant[code].copy(),
            "exponent": self._exponent[code].astype(np.int64),
        }

    def restore_stream(self, code: int, state: State) -> None:
        """Restore one stream from `MixtureRun.state`, between leaves."""
        self._augmented[:, code] = state["augmented"].reshape(_ENTRIES, -1)
        self._mahalanobis[code] = state["mahalanobis"]
        self._determinant[code] = state["determinant"]
        self._exponent[code] = state["exponent"]
        self.weigh(np.array([code]))

    # -- state -----------------------------------------------------------------------------------

    def state(self, start: int, end: int) -> dict[str, NDArray[np.generic]]:
        """The state to resume these streams from."""
        return {
            **packed_filters(self._augmented[:, start:end], self._models.variance > 0),
            "mahalanobis": self._mahalanobis[start:end].reshape(-1),
            "determinant": self._determinant[start:end].reshape(-1),
            "exponent": self._exponent[start:end].reshape(-1),
        }

    def restore(self, codes: IntArray, state: State) -> None:
        """Restore streams from `state`."""
        shape = codes.size, self._models.count
        swings = self._models.variance > 0
        self._augmented[:, codes] = unpacked_filters(state, codes.size, swings)
        self._mahalanobis[codes] = state["mahalanobis"].reshape(shape)
        self._determinant[codes] = state["determinant"].reshape(shape)
        self._exponent[codes] = state["exponent"].reshape(shape)
        self.weigh(codes)
