"""Law of keys: each key gets, bit for bit, what a release of its rows alone would give it.

Whatever the order of rows of different keys, and however they are split into pushes; with a stop in
the middle (laws 1 and 2 for keys).
"""

from __future__ import annotations

import numpy as np
import pytest

import tidegate as tg
from tests.laws.catalogue import bits, inputs, pipelines
from tidegate.ownership import Ownership
from tidegate.run.release import Release
from tidegate.units import UserHorizon

NAMES = ("north", "7")
MOST = 260  # rows of a key: more than every hold-out, and four horizons of most pipelines


def catalogue() -> dict[str, tg.Pipeline]:
    """All pipelines that keys can have."""
    found = pipelines().items()
    return {name: one for name, one in found if not isinstance(one.unit, UserHorizon)}


def rows_of(pipeline: tg.Pipeline, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Keys and values in a random order."""
    values = np.concatenate([inputs(pipeline, seed=at)[:MOST] for at in range(len(NAMES))])
    keys = np.repeat(NAMES, [values.size - values.size // 2, values.size // 2])
    order = np.random.default_rng(seed).permutation(values.size)
    # Rows of a key stay in their order.
    shuffled = np.empty_like(values)
    for name in NAMES:
        shuffled[keys[order] == name] = values[keys == name]
    return keys[order], shuffled


@pytest.mark.parametrize("name", catalogue())
def test_a_key_is_a_release_of_its_own(name: str) -> None:
    pipeline = catalogue()[name]
    specification = tg.keyed(pipeline, keys=NAMES)
    release = specification.start(tg.seeded(5))
    keys, values = rows_of(pipeline, seed=1)
    cuts = np.sort(np.random.default_rng(2).integers(0, values.size, size=3))
    found: dict[str, list[np.ndarray]] = {key: [] for key in NAMES}
    for number, (some, part) in enumerate(
        zip(np.split(keys, cuts), np.split(values, cuts), strict=True)
    ):
        rows = release.push(some.tolist(), part)
        for key in NAMES:
            mine = rows.of(key)
            found[key].append(np.stack([mine.positions, mine.values, mine.levels]))
        if number == 1:
            release = specification.resume(release.snapshot(brief=True))
    epoch = tg.seeded(5).new_epoch()
    for key in NAMES:
        alone = Release(pipeline, epoch.of_key(key), ownership=Ownership())
        expected = alone.push_rows(values[keys == key])
        positions, out, levels = np.concatenate(found[key], axis=1)
        assert bits(positions) == bits(np.arange(expected.values.size))
        assert bits(out) == bits(expected.values)
        assert bits(levels) == bits(expected.levels)
