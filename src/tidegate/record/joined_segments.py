"""Join a segment with a later state of it: a record that goes on where another one ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tidegate.errors import QueryError
from tidegate.record.segment import Segment

NOT_ONE_RELEASE = "these are not two records of one release that overlap or follow each other"


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
