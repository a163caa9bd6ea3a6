"""The best tree for the expected ranges, and the ε that an accuracy needs."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TypedDict, Unpack

import numpy as np

from tidegate.errors import SettingError
from tidegate.exact_numbers import Number, whole
from tidegate.perturb import Hierarchy
from tidegate.perturb.forest_geometry import level_count
from tidegate.plan.expected_errors import PAPER_ROUGHNESS, expect, expected_variances, half_width
from tidegate.run.pipeline import Pipeline
from tidegate.settings import Exact, within

_FANOUTS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32)
# A threshold of this many steps makes discrete noise as good as continuous.
_FINE = 10_000


@dataclass(frozen=True)
class Choice:
    """A way to build the tree, and its root mean square error in units of θ."""

    hierarchy: Hierarchy
    error: float

    def __str__(self) -> str:
        tree = self.hierarchy
        return (
            f"fanout {tree.fanout}, blocks of {tree.block} values, {tree.tree_levels} levels: "
            f"error {self.error:.4g}·θ"
        )


def best_hierarchy(
    *,
    epsilon: Number,
    horizon: int,
    lengths: Sequence[int] | Mapping[int, float] | None = None,
    fanouts: Sequence[int] = _FANOUTS,
    roughness: Number = PAPER_ROUGHNESS,
    consistent: bool = True,
) -> list[Choice]:
    """All fan-outs and numbers of skipped levels, best first, for a given workload.

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
    weights = _workload_of_tree(lengths, horizon)
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
                for length, noise, prediction in expected_variances(tree, weights, _FINE, roughness)
            )
            choices.append(Choice(tree, float(np.sqrt(total / sum(weights.values()))) / _FINE))
    return sorted(choices, key=lambda choice: choice.error)


def _workload_of_tree(
    lengths: Sequence[int] | Mapping[int, float] | None, horizon: int
) -> Mapping[int, float]:
    if lengths is None:  # the lengths of uniformly chosen ranges, at 32 even quantiles
        quantiles = (np.arange(32) + 0.5) / 32
        return {max(1, round(horizon * (1 - np.sqrt(1 - q)))): 1.0 for q in quantiles.tolist()}
    weights = lengths if isinstance(lengths, Mapping) else Counter(lengths)
    if not weights or any(not weight > 0 for weight in weights.values()):
        raise SettingError("lengths", "must name at least one length, with positive weights")
    return weights


# Where an epsilon is looked for, in powers of ten: beyond 100 it protects nothing.
_SMALLEST, _LARGEST = -6, 2


class Assumed(TypedDict, total=False):
    """The assumptions about the stream, as for `expect`."""

    threshold: Number | None
    floor: Number | None
    roughness: Number


def needed_epsilon(
    build: Callable[[Fraction], Pipeline],
    length: int,
    target: Number,
    *,
    confidence: float = 0.95,
    falling: bool = False,
    least: Fraction | None = None,
    **assumed: Unpack[Assumed],
) -> Fraction | None:
    """The smallest ε, to three digits, that makes ranges accurate to ± `target`.

    Args:
        build: makes the pipeline of an ε.
        length: the length of the ranges, in values.
        target: how far their intervals may reach to either side.
        confidence: the probability that an interval holds the sum.
        falling: more ε is never more error, as where `build` fixes the tree; found faster.
        least: no smaller ε is enough, as far as it is known; found faster.
        **assumed: about the stream.

    Returns:
        ε from 0.000001 to 100, or None if not even the largest is enough.

    >>> from tidegate import tops
    >>> needed_epsilon(
    ...     lambda epsilon: tops(epsilon, bound=1657), length=86_400, target=5_000, threshold=50
    ... )
    Fraction(133, 100)
    """

    def width(epsilon: Fraction) -> float:
        pipeline = build(epsilon)
        (expectation,) = expect(pipeline, [length], **assumed)
        return half_width(pipeline, expectation, confidence)

    return smallest_epsilon(width, within("target", target, Exact), falling=falling, least=least)


