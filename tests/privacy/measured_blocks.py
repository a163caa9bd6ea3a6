"""What the blocks of a record cost each position, from the scales of their trees; their leaves."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

import tidegate as tg
from tidegate.record.segments.segment import Segment


def charge_blocks(paid: list[Fraction], record: tg.Record) -> None:
    """Add θ/scale of every level to the positions of its block."""
    for segment in record.segments:
        for block in segment.blocks:
            tree = block.layout
            price = sum((tree.cap / scale for scale in tree.scales), Fraction(0))
            for at in range(block.start, min(block.start + tree.length, segment.end)):
                paid[at] += price


def leaves_of(segment: Segment) -> Iterator[tuple[tuple[int, int], int]]:
    """Each leaf of a segment: the rows that it begins and ends at, and what was released."""
    sums = iter(segment.released.tolist())
    for block in segment.blocks:
        edges = [block.start + block.layout.edge(at) for at in range(block.layout.leaves + 1)]
        yield from zip(pairwise(edges), sums, strict=False)
