"""What to expect before any budget is spent: predicted errors, and the best tree for a workload.

All numbers here follow from settings alone. The noise part is exact; the part that predictions
inside a block add depends on the data, so it rests on one stated assumption: a block's mean lies
`roughness`·θ away from its prediction. The paper assumes 1/3; a calm stream has less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tidegate.errors import SettingError
from tidegate.lattice import FloatArray, IntArray
from tidegate.perturb import Hierarchy
from tidegate.perturb.forest import level_count
from tidegate.pipeline import Pipeline
from tidegate.settings import Number, exact, positive, whole
from tidegate.stages import Perturber

PAPER_ROUGHNESS = Fraction(1, 3)
_FANOUTS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32)
_STARTS = 4096
# A threshold of this many steps makes discrete noise as good as continuous.
_FINE = 10_000


@dataclass(frozen=True)
class Expectation:
    """The error to expect of a range of `length` values, averaged over where it starts.

    Attributes:
        length: number of values in the range.
        threshold: the θ that was assumed.
        noise_error: root mean square of the noise part: exact.
        prediction_error: root mean square of the in-block part under the stated assumption.
    """

    length: int
    threshold: float
    noise_error: float
    prediction_error: float

    @property
    def standard_error(self) -> float:
        """√(noise_error² + prediction_error²), for the sum of truncated values."""
        return float(np.hypot(self.noise_error, self.prediction_error))


@dataclass(frozen=True)
class Choice:
    """One way to build the tree, and its root mean square error in units of θ."""

    hierarchy: Hierarchy
    error: float

    def __str__(self) -> str:
        tree = self.hierarchy
        return (
            f"fanout {tree.fanout}, blocks of {tree.block} values, {tree.tree_levels} levels: "
            f"error {self.error:.4g}·θ"
        )


def expect(
    pipeline: Pipeline,
    lengths: Iterable[int],
    *,
    threshold: Number | None = None,
    roughness: Number = PAPER_ROUGHNESS,
) -> list[Expectation]:
    """The error to expect of this pipeline for ranges of these lengths.

    Args:
        pipeline: for example `tops(epsilon=0.1, bound=1657)`.
        lengths: range lengths, in values.
        threshold: the θ to assume; None: the bound, the worst case. Take it from public knowledge.
        roughness: how far a block's mean lies from its prediction, as a share of θ.

    >>> from tidegate import tops
    >>> (day,) = expect(tops(epsilon=0.1, bound=1657), [86_400], threshold=50)
    >>> 3_000 < day.noise_error < 9_000
    True
    """
    lattice = pipeline.lattice
    perturber, _ = pipeline.fixed_stages
    assumed = lattice.bound if threshold is None else positive("threshold", threshold)
    units = min(max(round(assumed / lattice.resolution), 1), lattice.top)
    return [
        Expectation(
            length,
            units * lattice.step,
            noise_error=float(np.sqrt(noise)) * lattice.step,
            prediction_error=float(np.sqrt(prediction)) * lattice.step,
        )
        for length, noise, prediction in _variances(perturber, lengths, units, roughness)
    ]


def best_hierarchy(
    *,
    epsilon: Number,
    horizon: int,
    lengths: Sequence[int] | Mapping[int, float] | None = None,
    fanouts: Sequence[int] = _FANOUTS,
    roughness: Number = PAPER_ROUGHNESS,
    consistent: bool = True,
) -> list[Choice]:
    """Every fan-out and number of skipped levels, best first, for a declared workload.

    Args:
        epsilon: the budget of the stream.
        horizon: the longest range that should be answered well.
        lengths: the lengths of the ranges that will be asked, with weights if they are not equal;
            None: all ranges within the horizon, equally likely.
        fanouts: the fan-outs to try.
        roughness: as in `expect`.
        consistent: with the least-squares step.

    >>> print(best_hierarchy(epsilon=0.1, horizon=2**20, lengths=[86_400], fanouts=[2, 16])[0])
    fanout 16, blocks of 256 values, 3 levels: error 156.7·θ
    """
    horizon = whole("horizon", horizon, minimum=1)
    weights = _workload(lengths, horizon)
    if not fanouts:
        raise SettingError("fanouts", "must name at least one fan-out")
    choices = []
    for fanout in (whole("fanouts", given, minimum=2) for given in fanouts):
        for skipped in range(level_count(fanout, horizon)):
            tree = Hierarchy(
                epsilon=epsilon, horizon=horizon, fanout=fanout, skipped=skipped,
                consistent=consistent,
            )  # fmt: skip
            total = sum(
                weights[length] * (noise + prediction)
                for length, noise, prediction in _variances(tree, weights, _FINE, roughness)
            )
            choices.append(Choice(tree, float(np.sqrt(total / sum(weights.values()))) / _FINE))
    return sorted(choices, key=lambda choice: choice.error)


def _variances(
    perturber: Perturber, lengths: Iterable[int], threshold: int, roughness: Number
) -> Iterable[tuple[int, float, float]]:
    """Mean variances of noise and prediction per length, in units², over evenly spaced starts."""
    law = perturber.noise_law(threshold)
    block, horizon = perturber.block, perturber.horizon
    off = float(exact("roughness", roughness)) * threshold
    if off < 0:
        raise SettingError("roughness", f"must not be negative, not {roughness}")
    for given in lengths:
        length = whole("length", given, minimum=1)
        last = max(horizon - length, 0) if length <= horizon else horizon - 1
        starts: IntArray = np.unique(np.linspace(0, last, _STARTS).astype(np.int64))
        first, into = np.divmod(starts, block)
        final, beyond = np.divmod(starts + length, block)
        cut: FloatArray = np.where(
            first == final, float(length) ** 2, np.square(into * 1.0) + np.square(beyond * 1.0)
        )
        prediction = off**2 * float(cut.mean()) if block > 1 else 0.0
        yield length, float(law.range_variance(first, final).mean()), prediction


def _workload(
    lengths: Sequence[int] | Mapping[int, float] | None, horizon: int
) -> Mapping[int, float]:
    if lengths is None:  # the lengths of uniformly chosen ranges, at 32 even quantiles
        quantiles = (np.arange(32) + 0.5) / 32
        return {max(1, round(horizon * (1 - np.sqrt(1 - q)))): 1.0 for q in quantiles.tolist()}
    weights = lengths if isinstance(lengths, Mapping) else Counter(lengths)
    if not weights or any(not weight > 0 for weight in weights.values()):
        raise SettingError("lengths", "must name at least one length, with positive weights")
    return weights
