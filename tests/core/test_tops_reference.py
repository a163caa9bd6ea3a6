"""Algorithm 1 of the paper, corrected, as slow and plain as it can be written: the same output."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tidegate.noise import discrete_laplace, permute_and_flip
from tidegate.perturb.hierarchy_and_flat import paper_skipped_levels
from tidegate.randomness import Epoch, Keystream

EPSILON, BOUND, HORIZON, HOLDOUT, FANOUT = Fraction(1, 2), 50, 256, 200, 4


@pytest.fixture
def keystreams(monkeypatch: pytest.MonkeyPatch) -> dict[str, Keystream]:
    """The keystreams that a release uses, by purpose: the reference reads the same words."""
    found: dict[str, Keystream] = {}
    original = Epoch.keystream

    def noted(self: Epoch, purpose: str, *rest: Any, **more: Any) -> Keystream:
        found[purpose] = original(self, purpose, *rest, **more)
        return found[purpose]

    monkeypatch.setattr(Epoch, "keystream", noted)
    return found


def choose_threshold(held: list[int], keystream: Keystream) -> int:
    """NM-E: every θ from 1 to B, its score, and one permute-and-flip."""
    height = math.log(HORIZON, FANOUT)
    noise = 3 * HOLDOUT / (60 * HORIZON * float(EPSILON)) * math.sqrt(2 * (FANOUT - 1) * height**3)
    one = 2**40
    scores = []
    for theta in range(1, BOUND + 1):
        above = sum(1 for value in held if value > theta)
        scores.append(-round(noise * one) * theta - one * above)
    words = keystream.at()
    return 1 + permute_and_flip(words, np.array(scores), EPSILON / one)


def consistent_noise(chunk: int, theta: int, levels: int, keystream: Keystream) -> list[Fraction]:
    """The paper's two passes over one forest of noise, in exact fractions. H[level][node]."""
    scale = Fraction(levels * theta) / EPSILON
    tops = FANOUT
    H: list[list[Fraction]] = []  # noqa: N806 the paper's symbol
    for level in range(levels):
        count = tops * FANOUT ** (levels - 1 - level)
        words = keystream.at(chunk=chunk, tree=0, level=level)
        H.append([Fraction(int(draw)) for draw in discrete_laplace(words, count, scale)])
    b = FANOUT
    for level in range(1, levels):  # bottom up; the paper's l counts leaves as 1
        height = level + 1
        for node in range(len(H[level])):
            children = sum(H[level - 1][b * node : b * node + b])
            H[level][node] = (
                (b**height - b ** (height - 1)) * H[level][node]
                + (b ** (height - 1) - 1) * children
            ) / (b**height - 1)
    for level in range(levels - 1, 0, -1):  # top down
        for node in range(len(H[level])):
            children = H[level - 1][b * node : b * node + b]
            for child in range(b):
                H[level - 1][b * node + child] += (H[level][node] - sum(children)) / b
    return H[0]


def slow_tops(values: list[int], keystreams: dict[str, Keystream]) -> tuple[int, list[float]]:
    """One value at a time, nothing clever."""
    theta = choose_threshold(values[:HOLDOUT], keystreams["threshold"])
    skipped = paper_skipped_levels(EPSILON, HORIZON, FANOUT)
    block = FANOUT**skipped
    levels = round(math.log(HORIZON, FANOUT)) - skipped
    out: list[float] = []
    previous = block * theta / 2  # u_0
    for position, value in enumerate(values[HOLDOUT:]):
        chunk, inside = divmod(position, HORIZON)
        leaf, offset = divmod(inside, block)
        if inside == 0:
            noise = consistent_noise(chunk, theta, levels, keystreams["perturb"])
            prefix, rounded = Fraction(0), 0
        if offset == 0:
            total, published = 0, 0.0
        total += min(value, theta)
        prediction = previous / block
        if offset < block - 1:
            out.append(prediction)
            published += prediction
            continue
        prefix += noise[leaf]
        leaf_noise = math.floor(prefix + Fraction(1, 2)) - rounded
        rounded += leaf_noise
        noisy = total + leaf_noise
        out.append(noisy - published)
        previous = noisy
    return theta, out


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_tops_is_algorithm_1(seed: int, keystreams: dict[str, Keystream]) -> None:
    values = np.random.default_rng(seed).geometric(0.15, size=HOLDOUT + 5 * HORIZON // 2)
    pipeline = tg.tops(
        epsilon=EPSILON, bound=BOUND, horizon=HORIZON, holdout=HOLDOUT, fanout=FANOUT, resolution=1
    )
    release = pipeline.start(tg.seeded(seed))
    out = release.push(values)
    theta, expected = slow_tops(values.tolist(), keystreams)
    block = pipeline.perturber.block
    assert block > 1
    assert pipeline.perturber.tree_levels == 4 - round(math.log(block, FANOUT))
    assert release.threshold == theta
    assert len(expected) == out.size
    # Equal, except that a running sum of exactly ½ may be rounded up here and, in floats, down
    # there: then one leaf is off by one and the next makes up for it.
    prefix = np.cumsum(out)[block - 1 :: block] - np.cumsum(expected)[block - 1 :: block]
    assert np.abs(prefix).max() <= 1 + 1e-6
    same = np.isclose(out, expected, rtol=1e-12, atol=1e-6)
    assert same.mean() > 0.9
    assert np.abs(out - expected).max() <= 2 + 1e-6


def test_pak_is_prefix_sums_of_a_binary_tree(keystreams: dict[str, Keystream]) -> None:
    """Dwork et al.: value t is the estimate of prefix t minus that of prefix t − 1."""
    horizon, holdout = 32, 100
    pipeline = tg.pak_with_tops_threshold(
        epsilon=EPSILON, bound=BOUND, horizon=horizon, holdout=holdout, resolution=1
    )
    release = pipeline.start(tg.seeded(1))
    values = np.random.default_rng(1).geometric(0.15, size=holdout + 80)
    out = release.push(values)
    theta = int(release.threshold or 0)
    levels = 5  # log2 32, no root: the top level has two nodes
    scale = Fraction(levels * theta) / EPSILON
    expected, before = [], 0
    for position, value in enumerate(values[holdout:].tolist()):
        chunk, inside = divmod(position, horizon)
        if inside == 0:
            true, before = 0, 0
            nodes = [
                discrete_laplace(
                    keystreams["perturb"].at(chunk=chunk, tree=0, level=level), 32 >> level, scale
                )
                for level in range(levels)
            ]
        true += min(value, theta)
        estimate, at = true, 0
        for level in range(levels - 1, -1, -1):  # binary digits of the prefix's length
            while at + 2**level <= inside + 1:
                estimate += int(nodes[level][at >> level])
                at += 2**level
        expected.append(float(estimate - before))
        before = estimate
    np.testing.assert_array_equal(out, expected)
