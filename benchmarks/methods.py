"""The methods of the accuracy table, and what the authors' code gives for them (NOTES.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import tidegate as tg

HOLDOUT, HORIZON = 65_536, 1 << 20
BOUND = 1657  # of POS, public
THRESHOLD = 21  # p95 of POS, for the rows with a fixed threshold
_EPSILONS = (0.01, 0.02, 0.05, 0.1)

Build = Callable[[float], tg.Pipeline]


@dataclass(frozen=True)
class Method:
    """One row of the table: how it is built for an epsilon (None: zeros), and its targets."""

    name: str
    build: Build | None
    targets: dict[float, float]
    truncated: bool = False  # compare with the sum of values truncated at THRESHOLD


def _targets(*values: float) -> dict[float, float]:
    return dict(zip(_EPSILONS, values, strict=True))


def _fixed(skipped: int | None, fanout: int, levels: int | None, consistent: bool) -> Build:
    def build(epsilon: float) -> tg.Pipeline:
        return tg.Pipeline(
            threshold=tg.threshold.Fixed(THRESHOLD),
            perturber=tg.perturb.Hierarchy(
                epsilon=epsilon,
                horizon=HORIZON,
                fanout=fanout,
                skipped=skipped,
                levels=levels,
                consistent=consistent,
            ),
            estimator=tg.estimate.Unsmoothed() if skipped == 0 else tg.estimate.Recent(),
        )

    return build


def _unclipped_pak(epsilon: float) -> tg.Pipeline:
    """At resolution 1 if that is allowed: so large a threshold may not fit 64 bits.

    At resolution 10 values are rounded by at most 5: at most 3e13 in a mean squared error of 1e19.
    """
    try:
        return tg.pak(epsilon, BOUND, clip=False)
    except tg.SettingError:
        return tg.pak(epsilon, BOUND, clip=False, resolution=10)


_ALL = [
    Method(
        "ToPS",
        lambda epsilon: tg.tops(epsilon, BOUND),
        _targets(1.92e9, 6.84e8, 1.83e8, 1.08e8),
    ),
    Method(
        "NM-E + H2",
        lambda epsilon: tg.pak_with_tops_threshold(epsilon, BOUND),
        _targets(2.42e11, 8.00e10, 2.02e10, 5.25e9),
    ),
    Method(
        "PAK as published",
        _unclipped_pak,
        _targets(3.96e20, 2.33e19, 3.59e17, 1.18e16),
    ),
    Method(
        "PAK, threshold <= bound",
        lambda epsilon: tg.pak(epsilon, BOUND),
        _targets(3.70e14, 9.39e13, 1.58e13, 3.65e12),
    ),
    Method("Base(0)", None, {0.01: 1.05e13, 0.02: 1.05e13}),
    *(
        Method(
            f"fixed p95, {name}",
            _fixed(skipped=skipped, fanout=fanout, levels=levels, consistent="c" in name),
            _targets(*targets),
            truncated=True,
        )
        for name, skipped, fanout, levels, targets in (
            ("H2", 0, 2, 20, (6.5e10, 1.6e10, 2.6e9, 5.5e8)),
            ("H16", 0, 16, 5, (1.4e10, 3.2e9, 5.1e8, 1.4e8)),
            ("H16c", 0, 16, 5, (5.2e9, 1.2e9, 1.8e8, 5.1e7)),
            ("H^16c", None, 16, None, (3.2e8, 7.6e7, 1.7e7, 1.1e7)),
        )
    ),
]

METHODS = {method.name: method for method in _ALL}
