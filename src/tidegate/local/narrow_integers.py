"""Integers as bytes, each as narrow as the largest of them allows."""

from __future__ import annotations

import numpy as np

from tidegate.lattice import IntArray

_WIDTHS = (1, 2, 4)


def narrowed_integers(numbers: IntArray) -> bytes:
    r"""Numbers from 0 to 2**32 − 1 in little-endian bytes; nothing at all if every one is 0.

    >>> (
    ...     narrowed_integers(np.array([0, 0])),
    ...     narrowed_integers(np.array([1, 255])),
    ...     narrowed_integers(np.array([0, 256])),
    ... )
    (b'', b'\x01\xff', b'\x00\x00\x00\x01')
    """
    largest = int(numbers.max(initial=0))
    if not largest:
        return b""
    width = min(width for width in _WIDTHS if largest < 1 << 8 * width)
    return numbers.astype(f"<u{width}").tobytes()


def widened_integers(data: bytes, count: int) -> IntArray:
    r"""The inverse of `narrowed_integers`, for `count` numbers.

    Raises:
        ValueError: if it did not.

    >>> widened_integers(b"", 2), widened_integers(b"\x01\xff", 2)
    (array([0, 0]), array([  1, 255]))
    """
    if not data:
        return np.zeros(count, dtype=np.int64)
    width = len(data) // count if count > 0 else 0
    if width not in _WIDTHS or len(data) != width * count:
        raise ValueError("not the bytes of this many numbers")
    return np.frombuffer(data, dtype=f"<u{width}").astype(np.int64)
