"""Segments as plain data, the one encoding of all states; and joining a segment with a later state.

origin, threshold, epoch, end, prediction     facts; `below` only if values below 0 count
blocks    start, length, choice, model_weights of every block, one after another
first     number of the first leaf of the first block
closed    leaves completed since the origin
before    the sum of all leaves before those that are kept
sums      of the leaves that are kept
predictions, squares      of those and the open one, where leaves have one size
spans, marks, predictions  of those, where the method decides what they span
sizes     numbers of events by size, a row for each piece; only if they were counted
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import QueryError
from tidegate.lattice import IntArray
from tidegate.record.segments.segment import WARMING, Segment
from tidegate.record.segments.segment_method import SegmentMethod
from tidegate.stages import Block, Layout
from tidegate.stages.size_bands import QUARTERS

_WHOLE = ("blocks", "sums", "spans", "marks", "sizes")
_REAL = ("predictions", "squares")


def segment_state(segment: Segment, brief: bool = False) -> dict[str, Any]:
    """The segment as numbers and arrays; `brief` keeps only what is needed to continue."""
    facts = {name: getattr(segment, name) for name in ("origin", "threshold", "epoch", "end")}
    if segment.below:
        facts["below"] = segment.below
    if not segment.measured:
        return {**facts, "prediction": segment.prediction}
    leaves, blocks = segment.leaves, list(segment.blocks)
    count = None
    if brief:
        count, blocks = segment.method.estimator.leaves_needed(segment.recorded) + 1, blocks[-1:]
    running, *predicted = leaves.columns(count)
    more = {}
    if segment.spans is not None:
        levels, edges, marks = predicted
        more = {"spans": np.diff(edges), "marks": marks[1:]}
        predicted = [levels, np.empty(0)]
    if segment.sizes and not brief:
        more["sizes"] = np.concatenate(segment.sizes)
    rows = [
        (block.start, block.layout.length, block.choice, block.model_weights) for block in blocks
    ]
    return {
        **facts,
        "prediction": None,
        "blocks": np.array(rows, dtype=np.int64).reshape(-1),
        "first": blocks[0].first,
        "closed": leaves.closed,
        "before": int(running[0]),
        "sums": np.diff(running),
        **dict(zip(_REAL, predicted or (np.empty(0), np.empty(0)), strict=True)),
        **more,
    }


def restored_segment(method: SegmentMethod, state: Mapping[str, Any]) -> Segment:
    """The segment from what `segment_state` returned.

    Raises:
        ValueError, KeyError: it is damaged.
    """
    segment = _segment_of_facts(method, state)
    if not segment.measured:
        return segment
    if any(state[name].dtype.kind != "i" for name in _WHOLE if name in state):
        raise ValueError("sums, blocks, spans and marks are whole numbers")
    edges = None
    if segment.spans is not None:
        edges = state["blocks"][0] + np.concatenate(
            ([0], np.cumsum(state["spans"], dtype=np.int64))
        )
    _restore_segment_blocks(segment, state, edges)
    _restore_segment_leaves(segment, state, edges)
    if "sizes" in state:
        segment.sizes = rows = method.size_rows(segment.threshold, state["sizes"])
        if any(not 1 <= row[2] <= QUARTERS for row in rows):
            raise ValueError("a part of ε is given in quarters")
    if not _complete_segment(segment, state["first"]):
        raise ValueError("its leaves do not belong to its blocks")
    return segment


def _segment_of_facts(method: SegmentMethod, state: Mapping[str, Any]) -> Segment:
    """The segment without its blocks and leaves."""
    facts = {name: state[name] for name in ("threshold", "origin", "epoch", "prediction")}
    below = state.get("below", 0)
    if type(below) is not int or not 0 <= below <= facts["threshold"]:
        raise ValueError("the part of the caps' width below 0 must lie between 0 and the width")
    prediction = facts["prediction"]
    if prediction is not None and not (
        type(prediction) in (int, float) and abs(prediction) < 2**63
    ):
        raise ValueError("a prediction is a number, or there is none")
    segment = Segment(method, **facts, below=below)
    segment.end = state["end"]
    return segment


def _restore_segment_blocks(
    segment: Segment, state: Mapping[str, Any], edges: IntArray | None
) -> None:
    first = state["first"]
    layouts: dict[tuple[int, int], Layout] = {}  # thousands of blocks have a few of them
    for start, length, choice, model_weights in state["blocks"].reshape(-1, 4).tolist():
        if edges is not None:
            first = state["first"] + int(np.searchsorted(edges, start))
        segment.method.estimator.check_model_weights(model_weights)
        kind = length, choice
        if kind not in layouts:
            layouts[kind] = segment.layout(length, choice)
        block = Block(start, layouts[kind], choice, model_weights, first)
        segment.keep(block)
        first += block.layout.leaves
    if not segment.blocks:
        raise ValueError("a record begins with a block")


def _restore_segment_leaves(
    segment: Segment, state: Mapping[str, Any], edges: IntArray | None
) -> None:
    sums = state["sums"]
    running: IntArray = np.empty(sums.size + 1, dtype=np.int64)
    running[0] = 0
    sums.cumsum(dtype=np.int64, out=running[1:])
    running += state["before"]
    columns: list[NDArray[Any]] = [running]
    if edges is not None:
        columns += [state["predictions"], edges, np.concatenate(([0], state["marks"]))]
    elif state["predictions"].size:
        columns += [state[name] for name in _REAL]
    segment.leaves.restore(state["closed"], columns)


def _complete_segment(segment: Segment, first: int) -> bool:
    """Whether there is exactly one sum for each leaf of the blocks."""
    leaves, last = segment.leaves, segment.blocks[-1]
    values = segment.end - last.start
    if segment.spans is not None:
        known = segment.spans.spans()
        widths = np.diff(known.edges)
        borders = [block.start for block in segment.blocks]
        return (
            leaves.oldest == first
            and bool((widths > 0).all())
            and bool((known.marks >= 0).all())
            and bool(np.isin(borders, known.edges).all())
            and 0 <= segment.end - int(known.edges[-1]) < last.layout.length
        )
    # One block without end, whose oldest leaves may be forgotten.
    if segment.method.estimator.adds_up:
        return leaves.oldest >= first and leaves.closed == values // segment.method.perturber.block
    return leaves.oldest == first and leaves.closed == last.first + last.layout.leaves_by(values)


def segment_array_as_text(state: Mapping[str, Any]) -> dict[str, Any]:
    """Encode for text files: an array as numbers separated by spaces.

    (Indented JSON would have a line for each number.)
    """
    return {
        name: " ".join(map(repr, value.tolist())) if isinstance(value, np.ndarray) else value
        for name, value in state.items()
    }


def segment_array_from_text(state: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `segment_array_as_text`."""
    arrays: dict[str, Any] = {}
    for names, number, kind in ((_WHOLE, int, np.int64), (_REAL, float, np.float64)):
        for name in names:
            if name in state:
                arrays[name] = np.array([number(item) for item in state[name].split()], kind)
    return {**state, **arrays}


