"""Recognise re-read input by keyed digests, without storing the input.

The input is cut into spans of 4,096 values, each with a 16-byte HMAC-SHA-256 keyed from the noise
secret: without that secret nothing can be learnt or tested about the values. The last, incomplete
span is kept as it is (raw, part of the secret state).
"""

from __future__ import annotations

import hmac
from typing import Any, ClassVar

import numpy as np

from tidegate.lattice import IntArray
from tidegate.stages import NO_SUMS
from tidegate.user_ids import canonical_users

SPAN = 4096
_BYTES = 16


class InputDigests:
    """Digests of the input (lattice units and users), span by span."""

    STATE: ClassVar[tuple[str, ...]] = ("tail", "spans", "user_tail", "time_tail")

    def __init__(self, key: bytes, top: int) -> None:
        """Digest values of at most `top` + 1 lattice steps; those below 0 wrap around."""
        self._key = key
        self._top = top
        # As few bytes as the largest value needs: hashing is what durable bulk releases wait for.
        self._item = next(size for size in (1, 2, 4, 8) if top < 1 << (8 * size))
        self._width = f"<u{self._item}"
        self.tail: IntArray = np.empty(0, dtype=np.int64)
        self.user_tail: list[str] = []
        self.time_tail: IntArray = np.empty(0, dtype=np.int64)
        self.spans = 0

    def empty(self) -> InputDigests:
        """An empty copy with the same key."""
        return InputDigests(self._key, self._top)

    def copy(self) -> InputDigests:
        """A copy of the present state."""
        copied = self.empty()
        copied.tail, copied.user_tail = self.tail.copy(), list(self.user_tail)
        copied.time_tail = self.time_tail.copy()
        copied.spans = self.spans
        return copied

    @property
    def seen(self) -> int:
        """The number of values taken."""
        return self.spans * SPAN + self.tail.size

    def push(self, units: IntArray, users: Any = None, times: IntArray | None = None) -> bytes:
        """Take values; return the digests of the spans that they complete."""
        ticks = np.concatenate((self.time_tail, NO_SUMS if times is None else times))
        values = np.concatenate((self.tail, units)) if self.tail.size else units
        names: list[str] = []
        if users is not None:  # "" is not a valid name: it stands for no user
            names = [*self.user_tail, *(name or "" for name in canonical_users(users))]
        full = values.size // SPAN
        narrow = memoryview(values[: full * SPAN].astype(self._width).tobytes())
        size = SPAN * self._item
        digests = []
        for index in range(full):
            content = narrow[index * size : (index + 1) * size]
            part = names[index * SPAN : (index + 1) * SPAN]
            when = ticks[index * SPAN : (index + 1) * SPAN].astype("<i8").tobytes()
            digests.append(self._digest(self.spans + index, content, part, when))
        self.spans += full
        self.tail = values[full * SPAN :].copy()
        self.user_tail = names[full * SPAN :]
        self.time_tail = ticks[full * SPAN :]
        return b"".join(digests)

    def _digest(self, number: int, content: memoryview, users: list[str], times: bytes) -> bytes:
        parts: list[bytes | memoryview] = [number.to_bytes(8, "little"), content, times]
        for user in users:
            encoded = user.encode("utf-8", "surrogatepass")
            parts += [len(encoded).to_bytes(4, "little"), encoded]
        return hmac.digest(self._key, b"".join(parts), "sha256")[:_BYTES]


class InputRecogniser:
    """Compares re-read input with the digests of the input taken before.

    An input that is read again from `start` on, in the middle of a span that has a digest, is
    compared from the next span on: what comes before that cannot be.

    Privacy does not depend on the comparison: values that were read before are skipped, and their
    noise is never used again. It finds a wrong input before an open block mixes two inputs.
    """

    def __init__(self, remembered: InputDigests, digests: bytes, start: int = 0) -> None:
        self._remembered = remembered.copy()  # the release continues while this is in use
        self._digests = digests
        self._again = remembered.empty()
        self._again.spans = min(-(-start // SPAN), remembered.spans)
        self._uncompared = max(0, self._again.seen - start)
        into = max(0, start - self._again.seen)  # the raw tail: as if its beginning had come again
        self._again.tail = remembered.tail[:into].copy()
        self._again.user_tail = remembered.user_tail[:into]
        self._again.time_tail = remembered.time_tail[:into].copy()

    @property
    def place(self) -> int:
        """The position of the next value."""
        return self._remembered.seen - self.left

    @property
    def left(self) -> int:
        """How many values remain to be recognised."""
        return self._uncompared + self._remembered.seen - self._again.seen

    def push(self, units: IntArray, users: Any = None, times: IntArray | None = None) -> bool:
        """Compare at most `left` values. False: they differ from those taken before."""
        if self._uncompared:
            passed = min(self._uncompared, units.size)
            self._uncompared -= passed
            units, users = units[passed:], None if users is None else users[passed:]
            times = None if times is None else times[passed:]
        done = self._again.spans * _BYTES
        fresh = self._again.push(units, users, times)
        if fresh != self._digests[done : done + len(fresh)]:
            return False
        if self._again.spans < self._remembered.spans:
            return True
        tail, users_tail = self._again.tail, self._again.user_tail
        same_users = users_tail == self._remembered.user_tail[: len(users_tail)]
        when = self._again.time_tail
        same_times = np.array_equal(when, self._remembered.time_tail[: when.size])
        same = np.array_equal(tail, self._remembered.tail[: tail.size])
        # As many times as values, or none: a resent input must not lose or gain its times.
        timed = when.size == self._remembered.time_tail[: tail.size].size
        return same and same_users and same_times and timed
