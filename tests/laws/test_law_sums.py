"""Law 3: parent = sum of children, online = offline, ranges within one unit of least squares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.laws.catalogue import courses, inputs, perturbers, pipelines, stream
from tidegate.perturb import forest_geometry
from tidegate.perturb.forest_geometry import Forest

THETA = 9


def keystream(seed: int = 1) -> Any:
    return tg.seeded(seed).new_epoch().keystream("perturb", b"law 3")


def small(stage: Any) -> bool:
    return stage.horizon < 1000


def block_sums(values: np.ndarray, block: int) -> np.ndarray:
    full = values.size // block * block
    return np.minimum(values[:full], THETA).reshape(-1, block).sum(axis=1)


def offline(stage: Any, sums: np.ndarray) -> np.ndarray:
    """Add true sums to every node of every tree first, then combine: the textbook order."""
    law: Forest = stage.noise_law(THETA)
    out = []
    for chunk, start in enumerate(range(0, sums.size, law.leaves)):
        inside = sums[start : start + law.leaves]
        carry = 0.0
        for grove, at in enumerate(range(0, law.leaves, law.grove_leaves)):
            leaves = np.zeros(law.grove_leaves, dtype=np.int64)
            part = inside[at : at + law.grove_leaves]
            leaves[: part.size] = part
            nodes = law.nodes(keystream(), chunk, grove)
            noisy = [
                node + leaves.reshape(-1, law.fanout**level).sum(axis=1)
                for level, node in enumerate(nodes)
            ]
            released, carry = law.combine(noisy, carry)
            out.append(released[: part.size])
    return np.concatenate(out)


@pytest.mark.parametrize("grove", [None, 8], ids=["groves as shipped", "many groves"])
@pytest.mark.parametrize("name", perturbers(fixed=True))
def test_online_is_offline(name: str, grove: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if grove:
        monkeypatch.setattr(forest_geometry, "_GROVE_LEAVES", grove)
    stage = perturbers(fixed=True)[name]
    span = stage.horizon * 5 // 2 if small(stage) else stage.horizon + 100
    values = stream(span + 3 * stage.block, top=30)
    run = stage.start(THETA, THETA, keystream())
    online = np.concatenate([run.push(part).sums for part in np.array_split(values, 5)])
    sums = block_sums(values, stage.block)
    assert online.dtype == np.int64
    np.testing.assert_array_equal(online, offline(stage, sums))
    assert not np.array_equal(online, sums)


# Non-negative output pays negative values out of later ones: see tests/core/test_non_negative.py.
SIGNED = {name: one for name, one in pipelines().items() if not one.non_negative}
FIXED = [name for name, one in SIGNED.items() if one.estimator.adds_up]
# A forecaster publishes posterior means, not noisy sums: there the law is the next one. (Leaves add
# up to their parents' noise, online and offline: tests/adaptive/test_adaptive_choice.py.)
GUIDED = [name for name, one in SIGNED.items() if not one.estimator.adds_up]


@pytest.mark.parametrize("name", GUIDED)
def test_published_values_of_a_block_add_up_to_whole_steps(name: str) -> None:
    pipeline = SIGNED[name]
    release = pipeline.start(tg.seeded(2))
    out = release.push(inputs(pipeline)) / float(pipeline.resolution)
    blocks = 0
    for course in courses(release):
        start = course.start
        for tree in course.layouts:
            if start + tree.length <= course.end:
                total = out[start : start + tree.length].sum()
                assert total == pytest.approx(round(total), abs=1e-6)
                blocks += 1
            start += tree.length
    assert blocks


@pytest.mark.parametrize("name", FIXED)
def test_published_values_of_a_block_add_up_to_its_noisy_sum(name: str) -> None:
    pipeline = SIGNED[name]
    block = pipeline.perturber.block
    release = pipeline.start(tg.seeded(2))
    out = release.push(inputs(pipeline))
    full = out.size // block * block
    ends = np.arange(block, full + 1, block)
    ends = ends[ends - block >= release.record.start]
    published = out[:full].reshape(-1, block).sum(axis=1)[full // block - ends.size :]
    noisy = release.queries(ends - block, ends).estimate
    np.testing.assert_allclose(published, noisy, rtol=0, atol=1e-9 * np.abs(out).max())
    if pipeline.reselect is not None and pipeline.reselect.blocking:
        return  # some blocks are predictions
    units = noisy / float(pipeline.resolution)  # a noisy sum is a whole number of steps
    np.testing.assert_allclose(units, np.rint(units), rtol=0, atol=1e-6)


def design(fanout: int, levels: int, trees: int) -> np.ndarray:
    """One row per node, leaves first: which leaves it covers."""
    leaves = trees * fanout ** (levels - 1)
    rows = [
        np.kron(np.eye(leaves // fanout**level), np.ones(fanout**level)) for level in range(levels)
    ]
    return np.concatenate(rows)


@pytest.mark.parametrize("shares", [None, "unequal"])
@pytest.mark.parametrize(
    ("fanout", "levels", "trees", "grove"),
    [(2, 3, 1, 4096), (2, 4, 3, 8), (3, 3, 4, 9), (5, 2, 5, 10), (4, 1, 7, 4), (16, 2, 3, 16)],
)
def test_ranges_are_within_one_unit_of_exact_least_squares(
    fanout: int, levels: int, trees: int, grove: int, shares: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(forest_geometry, "_GROVE_LEAVES", grove)
    leaves = trees * fanout ** (levels - 1)
    stage = tg.perturb.Hierarchy(
        epsilon="1/4", horizon=leaves - 1, fanout=fanout, skipped=0, levels=levels,
        shares=None if shares is None else [2**level for level in range(levels)],
    )  # fmt: skip
    law = stage.noise_law(THETA)
    values = np.minimum(stream(2 * (leaves - 1), seed=4), THETA)
    run = stage.start(THETA, THETA, keystream(5))
    released = run.push(values).sums
    matrix = design(fanout, levels, trees)
    precision = np.concatenate(
        [
            np.full(leaves // fanout**level, variance**-0.5)
            for level, variance in enumerate(law.variances)
        ]
    )
    for chunk in range(2):
        truth = np.zeros(leaves)
        truth[:-1] = values[chunk * (leaves - 1) : (chunk + 1) * (leaves - 1)]
        groves = [
            law.nodes(keystream(5), chunk, index) for index in range(-(-leaves // law.grove_leaves))
        ]
        nodes = [np.concatenate([one[level] for one in groves]) for level in range(levels)]
        noise = np.concatenate(
            [node[: leaves // fanout**level] for level, node in enumerate(nodes)]
        )
        noisy = matrix @ truth + noise
        exact = np.linalg.lstsq(matrix * precision[:, None], noisy * precision, rcond=None)[0]
        prefix = np.cumsum(released[chunk * (leaves - 1) : (chunk + 1) * (leaves - 1)])
        errors = np.concatenate(([0.0], prefix - np.cumsum(exact)[:-1]))
        assert np.abs(errors).max() <= 0.5 + 1e-6  # every prefix, hence …
        assert np.ptp(errors) <= 1 + 1e-6  # … every range
        assert np.abs(noise).max() > 5


def test_without_consistency_a_prefix_is_the_sum_of_the_fewest_nodes() -> None:
    stage = tg.perturb.Hierarchy(
        epsilon="1/4", horizon=70, fanout=3, skipped=0, levels=4, consistent=False
    )
    law = stage.noise_law(THETA)
    nodes = law.nodes(keystream(), 0, 0)
    run = stage.start(THETA, THETA, keystream())
    released = np.cumsum(run.push(np.zeros(70, dtype=np.int64)).sums)
    for end in range(1, 71):
        expected, at = 0, 0
        while at < end:  # greedily the largest aligned node that fits
            level = max(k for k in range(4) if at % 3**k == 0 and at + 3**k <= end)
            expected += int(nodes[level][at // 3**level])
            at += 3**level
        assert released[end - 1] == expected