NOT_ONE_RELEASE = "these are not two records of one release that overlap or follow each other"


def joined_segments(before: Sequence[Segment], later: Sequence[Segment]) -> list[Segment]:
    """The segments of a record, followed by those of a later record of the same release."""
    # An open warm-up is known better by now, or part of the later record.
    by_epoch = {one.epoch: one for one in before if one.epoch != WARMING}
    for segment in later:
        known = by_epoch.get(segment.epoch)
        by_epoch[segment.epoch] = segment if known is None else joined_segment(known, segment)
    segments = list(by_epoch.values())
    if any(after.start != before.end for before, after in pairwise(segments)):
        raise QueryError(NOT_ONE_RELEASE)
    return segments


def joined_segment(one: Segment, later: Segment) -> Segment:
    """A segment joined with a later state of it."""
    if not one.measured and not later.measured and one.epoch == later.epoch:
        return later  # it contains this one
    mine, theirs = one.leaves, later.leaves
    if one.epoch != later.epoch or not mine.oldest <= theirs.oldest <= mine.closed + 1:
        raise QueryError(NOT_ONE_RELEASE)
    method = replace(one.method, history=later.end - one.start + 1)
    shared = {name: getattr(one, name) for name in ("threshold", "origin", "epoch", "below")}
    both = Segment(method, **shared)
    both.end = later.end
    early = [block for block in one.blocks if block.start < later.blocks[0].start]
    for block in (*early, *later.blocks):
        both.keep(block)
    kept = theirs.oldest - mine.oldest
    first = min((row[0] for row in later.sizes), default=later.end)
    columns = zip(mine.columns(), theirs.columns(), strict=True)
    both.sizes = (*(row for row in one.sizes if row[0] < first), *later.sizes)
    both.leaves.restore(theirs.closed, [np.concatenate((old[:kept], new)) for old, new in columns])
    return both
