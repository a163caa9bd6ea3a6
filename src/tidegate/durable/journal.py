"""The journal: released sums and predictions, from which published values are made again.

A row holds what one commit added. Everything in it was released, so that emitting it again costs
nothing; raw values and noise play no part. Rows are chained by a keyed digest: a row that was
changed, dropped or put elsewhere is noticed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np

from tidegate.durable.folder import StateError
from tidegate.errors import SnapshotError
from tidegate.lattice import FloatArray
from tidegate.pieces import Piece, Trace
from tidegate.pipeline import Pipeline
from tidegate.publish import Publisher, Remainder
from tidegate.sealing import seal, understood, unseal
from tidegate.stages import Noisy

HEAD_BYTES = 32


def encoded(piece: Piece, head: bytes, key: bytes) -> tuple[bytes, bytes]:
    """A piece as the bytes of a row, and the new head of the chain."""
    content = {**vars(piece), **vars(piece.trace)}
    del content["trace"]
    body = seal({"content": "journal"}, content, None)
    return body, chained(head, body, key)


def chained(head: bytes, body: bytes, key: bytes) -> bytes:
    """The head of the chain after a row."""
    return hashlib.blake2b(head + body, key=key, digest_size=HEAD_BYTES).digest()


def verified(
    bodies: Iterable[bytes], key: bytes, expected: bytes, head: bytes = bytes(HEAD_BYTES)
) -> None:
    """Refuse rows, from `head` on, whose chain does not end in the head that is expected."""
    for body in bodies:
        head = chained(head, body, key)
    if head != expected:
        raise StateError(f"the journal {_TAMPERED}")


def pieces(bodies: Iterable[bytes]) -> Iterator[Piece]:
    """What the rows of a verified journal hold."""
    for body in bodies:
        try:
            _, content = unseal(body, None)
            with understood():
                known = {item.name for item in fields(Trace)}
                trace = Trace(**{name: content.pop(name) for name in known & content.keys()})
                piece = Piece(**content, trace=trace)
        except SnapshotError:
            raise StateError(f"the journal {_TAMPERED}") from None
        yield piece


def merged(released: list[Piece], block: int) -> list[Piece]:
    """Neighbouring pieces of one phase as one; blocks of one have no predictions."""
    result: list[Piece] = []
    for piece in released:
        if block == 1:
            piece.trace.following = np.empty(0)
        last = result[-1] if result else None
        if last and (last.phase_start, last.blocked) == (piece.phase_start, piece.blocked):
            last.end, last.trace = piece.end, last.trace.joined(piece.trace)
        else:
            result.append(piece)
    return result


class _Given:
    """A smoother that says again what was predicted then."""

    STATE: ClassVar[tuple[str, ...]] = ()

    def __init__(self, first: float) -> None:
        self.first = first
        self.following: FloatArray = np.empty(0)

    def push(self, noisy: Noisy) -> FloatArray:
        """The predictions of the row."""
        return self.following


def published(pipeline: Pipeline, journal: Iterable[Piece]) -> Iterator[tuple[int, FloatArray]]:
    """The values as they were published, with the position of the first of each piece."""
    block, step = pipeline.perturber.block, pipeline.lattice.step
    remainder = Remainder() if pipeline.non_negative else None
    phase: Any = None
    smoother, publisher = _Given(0.0), Publisher(_Given(0.0), block, step)
    for row in journal:
        if row.phase_start != phase:
            phase, smoother = row.phase_start, _Given(row.first)
            publisher = Publisher(smoother, block, step)
        out = np.zeros(row.end - row.start)
        if row.blocked is not None:
            out[:] = row.blocked * step
        elif pipeline.guided:
            out[:] = row.trace.published()
        else:
            smoother.following = row.trace.following
            publisher.push(Noisy(row.trace.sums), out)
        if remainder is not None:
            remainder.settle(out)
        yield row.start, out


_TAMPERED = "is damaged or was tampered with: restore it, or begin again with --new-epoch"
