"""Choose the lower and the upper cap privately: first their scale, then their shape.

    lower ──────── −below ──────── 0 ──────────────── above ──────── bound
                      └─ values count as they are ─┘       width = below + above

With `lower = 0` there is one end, and none of this happens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np

from tidegate.errors import SettingError
from tidegate.guarantee import Guarantee, sequential
from tidegate.lattice import IntArray, Lattice
from tidegate.noise import permute_and_flip
from tidegate.randomness import Keystream
from tidegate.stages import Threshold

# Parts of the budget of a choice: for the scale of both ends, and for their shape.
PARTS = Fraction(5, 8), Fraction(3, 8)
# So a warm-up is longer by as much: with less to go by, the scale would be chance.
LONGER = 1 / PARTS[0]
# The shapes: how far above 0 and below it values count, in eighths of the scale. An end is never
# nothing: an eighth more noise keeps small values that are too rare to be seen, such as refunds.
SHAPES = ((8, 1), (8, 3), (8, 8), (3, 8), (1, 8))
_WHOLE = 8
# The fewest values beyond an end that the choice of the shape can see, in units of 1/rate.
_VISIBLE = 3
_DENOMINATOR = 1 << 20  # scores are integers of this fraction of a value
_DIGITS = 40


class Ends(NamedTuple):
    """Values are capped to [−`below`, `above`], in lattice units: public once chosen."""

    above: int
    below: int = 0

    @property
    def width(self) -> int:
        """The most by which replacing one value changes a sum: noise is scaled to it."""
        return self.above + self.below

    def at_least(self, other: Ends) -> Ends:
        """Widen these caps so that neither is narrower than the other's."""
        return Ends(max(self.above, other.above), max(self.below, other.below))


NO_ENDS = Ends(0)


def two_sided_scale_rule(rule: Threshold) -> Threshold:
    """The stage that chooses the scale of both caps, with its part of the budget.

    Raises:
        SettingError: the rule reads values, but has no budget that can be shared.
    """
    if not rule.holdout:
        return rule  # it reads no value
    if not hasattr(rule, "epsilon"):
        raise SettingError("lower", "must be 0 for a threshold without a setting `epsilon`")
    changed = {"epsilon": PARTS[0] * rule.epsilon}
    if getattr(rule, "stream_epsilon", 0) is None:  # the same, it says: that of the whole choice
        changed["stream_epsilon"] = rule.epsilon
    return cast("Threshold", replace(cast("Any", rule), **changed))


def two_sided_shape_epsilon(rule: Threshold) -> Fraction:
    """The budget of the choice of the shape."""
    return PARTS[1] * cast("Any", rule).epsilon if rule.holdout else Fraction(0)


def guarantee(rule: Threshold, lattice: Lattice) -> Guarantee:
    """The derived cost for the values that choose: scale and shape, in sequence if both."""
    if not lattice.bottom or not rule.holdout:
        return rule.guarantee
    return sequential(
        two_sided_scale_rule(rule).guarantee, Guarantee(epsilon=two_sided_shape_epsilon(rule))
    )


def choose_caps(
    rule: Threshold, values: IntArray, lattice: Lattice, keystream: Callable[[str], Keystream]
) -> Ends:
    """Choose both caps from the held-out values; `keystream` gives the words for a purpose.

    Privacy. Released: the scale, by the rule from |v|, then the shape (`shaped_caps`), each with
    its part of the rule's budget. Replacing one value replaces one of the numbers |v| that the rule
    reads, so the scale is as private as the rule says for its part; both in sequence cost the
    budget of the rule (`guarantee`). Each reads words of its own.
    """
    if not lattice.bottom:
        return Ends(rule.choose(values, lattice, keystream("threshold")))
    if not rule.holdout:
        return Ends(rule.choose(values, lattice, keystream("threshold")), lattice.bottom)
    scale = two_sided_scale_rule(rule).choose(np.abs(values), lattice.scale, keystream("threshold"))
    counts = outside_caps(values, [scale])[0]
    return shaped_caps(scale, counts, two_sided_shape_epsilon(rule), lattice, keystream("shape"))


def outside_caps(values: IntArray, scales: Sequence[int]) -> IntArray:
    """How many values each shape of each scale would cut, at the cap that is below the whole scale.

    Counts of pieces add up to those of the whole. They are as secret as the values.
    """
    ordered = np.sort(values)
    found: IntArray = np.zeros((len(scales), len(SHAPES)), dtype=np.int64)
    for shape, (above, below) in enumerate(SHAPES):
        if above < _WHOLE:
            highest = _scale_parts(tuple(scales), above)
            found[:, shape] += ordered.size - np.searchsorted(ordered, highest, side="right")
        if below < _WHOLE:
            lowest = -_scale_parts(tuple(scales), below)
            found[:, shape] += np.searchsorted(ordered, lowest, side="left")
    return found


@lru_cache(maxsize=256)
def _scale_parts(scales: tuple[int, ...], eighths: int) -> IntArray:
    return np.array([scale_part(scale, eighths) for scale in scales], dtype=np.int64)


def cap_scores(
    counts: IntArray,
    rate: Fraction,
    wanted: Fraction = Fraction(0),
    narrowed: Sequence[int] = (0,) * len(SHAPES),
) -> IntArray:
    """The score of each shape: −(values cut) − price·ln(its width), in multiples of 2⁻²⁰ values.

    A shape that is e times wider must save `wanted` values, or as many as noise lets it see; and
    each cap that it would narrow costs the same, by `narrowed`.
    """
    price = max(wanted, _VISIBLE / rate) * _DENOMINATOR
    with localcontext(Context(prec=_DIGITS)):
        each = Decimal(price.numerator) / Decimal(price.denominator)
        public = [
            round(each * (Decimal(above + below).ln() + times))
            for (above, below), times in zip(SHAPES, narrowed, strict=True)
        ]
    return -(np.array(public, dtype=np.int64) + counts * _DENOMINATOR)


def shaped_caps(
    scale: int,
    counts: IntArray,
    epsilon: Fraction,
    lattice: Lattice,
    keystream: Keystream,
    wanted: Fraction = Fraction(0),
    before: Ends = NO_ENDS,
) -> Ends:
    """Choose a shape with (nearly) the highest score, and so both caps.

    Ends that were chosen `before` are public. Where little can be seen a shape that halves one of
    them is more often chance than right, and cuts many values: it pays for it.

    Privacy: ε-DP, given the scale, which is released. A value counts once or not at all for each
    shape, so replacing one moves every score by at most 1, up for some shapes and down for others;
    permute-and-flip with acceptance e^(−ε/2·(best − score)) costs ε. Exact: integers decide every
    coin. Cutting the ends to the public bounds is post-processing.
    """
    found = [
        Ends(
            min(lattice.top, scale_part(scale, above)),
            min(lattice.bottom, scale_part(scale, below)),
        )
        for above, below in SHAPES
    ]
    narrowed = [(2 * end.above < before.above) + (2 * end.below < before.below) for end in found]
    rate = epsilon / 2
    scored = cap_scores(counts, rate, wanted, narrowed)
    return found[permute_and_flip(keystream.at(), scored, rate / _DENOMINATOR)]


def raised_values(units: IntArray, below: int | IntArray) -> IntArray:
    """Values counted from the lower cap −`below`; values under it become 0."""
    found: IntArray = np.maximum(units + below, 0)
    return found


def scale_part(scale: int, eighths: int) -> int:
    """`eighths` eighths of a scale, rounded up."""
    return -(-scale * eighths // _WHOLE)
