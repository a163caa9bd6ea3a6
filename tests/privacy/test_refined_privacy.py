"""The refined release spends at most ε on every value: exactly, piece by piece."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tests.adaptive.test_climbing_threshold import rare
from tests.adaptive.test_refined_release import HORIZON, PIPELINE, growing
from tests.adaptive.test_refinement_schedule import ramp, seasonal
from tests.privacy.measured_blocks import charge_blocks
from tests.privacy.test_tail_quantile import law, scored
from tidegate.perturb.adaptive.refinement_trees import noisy_sum
from tidegate.randomness import Epoch
from tidegate.run import refinement_run, selection_counts
from tidegate.run.refinement_schedule import EARLY_SHARE, LATE_SHARE, Refinement
from tidegate.run.two_sided_caps import shaped_caps
from tidegate.threshold import TailQuantile


def spent(monkeypatch, pipeline: tg.Pipeline, values: np.ndarray) -> tuple[list[Fraction], int]:
    """What every value paid: to the trees in the record, and to the choices that read it."""
    paid = [Fraction(0)] * values.size
    release = pipeline.start(tg.seeded(5))
    choices, original = [], TailQuantile.choose_from
    shapes: list[Fraction] = []  # of both ends, scale and shape are chosen in sequence

    def choose_from(stage, above, lattice, keystream, **public):
        choices.append((release.position, stage))
        return original(stage, above, lattice, keystream, **public)

    def choose_shape(scale, counts, epsilon, *public):
        shapes.append(epsilon)
        return shaped_caps(scale, counts, epsilon, *public)

    monkeypatch.setattr(TailQuantile, "choose_from", choose_from)
    for reader in (refinement_run, selection_counts):
        monkeypatch.setattr(reader, "shaped_caps", choose_shape)
    release.push(values)
    monkeypatch.undo()
    signed = pipeline.lattice.bottom > 0
    for (end, stage), shape in zip(choices, shapes or [0] * len(choices), strict=True):
        assert (shape > 0) is signed
        for at in range(end - stage.holdout, end):
            paid[at] += stage.epsilon + shape
    charge_blocks(paid, release.record)
    return paid, len(choices)


@pytest.mark.parametrize("epsilon", ["8", "1/2"])
def test_no_value_pays_more_than_epsilon(monkeypatch, epsilon: str) -> None:
    pipeline = tg.adaptive(epsilon=epsilon, bound=10_000, horizon=HORIZON)
    paid, choices = spent(monkeypatch, pipeline, growing())
    budget = Fraction(epsilon)
    assert choices >= (4 if epsilon == "8" else 2)
    assert max(paid) <= budget == pipeline.guarantee.epsilon
    # All is used, but where a full cap cut a window short; scales are rounded up by 10⁻⁶.
    whole = sum(one > budget * (1 - Fraction(1, 10**5)) for one in paid)
    assert whole > 0.7 * len(paid)
    assert min(paid) >= budget * (1 - max(EARLY_SHARE, LATE_SHARE)) * Fraction(999, 1000)


def test_values_of_a_window_that_opens_late_pay_no_more(monkeypatch) -> None:
    """A level that rises opens windows after the first third: their blocks get what is left."""
    pipeline = tg.adaptive(epsilon=2, bound=10_000, horizon=4096)
    paid, choices = spent(monkeypatch, pipeline, ramp())
    _, scheduled = spent(monkeypatch, pipeline, ramp()[:1366])
    assert choices > scheduled + 1
    assert max(paid) <= 2 == pipeline.guarantee.epsilon
    assert sum(one > 2 * (1 - Fraction(1, 10**5)) for one in paid) > 0.9 * len(paid)


def test_values_of_a_window_that_a_moved_level_opens_pay_no_more(monkeypatch) -> None:
    """The same where values below 0 count: both ends are chosen again."""
    pipeline = tg.adaptive(epsilon=3, bound=100, lower=-100, horizon=8192)
    paid, choices = spent(monkeypatch, pipeline, seasonal())
    _, scheduled = spent(monkeypatch, pipeline, seasonal()[:2731])
    assert choices > scheduled
    assert max(paid) <= 3 == pipeline.guarantee.epsilon
    assert sum(one > 3 * (1 - Fraction(1, 10**5)) for one in paid) > 0.9 * len(paid)


def test_values_pay_no_more_while_the_threshold_climbs(monkeypatch) -> None:
    """Blocks of a climb are measured with all of ε, and no choice reads them."""
    pipeline = tg.adaptive(epsilon=3, bound=1, horizon=16_384)
    paid, choices = spent(monkeypatch, pipeline, rare())
    assert choices >= 2  # of the warm-up, and of a window after the climb
    assert max(paid) <= 3 == pipeline.guarantee.epsilon
    assert sum(one > 3 * (1 - Fraction(1, 10**5)) for one in paid) > 0.9 * len(paid)


def test_the_guarantee_is_the_largest_sum_over_kinds_of_pieces() -> None:
    threshold, perturber = PIPELINE.threshold, PIPELINE.perturber
    for refinement in (Refinement(), Refinement(windows=False), Refinement(restarts=False)):
        trees = refinement.trees(threshold, perturber)
        assert refinement.guarantee(threshold, perturber).epsilon == 8
        for share in (Fraction(0), EARLY_SHARE, LATE_SHARE)[: len(trees.blocks)]:
            _, options = trees.group(1 - share, 40, 100, PIPELINE.ceiling)
            for tree in options:
                assert sum(tree.cap / scale for scale in tree.scales) <= (1 - share) * 8
        for part in trees.warm_ups:
            _, layout = trees.warm_up(part, 40, 100, PIPELINE.ceiling)
            assert (layout.cap, layout.nodes) == (100, (1,))
            (scale,) = layout.scales
            assert part * 8 * Fraction(999_999, 10**6) < layout.cap / scale <= part * 8


def worst_loss(pipeline: tg.Pipeline, times: Fraction) -> float:
    """Of a warm-up of three values up to 6: choice and noisy sum, over all neighbours.

    Exact: the log ratio of the choice's probabilities, plus |Δ sum|/scale, which the ratio of two
    discrete Laplace laws reaches in its tails. `times` makes the scale so much smaller.
    """
    stage, refinement, lattice = pipeline.threshold, pipeline.reselect, pipeline.lattice
    share = refinement.warm_up_share(stage, pipeline.perturber, first=True)
    windows = list(itertools.combinations_with_replacement(range(7), 3))
    laws, thetas = {}, []
    for window in windows:
        grid, scores, denominator = scored(stage, np.array(window), lattice)
        laws[window] = law(scores, denominator, float(stage.epsilon))
        thetas = [min(lattice.top, int(int(one) * stage.extrapolation)) for one in grid]
    scales = []
    for theta in thetas:
        _, layout = pipeline.measurer.warm_up(1 - share, 3, theta, pipeline.ceiling)
        scales.append(float(layout.scales[0] / times))
    worst = 0.0
    for window in windows:
        for place, value in itertools.product(range(3), range(7)):
            other = tuple(sorted((*window[:place], *window[place + 1 :], value)))
            for at, theta in enumerate(thetas):
                chosen = abs(math.log(laws[window][at] / laws[other][at]))
                moved = sum(min(one, theta) for one in window)
                moved -= sum(min(one, theta) for one in other)
                worst = max(worst, chosen + abs(moved) / scales[at])
    return worst


def test_choice_and_sum_of_a_warm_up_lose_at_most_epsilon() -> None:
    pipeline = tg.Pipeline(
        threshold=TailQuantile(epsilon=3, bound=6, holdout=3, horizon=1000, stream_epsilon=4),
        perturber=tg.perturb.AdaptiveTrees(epsilon=4, horizon=1000),
        estimator=tg.estimate.Mixture(),
        reselect=Refinement(),
    )
    loss = worst_loss(pipeline, Fraction(1))
    assert 0.9 * 4 < loss <= 4
    assert worst_loss(pipeline, Fraction(13, 10)) > 4  # a scale that is 30 % too small


@pytest.mark.parametrize(("times", "fits"), [(1.0, True), (0.7, False), (1.3, False)])
def test_the_sum_of_a_warm_up_has_the_noise_that_it_claims(times: float, fits: bool) -> None:
    """The mean |noise| of 1,500 sums: its standard error is 2.6 %; and the cap is next to it."""
    _, layout = PIPELINE.measurer.warm_up(Fraction(1, 4), 40, 500, PIPELINE.ceiling)
    epoch = tg.seeded(3).new_epoch()
    values = np.array([100, 9_999, 400])  # capped at 500
    found = [
        noisy_sum(values, layout, epoch.keystream("warm-up", number.to_bytes(4, "big"))) - 1000
        for number in range(1500)
    ]
    expected = times * float(layout.scales[0])
    assert (abs(np.mean(np.abs(found)) / expected - 1) < 0.13) == fits


def test_what_is_released_before_a_value_does_not_depend_on_it() -> None:
    values = growing()
    out = PIPELINE.start(tg.seeded(5)).push(values)
    for place in (3, 100, 300, 640):
        other = values.copy()
        other[place] = 10_000 - other[place]
        moved = PIPELINE.start(tg.seeded(5)).push(other)
        np.testing.assert_array_equal(moved[:place], out[:place])


def test_sums_move_by_what_is_added_and_noise_does_not(monkeypatch) -> None:
    """Equivariance: with θ given, released sums less the truth are the same for two streams."""
    monkeypatch.setattr(TailQuantile, "choose_from", lambda *facts, **more: 5_000)
    pipeline = tg.adaptive(epsilon=8, bound=10_000, horizon=HORIZON, nodes=(1, 8), resolution=1)
    pipeline = tg.Pipeline.from_settings(
        {**pipeline.settings(), "reselect": Refinement(restarts=False).settings()}
    )
    noise = []
    for seed in (1, 2):
        values = np.random.default_rng(seed).integers(0, 900, size=700)
        release = pipeline.start(tg.seeded(4))
        release.push(values)
        sums = np.concatenate(([0], np.cumsum(values)))
        found = []
        for segment in release.record.segments:
            edges = [
                block.start + block.layout.edge(leaf)
                for block in segment.blocks
                for leaf in range(block.layout.leaves)
            ]
            edges = np.array([*edges, segment.blocks[-1].start + segment.blocks[-1].layout.length])
            kept = segment.released
            truth = np.diff(sums[np.minimum(edges[: kept.size + 1], 700)])
            found.append(kept - truth)
        noise.append(np.concatenate(found))
    np.testing.assert_array_equal(noise[0], noise[1])
    assert np.abs(noise[0]).max() > 100


def test_no_key_serves_twice_and_none_serves_other_settings(monkeypatch) -> None:
    """One key for each choice, each warm-up's sum and each phase of blocks; by all that decides."""
    used, original = [], Epoch.keystream

    def keystream(epoch, purpose, settings_digest):
        used[-1].append((epoch.id, purpose, settings_digest))
        return original(epoch, purpose, settings_digest)

    monkeypatch.setattr(Epoch, "keystream", keystream)
    for epsilon in ("8", "8.001"):
        used.append([])
        pipeline = tg.adaptive(epsilon=epsilon, bound=10_000, horizon=HORIZON)
        pipeline.start(tg.seeded(5)).push(growing())
    for keys in used:
        assert len(keys) == len(set(keys)) > 6
        assert {purpose for _, purpose, _ in keys} == {"threshold", "warm-up", "perturb"}
    assert not set(used[0]) & set(used[1])
