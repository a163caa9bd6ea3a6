"""A twin stream, forced to the same output: what differs then is what a value pays, exactly.

A value is changed, the noise of the one leaf that it is in is moved by the opposite, and choices
and bits are given. If all outputs are equal, nothing else read the value; and the loss is at most
|moved|/scale, added up over levels, and the rate × |moved score| of the choice that counted it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.adaptive.test_late_looks import PIPELINE, late
from tidegate.lattice import IntArray
from tidegate.perturb.adaptive.refinement_trees import RefinementTreesRun
from tidegate.record.segments.segment import Segment
from tidegate.run import selection_counts
from tidegate.run.refinement_state import RefinementState
from tidegate.stages import FAR_SHARE, Layout
from tidegate.stages.late_looks import is_look
from tidegate.threshold import TailQuantile, far_values
from tidegate.threshold.far_values import far_values_scores
from tidegate.threshold.tail_quantile import PARTS

EPSILON = Fraction(30)
Read = tuple[int, IntArray, Fraction]  # an outcome, its scores, and the rate


def released(
    patch: pytest.MonkeyPatch,
    values: IntArray,
    seed: int,
    given: list[Read] | None = None,
    moved: tuple[int, int, int] = (-1, 0, 0),
) -> tuple[tg.Release, bytes, list[Read]]:
    """Release values, with the outcomes `given`; `moved`: a block, its leaf, and by how much."""
    read: list[Read] = []
    choose, find = TailQuantile.choose_from, far_values.far_values_found
    leaves = RefinementTreesRun._leaf_noise

    def noise(run: RefinementTreesRun, tree: Layout) -> IntArray:
        found = leaves(run, tree)
        if run.position != moved[0]:
            return found
        found = found.copy()
        found[moved[1]] -= moved[2]
        return found

    def choose_from(stage: TailQuantile, above: IntArray, grid: Any, key: Any, **facts: Any) -> int:
        _, scores, parts = stage.scores(above, grid, **facts)
        made = choose(stage, above, grid, key, **facts) if given is None else given[len(read)][0]
        read.append((made, scores.copy(), stage.epsilon / parts))
        return made

    def found_far(above: int, epsilon: Fraction, key: Any) -> bool:
        made = find(above, epsilon, key) if given is None else bool(given[len(read)][0])
        read.append((made, far_values_scores(above, epsilon), epsilon / PARTS))
        return made

    with patch.context() as patched:
        patched.setattr(RefinementTreesRun, "_leaf_noise", noise)
        patched.setattr(TailQuantile, "choose_from", choose_from)
        patched.setattr(selection_counts, "far_values_found", found_far)
        release = PIPELINE.start(tg.seeded(seed))
        return release, release.push(values).tobytes(), read


def block_of(release: tg.Release, place: int) -> tuple[Segment, Any]:
    """The segment and the block that a value belongs to."""
    for segment in release.record.segments:
        for block in segment.blocks:
            if block.start <= place < min(block.start + block.layout.length, segment.end):
                return segment, block
    raise AssertionError("every value is in a block")


def losses(patch: pytest.MonkeyPatch, seed: int, places: range) -> list[tuple[Fraction, Fraction]]:
    """For a value at each place that becomes 0 or the bound: the share of its window, its loss."""
    values, found = late(600, large=seed % 2 > 0), []
    for place in places:
        first, second = values.copy(), values.copy()
        first[place], second[place] = 0, 10**5
        release, out, read = released(patch, first, seed)
        segment, block = block_of(release, place)
        tree, stage = block.layout, segment.method.budgets
        assert stage is not None
        part = stage.part_of(block.choice, tree.length, segment.threshold, segment.method.ceiling)
        assert part > 0  # later than warm-ups
        leaf = tree.leaves_by(place - block.start)
        moved = block.start, leaf, tree.cap
        twin, same, others = released(patch, second, seed, read, moved)
        assert out == same
        assert release.query() == twin.query()
        assert release.phases == twin.phases
        loss = sum((tree.cap / scale for scale in tree.scales), Fraction(0))
        for (_, one, rate), (_, other, _) in zip(read, others, strict=True):
            assert (one <= other).all() or (one >= other).all()  # monotone
            loss += int(np.abs(one - other).max()) * rate
        found.append((1 - part, loss))
    return found


@pytest.mark.parametrize("seed", [5, 6])
def test_a_value_pays_epsilon_before_in_and_after_a_look(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    found = losses(monkeypatch, seed, range(60, 600, 27))
    paid = [share for share, _ in found]
    assert any(map(is_look, paid))
    assert (FAR_SHARE in paid) == (seed % 2 > 0)
    assert max(loss for _, loss in found) <= EPSILON
    looks = [loss for share, loss in found if is_look(share) or share == FAR_SHARE]
    assert min(looks) > EPSILON * Fraction(9, 10)  # the twin sees what is paid


def test_a_twin_sees_sums_that_leave_nothing_for_the_look(monkeypatch: pytest.MonkeyPatch) -> None:
    measuring = RefinementState._measuring

    def all_of_it(run: RefinementState, *given: Any) -> Any:
        blocks = measuring(run, *given)
        if blocks.window is not None and is_look(blocks.window.share):
            blocks.perturber.part = Fraction(1)
        return blocks

    monkeypatch.setattr(RefinementState, "_measuring", all_of_it)
    assert max(loss for _, loss in losses(monkeypatch, 6, range(250, 440, 60))) > EPSILON
