"""What the blocks of a record cost each position, from the scales of their trees."""

from fractions import Fraction

import tidegate as tg


def charge_blocks(paid: list[Fraction], record: tg.Record) -> None:
    """Add θ/scale of every level to the positions of its block."""
    for segment in record.segments:
        for block in segment.blocks:
            tree = block.layout
            price = sum((tree.cap / scale for scale in tree.scales), Fraction(0))
            for at in range(block.start, min(block.start + tree.length, segment.end)):
                paid[at] += price
