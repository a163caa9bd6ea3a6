"""Many streams are smoothed at once: each gets the bits that it gets alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tidegate as tg
from tests.adaptive.paths import HORIZON, THETA, blocks_of
from tidegate.estimate.mixture.kalman_filter.block_cells import cells_of
from tidegate.estimate.mixture.smoother.block_batches import MeasuredBlock
from tidegate.estimate.mixture.smoother.block_totals import block_totals
from tidegate.estimate.mixture.smoother.forward_backward_passes import (
    MOST_CELLS,
    SmoothingTask,
    pieces_of_passes,
)
from tidegate.estimate.mixture.smoother.model_and_cycle_smoothers import ModelSmoother
from tidegate.record.joint_smoothing import smooth_together
from tidegate.record.record import Record


def streams() -> list[list[MeasuredBlock]]:
    """Of different lengths, budgets and thresholds; one has no values, one no blocks."""
    found = [blocks_of("1/50", 77), blocks_of("1/2", 128), blocks_of("5", 1), blocks_of("1/2", 40)]
    other = [
        replace(block, cells=cells_of(block.cells.tree, 3 * THETA + number), noise_factor=2.0)
        for number, block in enumerate(found[0][:9])
    ]
    last = found[1][-1]
    empty = [MeasuredBlock(last.end, last.cells, last.sums[:0], last.end)]
    shorter = [*found[1][:-1], replace(last, end=last.end - 1)]  # in the same cell
    some = [found[1], other, found[0][:9], empty, found[2][:5], [], found[3][:7], found[0][:1]]
    return [*some, shorter]


def assert_same(one: ModelSmoother, other: ModelSmoother) -> None:
    for name in ("edges", "sums", "levels"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name
    draws = np.random.default_rng(1).integers(0, one.edges.size, size=(2, 60))
    first, last = draws.min(axis=0), draws.max(axis=0)
    assert one.variances(first, last).tobytes() == other.variances(first, last).tobytes()


def test_streams_together_are_streams_alone() -> None:
    tasks = [
        SmoothingTask(
            blocks,
            HORIZON + 7 * (number % 2),
            (5 * number) % 12,
            0.01 + 0.01 * (number % 3),
        )
        for number, blocks in enumerate(streams())
    ]
    for task, found in zip(tasks, ModelSmoother.of_each(tasks), strict=True):
        assert_same(found, ModelSmoother(*task))


def test_many_pairs_are_few_pairs() -> None:
    """Where there are more pairs than cells, what they need of a cell comes from a table."""
    seen = ModelSmoother(streams()[0], HORIZON, 5)
    draws = np.random.default_rng(2).integers(0, seen.edges.size, size=(2, 3 * seen.edges.size))
    first, last = draws.min(axis=0), draws.max(axis=0)
    many = seen.variances(first, last)
    few = [seen.variances(first[at : at + 9], last[at : at + 9]) for at in range(0, many.size, 9)]
    assert many.tobytes() == np.concatenate(few).tobytes()


def test_totals_of_blocks_are_those_of_their_cells() -> None:
    tasks = [SmoothingTask(blocks, HORIZON, (5 * at) % 12) for at, blocks in enumerate(streams())]
    for task, found in zip(tasks, block_totals(tasks), strict=True):
        (alone,) = block_totals([task])
        assert [part.tobytes() for part in found] == [part.tobytes() for part in alone]
        seen = ModelSmoother(*task)
        begun = [(block.start, block.end) for block in task.blocks if block.end > block.start]
        first, last = np.searchsorted(seen.edges, np.array(begun).reshape(-1, 2)).T
        np.testing.assert_allclose(found.sums, seen.sums[last] - seen.sums[first], rtol=1e-9)
        np.testing.assert_allclose(found.variances, seen.variances(first, last), rtol=1e-9)


def test_a_piece_has_a_bounded_number_of_cells() -> None:
    blocks = blocks_of("1/2", 40)
    task = SmoothingTask(blocks, HORIZON, 2)
    tasks = [task] * 300
    parts = list(pieces_of_passes(tasks))
    assert sum(map(len, parts)) == len(tasks)
    assert len(parts) > 1
    assert max(sum(one.cells for one in part) for part in parts) <= MOST_CELLS
    assert [len(part) for part in pieces_of_passes([task])] == [1]


PIPELINES = {
    "hold-out": tg.adaptive(1, 50, horizon=600, holdout=100),
    "refined": tg.adaptive(1, 50, horizon=600),
    "cycle": tg.adaptive(1, 50, horizon=600, period=24),
    "both signs": tg.adaptive(1, 50, horizon=600, lower=-20),
}


def records(pipeline: tg.Pipeline) -> list[Record]:
    random = np.random.default_rng(8)
    found = []
    cycle = pipeline.estimator.period is not None  # type: ignore[attr-defined]  # takes longer
    for number, count in enumerate((150, 210) if cycle else (400, 701, 333)):
        release = pipeline.start(tg.seeded(number))
        waves = 3 * np.sin(np.arange(count) / 24 * 2 * np.pi)
        release.push(random.exponential(2 + 3 * number, count) + waves)
        found.append(release.record)
    return found


@pytest.mark.parametrize("kind", PIPELINES)
def test_answers_together_are_answers_alone(kind: str) -> None:
    alone, together = records(PIPELINES[kind]), records(PIPELINES[kind])
    ranges = []
    for one in alone:
        edges = np.arange(0, one.end + 1, max(1, one.end // 12))
        ranges.append((np.append(edges[:-1], 0), np.append(edges[1:], one.end)))
    smooth_together(together, ranges)
    for one, other, (starts, ends) in zip(alone, together, ranges, strict=True):
        expected, found = one.queries(starts, ends), other.queries(starts, ends)
        for name in ("estimate", "low", "high", "noise_error", "prediction_error"):
            assert getattr(expected, name).tobytes() == getattr(found, name).tobytes(), name


def test_a_question_that_is_repeated_sees_what_was_released_meanwhile() -> None:
    values = np.random.default_rng(3).exponential(5, 900)
    pipeline = PIPELINES["hold-out"]
    release, other = pipeline.start(tg.seeded(1)), pipeline.start(tg.seeded(1))
    release.push(values[:500])
    starts, ends = np.array([0, 50]), np.array([200, 300])
    before = release.queries(starts, ends)
    assert release.queries(starts, ends).estimate.tobytes() == before.estimate.tobytes()
    release.push(values[500:])
    other.push(values)
    after, expected = release.queries(starts, ends), other.queries(starts, ends)
    assert after.estimate.tobytes() == expected.estimate.tobytes() != before.estimate.tobytes()
    assert after.high.tobytes() == expected.high.tobytes()
