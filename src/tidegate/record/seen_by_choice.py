"""What a choice of θ could see, what was paid for it, and what a segment has in its caps."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import islice
from typing import NamedTuple

import numpy as np

from tidegate.record.segments.segment import Segment
from tidegate.stages import BlockBudgets
from tidegate.stages.late_looks import is_look

_AGAIN = Fraction(1, 2)  # share of ε for the choice of a later warm-up; a first one pays more
SURE = 2.0  # standard errors of a released sum, and of a number of large values


class SeenByChoice(NamedTuple):
    """ε′ × values of a choice of θ (0: unknown), and whether a warm-up, or the first, made it."""

    known: Fraction = Fraction(0)
    first: bool = False
    warm_up: bool = False


NO_EVIDENCE = SeenByChoice()


def seen_by_choice(before: Segment | None, segment: Segment, known: SeenByChoice) -> SeenByChoice:
    """What chose θ. `known`: of the segment before.

    A phase that a risen level began has the θ of the one before, at whose end no window was open.
    """
    stage = segment.method.budgets
    if stage is None or not segment.blocks:
        return NO_EVIDENCE
    warm_up = paid_by_choice(stage, segment)
    if warm_up < 0:
        values = segment.blocks[0].layout.length
        known_by_it = (1 + warm_up) * stage.epsilon * values
        return SeenByChoice(known_by_it, 1 + warm_up > _AGAIN, warm_up=True)
    if before is None or not before.blocks or before.start != before.origin:
        return NO_EVIDENCE
    warm_up = paid_by_choice(stage, before)
    opened = before.origin + (before.blocks[0].layout.length if warm_up < 0 else 0)
    share = 1 - paid_by_choice(stage, before, -1)
    if not share or is_look(share):
        return known
    return SeenByChoice(share * stage.epsilon * (segment.origin - opened))


def paid_by_choice(stage: BlockBudgets, segment: Segment, number: int = 0) -> Fraction:
    """The part of ε that a choice left for the sums of a block; below 0: of a warm-up."""
    block, ceiling = segment.blocks[number], segment.method.ceiling + segment.below
    return stage.part_of(block.choice, block.layout.length, segment.threshold, ceiling)


def held_share(segment: Segment, until: int) -> tuple[float, float]:
    """The released sum as a share of what it would be if all values were cut, and its doubt.

    Of the leaves that were released up to this position.
    """
    first = segment.blocks[0]
    begun = [first, *(one for one in islice(segment.blocks, 1, None) if one.start < until)]
    *blocks, last = (block.layout for block in begun)
    done = min(segment.leaves.closed - begun[-1].first, last.leaves_by(until - begun[-1].start))
    measured = begun[-1].start + last.edge(done) - segment.start
    leaves = segment.leaves
    total = leaves.between(*np.array([[leaves.oldest], [begun[-1].first + done]])).item()
    if done == last.leaves:
        blocks.append(last)
        done = 0
    variance = sum(tree.nodes[0] * tree.variances[0] for tree in blocks)
    variance += done * last.variances[-1]  # of an open tree, leaf by leaf
    full = max(measured, 1) * segment.threshold
    return total / full, SURE * math.sqrt(variance) / full
