"""The same job by opendp: 2^20 integers, a 16-ary tree with its root, Laplace noise, consistency.

The job, for both: 2^20 counts in, 2^20 consistent private leaves out; six levels (opendp always
measures the root), so noise of scale 6*threshold/epsilon on every node, in integers.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

import tidegate as tg
from benchmarks.table import Row, at_least
from benchmarks.timing import again, best, once, progress

_FANOUT, _LEAVES, _LEVELS = 16, 1 << 20, 6
_THRESHOLD, _EPSILON = 21, 0.1


def tree_rows(quick: bool) -> list[Row]:
    counts = np.minimum(tg.synthetic.baskets(_LEAVES), _THRESHOLD)
    ours = best(_our_forest(counts), 4 if quick else 8)
    rows = [Row("consistent 2^20-leaf forest", ours * 1e3, "ms", note="started, pushed, released")]
    leaves = _LEAVES >> 4 if quick else _LEAVES
    try:
        measurement = _opendp_tree(leaves)
    except ImportError:
        progress("opendp is not installed: no comparison")
        return rows
    rival = min(once(lambda: measurement(counts[:leaves])) for _ in range(2))
    note = f"opendp {version('opendp')}: {rival:.2f} s"
    if quick:
        note += f" for {leaves:,} leaves, scaled by leaves"
    speedup = rival * (_LEAVES / leaves) / ours
    return [*rows, at_least("the same, times faster than opendp", speedup, 50.0, "x", note)]


def _our_forest(counts: NDArray[np.int64]) -> Callable[[], Callable[[], object]]:
    pipeline = tg.Pipeline(
        threshold=tg.threshold.Fixed(_THRESHOLD),
        perturber=tg.perturb.Hierarchy(
            epsilon=_EPSILON, horizon=_LEAVES, fanout=_FANOUT, skipped=0, levels=_LEVELS
        ),
        estimator=tg.estimate.Unsmoothed(),
    )
    return again(lambda: pipeline.start().push(counts))


def _opendp_tree(leaves: int) -> Callable[[NDArray[np.int64]], object]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    tree = dp.t.make_b_ary_tree(*space, leaf_count=leaves, branching_factor=_FANOUT)
    noisy = dp.m.then_laplace(scale=_LEVELS * _THRESHOLD / _EPSILON)
    consistent = dp.t.make_consistent_b_ary_tree(branching_factor=_FANOUT, TIA="i64", TOA="f64")
    measurement: Callable[[NDArray[np.int64]], object] = tree >> noisy >> consistent
    return measurement
