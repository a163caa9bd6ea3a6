"""Join a segment with a later state of it: a record that goes on where another one ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from tidegate.errors import QueryError
from tidegate.record.segment import WARMING, Segment

NOT_ONE_RELEASE = "these are not two records of one release that overlap or follow each other"


def all_segments(before: Sequence[Segment], later: Sequence[Segment]) -> list[Segment]:
    """The segments of a record, and those of a later one of the same release."""
    # An open warm-up is known better by now, or part of the later record.
    by_epoch = {one.epoch: one for one in before if one.epoch != WARMING}
    for segment in later:
        known = by_epoch.get(segment.epoch)
        by_epoch[segment.epoch] = segment if known is None else joined(known, segment)
    segments = list(by_epoch.values())
    if any(after.start != before.end for before, after in pairwise(segments)):
        raise QueryError(NOT_ONE_RELEASE)
    return segments


def joined(one: Segment, later: Segment) -> Segment:
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
    columns = zip(mine.columns(), theirs.columns(), strict=True)
    both.leaves.restore(theirs.closed, [np.concatenate((old[:kept], new)) for old, new in columns])
    return both
