"""Variances of noise alone, for the guide: `python tools/methods_table.py` writes them there.

In θ²/ε² at a horizon of 2^20 values, each measured by itself, from the laws of the noise: means
over random ranges (both ends uniform), and over running sums (the end uniform).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import tidegate as tg
from tidegate.methods._budget import rho_of_budget
from tidegate.perturb.forest_geometry import Forest

HORIZON = 1 << 20
SCALE = 1000  # of θ in steps: as good as continuous
RANGES, RUNNING_SUMS = 60_000, 20_000
_FEW = 60  # ranges of a law that needs a long product for each; it hardly depends on them
IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
Ends = tuple[IntArray, IntArray]
Law = Callable[[IntArray, IntArray], FloatArray]


class Variance(NamedTuple):
    """One row of the table."""

    noise: str
    guarantee: str
    ranges: float
    running_sums: float
    published: int | None = None  # of random ranges


def random_ranges(count: int = RANGES, leaves: int = HORIZON) -> Ends:
    """Both ends uniform."""
    ends = np.sort(np.random.default_rng(1).integers(0, leaves + 1, size=(2, count)), axis=0)
    return ends[0], ends[1]


def running_sums(count: int = RUNNING_SUMS, leaves: int = HORIZON) -> Ends:
    """From the beginning to a uniform end."""
    ends = np.random.default_rng(2).integers(1, leaves + 1, size=count)
    return np.zeros_like(ends), ends


def forest(fanout: int, levels: int, leaves: int, *, consistent: bool) -> Forest:
    """Every level has 1/levels of ε: noise of scale levels·θ/ε."""
    return Forest(fanout, leaves, (Fraction(levels * SCALE),) * levels, consistent)


def cover(fanout: int, levels: int, ends: Ends) -> FloatArray:
    """Nodes of the smallest cover of each range."""
    starts, stops = ends
    total, done = np.zeros(starts.size), starts == stops
    for level in range(levels):
        last = (starts // fanout == stops // fanout) | (level == levels - 1)
        here = np.where(last, stops - starts, -starts % fanout + stops % fanout)
        total += np.where(done, 0, here)
        done |= last
        starts, stops = -(-starts // fanout), stops // fanout
    return total


def smallest_cover(fanout: int, levels: int) -> Law:
    """The variance of a range whose nodes are added, as few of them as possible."""
    each = 2.0 * (levels * SCALE) ** 2
    return lambda starts, stops: cover(fanout, levels, (starts, stops)) * each


def of_method(preset: Callable[..., tg.Pipeline], **more: Any) -> Law:
    """The variance of a range, by the law of the method's own noise."""
    made = preset(1, SCALE, horizon=HORIZON, holdout=0, resolution=1, **more)
    law = made.perturber.noise_law(SCALE)
    assert law is not None, "every method of this table says what law its noise has"
    return law.range_variance


def square_root_of_single_values(starts: IntArray, stops: IntArray) -> FloatArray:
    """The variance of a range under the square root for ρ = ½, by the closed form.

    (`square_root` itself takes blocks at such a horizon.) Noise of a running sum is Σ c_k·z of as
    many independent z as values came, with c_k = C(2k, k)/4^k; all of them have the variance that
    the longest column needs.
    """
    k = np.arange(1, HORIZON, dtype=np.float64)
    coefficients = np.cumprod(np.concatenate(([1.0], (2 * k - 1) / (2 * k))))
    squares = np.concatenate(([0.0], np.cumsum(np.square(coefficients))))
    common = [
        float(coefficients[:start] @ coefficients[stop - start : stop])
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
    ]
    found = squares[starts] + squares[stops] - 2 * np.array(common)
    variances: FloatArray = SCALE**2 * squares[-1] * found
    return variances


def mean_variance(law: Law, ends: Ends) -> float:
    """In θ²/ε²."""
    return float(law(*ends).mean()) / SCALE**2


def table() -> list[Variance]:
    """All rows, the smallest variance of random ranges first."""
    ranges, sums = random_ranges(), running_sums()
    found = [
        Variance(noise, guarantee, mean_variance(law, ranges), mean_variance(law, sums), published)
        for noise, guarantee, law, published in _laws()
    ]
    root = square_root_of_single_values
    each = mean_variance(root, random_ranges(_FEW)), mean_variance(root, sums)
    for exponent, power in ((6, "⁻⁶"), (9, "⁻⁹")):
        rho = 2 * float(rho_of_budget(Fraction(1), Fraction(1, 10**exponent)))
        name, guarantee = "square root, single values", f"(ε, δ = 10{power})"
        found.append(Variance(name, guarantee, each[0] / rho, each[1] / rho))
    return sorted(found, key=lambda row: row.ranges)


def _laws() -> list[tuple[str, str, Law, int | None]]:
    def tree(fanout: int, levels: int) -> Law:
        return forest(fanout, levels, HORIZON, consistent=True).range_variance

    weak = {"delta": "1e-6"}
    return [
        ("16-ary tree, least squares (`tops(skipped=0)`)", "ε", tree(16, 5), 1197),
        ("binary tree, least squares, 20 levels", "ε", tree(2, 20), 2976),
        ("16-ary tree, smallest cover", "ε", smallest_cover(16, 5), 3180),
        ("binary tree, smallest cover, 20 levels", "ε", smallest_cover(2, 20), 14402),
        ("`signed_digit_tree`", "ε", of_method(tg.signed_digit_tree), None),
        ("`honaker(full=True)`, 21 levels", "ε", of_method(tg.honaker, full=True), None),
        ("`honaker`", "ε", of_method(tg.honaker), None),
        ("`binary_tree`, 21 levels", "ε", of_method(tg.binary_tree), None),
        ("`hybrid_counter` (knows no horizon)", "ε", of_method(tg.hybrid_counter), None),
        ("`flat`", "ε", of_method(tg.flat), None),
        ("`smooth_binary`", "(ε, δ = 10⁻⁶)", of_method(tg.smooth_binary, **weak), None),
    ]


if __name__ == "__main__":
    for row in table():
        print(row)