@dataclass(frozen=True)
class AccuracyTarget:
    """An accuracy, ± `half_width` on ranges of `length` values, and the ε that it needs."""

    length: int
    half_width: float
    epsilon: Fraction
    skipped: int  # of the tree that needs the least ε
    least: Fraction

    @property
    def better(self) -> bool:
        """Whether another tree than the default one needs noticeably less."""
        return self.least < self.epsilon * Fraction(95, 100)


def compare_trees(
    build: Callable[[Fraction, int | None], Pipeline],
    length: int,
    target: Number,
    *,
    confidence: float = 0.95,
    **assumed: Unpack[Assumed],
) -> AccuracyTarget:
    """The ε needed by the default tree, and by the tree that needs least.

    Args:
        build: makes the pipeline of an ε and a number of skipped levels (None: the usual one).
        length: as in `needed_epsilon`, and so are the others.
        target: as above.
        confidence: as above.
        **assumed: as above.
    """
    width = within("target", target, Exact)
    usual = build(Fraction(1), None)

    def needed(skipped: int | None, least: Fraction | None = None) -> Fraction | None:
        return needed_epsilon(
            lambda epsilon: build(epsilon, skipped),
            length,
            width,
            confidence=confidence,
            **assumed,
            # The usual rule chooses one tree by ε; adaptive trees follow ε step by step.
            falling=skipped is not None or not usual.estimator.adds_up,
            least=least,
        )

    # Settings that are wrong with any ε are refused here.
    expect(usual, [length], **assumed)
    tree = usual.perturber
    levels = level_count(tree.fanout, tree.horizon) if isinstance(tree, Hierarchy) else 0
    # The usual rule chooses one of these trees, so it needs at least what the best of them does.
    trees = [needed(number) for number in range(levels + 1)] if levels else []
    enough = {number: found for number, found in enumerate(trees) if found is not None}
    hopeless = bool(trees) and not enough
    epsilon = None if hopeless else needed(None, min(enough.values(), default=None))
    if epsilon is None:
        raise SettingError(
            "target",
            f"no epsilon up to {10**_LARGEST} gives ± {float(width):g}: allow a larger error, or "
            "assume a smaller threshold or roughness",
        )
    enough.pop(levels, None)  # one block for the whole horizon: no tree that anyone would choose
    skipped = min(enough, key=enough.__getitem__, default=0)
    least = enough.get(skipped, epsilon)
    if least >= epsilon:
        least, skipped = epsilon, 0
    return AccuracyTarget(length, float(width), epsilon, skipped, least)


def smallest_epsilon(
    half_width: Callable[[Fraction], float],
    target: Fraction,
    *,
    falling: bool,
    least: Fraction | None = None,
) -> Fraction | None:
    """The smallest ε, to three digits, with a predicted half width of at most `target`.

    For a fixed tree more ε is less error (`falling`), and bisection finds it. The rule that chooses
    blocks by ε makes jumps, up and down: there, steps of two digits find the first that is enough.
    None: not even the largest ε is. Those below `least` are known not to be, and are not tried.
    """

    def enough(epsilon: Fraction) -> bool:
        try:
            return half_width(epsilon) <= float(target)
        except SettingError as problem:
            if problem.setting != "epsilon":
                raise
            return False  # so small that noise would not fit 64 bits

    fine = _epsilon_grid(100)
    if falling:
        first, last = 0, len(fine) - 1
        if not enough(fine[last]):
            return None
    else:
        coarse = _epsilon_grid(10)
        begin = 0 if least is None else bisect_left(coarse, least)
        found = next((at for at in range(begin, len(coarse)) if enough(coarse[at])), None)
        if found is None:
            return None
        last = bisect_left(fine, coarse[found])
        first = bisect_left(fine, coarse[found - 1]) + 1 if found else last
    return fine[bisect_left(range(last), True, lo=first, key=lambda at: enough(fine[at]))]


@cache
def _epsilon_grid(digits: int) -> tuple[Fraction, ...]:
    """0.000001 to 100 in steps of the last digit: 10 for two digits, 100 for three."""
    steps = (
        Fraction(number, digits) * Fraction(10) ** power
        for power in range(_SMALLEST, _LARGEST)
        for number in range(digits, 10 * digits)
    )
    return *steps, Fraction(10) ** _LARGEST
