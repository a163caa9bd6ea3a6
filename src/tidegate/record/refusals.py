"""Error messages for ranges that cannot be answered."""

from __future__ import annotations


def out_of_range(start: int, end: int, oldest: int, newest: int) -> str:
    """What is wrong with [start, end), where [oldest, newest) is known."""
    if start > end:
        return f"range [{start}, {end}) ends before it starts"
    if end > newest:
        return f"range [{start}, {end}) reaches beyond the {newest} values released so far"
    if start < 0:
        return f"range [{start}, {end}) starts before the first released value"
    return (
        f"range [{start}, {end}) is older than the record, which begins at {oldest}: ask a "
        "stored record, or keep more with `history` (a fork's record begins where it branched)"
    )
