"""End to end on a real stream: market baskets (POS), as in the paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tidegate as tg


@pytest.fixture(scope="module")
def baskets(data_directory: Path) -> np.ndarray:
    parquet = pytest.importorskip("pyarrow.parquet", reason="real streams are parquet files")
    table = parquet.read_table(data_directory / "pos_length.parquet")
    return table.column(0).to_numpy()


@pytest.mark.parametrize("estimator", [tg.estimate.Recent(), tg.estimate.Mean()], ids=repr)
def test_tops_on_real_baskets(baskets: np.ndarray, estimator: tg.stages.Smoother) -> None:
    pipeline = tg.tops(epsilon=0.1, bound=1657, estimator=estimator)
    held, values = baskets[: 2**16], baskets[2**16 :]
    random = np.random.default_rng(0)
    hits, errors, later = [], [], []
    for seed in range(12):
        release = pipeline.start(tg.seeded(seed))
        assert release.push(held).size == 0
        theta = release.threshold
        assert np.quantile(held, 0.9) < theta < 300  # near the 99th percentile, far below the bound
        out = release.push(values)
        assert out.size == values.size
        assert np.isfinite(out).all()
        truth = np.concatenate(([0], np.cumsum(np.minimum(values, theta))))
        ends = np.sort(random.integers(0, values.size + 1, size=(2, 200)), axis=0)
        found = release.queries(*ends)
        exact = truth[ends[1]] - truth[ends[0]]
        hits.append((found.low <= exact) & (exact <= found.high))
        running = np.concatenate(([0.0], np.cumsum(out)))
        published = running[ends[1]] - running[ends[0]]
        errors.append(np.mean((published - exact) ** 2))
        later.append(np.mean((found.estimate - exact) ** 2))
        whole = ends // pipeline.perturber.block * pipeline.perturber.block
        blocks = release.queries(*whole).estimate
        np.testing.assert_allclose(blocks, running[whole[1]] - running[whole[0]], atol=1e-3)
    assert np.mean(hits) > 0.92  # twelve independent releases only
    # NOTES.md: the authors' code has a median of 1.08e8 here, truncation included.
    assert np.median(errors) < 2 * 1.08e8
    assert np.mean(later) < np.mean(errors)  # what comes later says more about the past
