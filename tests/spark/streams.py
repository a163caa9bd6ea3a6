"""What tests of Spark share: pipelines, made-up rows, and what a single process would release."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import tidegate as tg
from tests.spark.conftest import SECRET
from tidegate import estimate, perturb, threshold
from tidegate.ownership import Ownership
from tidegate.randomness import Epoch
from tidegate.run.pipeline import Pipeline
from tidegate.run.release import Release
from tidegate.spark.secret import MasterSecret


def fixed(block: int = 8, horizon: int = 4096) -> Pipeline:
    """A method that runs in columns."""
    del block
    return Pipeline(
        threshold=threshold.Fixed(50),
        perturber=perturb.Hierarchy(epsilon=Fraction(1), horizon=horizon),
        estimator=estimate.Recent(),
    )


def adaptive(horizon: int = 1000) -> Pipeline:
    return tg.adaptive(epsilon=1, bound=50, horizon=horizon)


def made_up(keys: int, each: int, seed: int = 5) -> dict[str, np.ndarray]:
    """Values of each key, in order."""
    random = np.random.default_rng(seed)
    return {f"key-{at}": np.round(random.gamma(2, 5, each), 1) for at in range(keys)}


def alone(pipeline: Pipeline, query: str, key: str, values: Any, place: Path) -> Any:
    """The rows of one key, released by a single process with the same key material."""
    epoch: Epoch = MasterSecret(f"file:{place}").epoch(query).of_key(key)
    release = Release(pipeline, epoch, ownership=Ownership())
    return release.push_rows(np.asarray(values, dtype=float))


__all__ = ["SECRET", "adaptive", "alone", "fixed", "made_up"]
