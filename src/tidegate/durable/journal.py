"""The journal: released sums and predictions, from which published values are made again.

A row holds what one commit added. Everything in it was released, so that emitting it again costs
nothing; raw values and noise play no part. Rows are chained by a keyed digest: a row that was
changed, dropped or put elsewhere is noticed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import fields

import numpy as np

from tidegate.durable.folder import StateError
from tidegate.errors import SnapshotError
from tidegate.estimate.spread import spread, spread_widths
from tidegate.lattice import FloatArray
from tidegate.record.entry import Piece, Trace
from tidegate.run.non_negative import Remainder
from tidegate.run.pipeline import Pipeline
from tidegate.sealing import seal, understood, unseal

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


def merged(released: list[Piece]) -> list[Piece]:
    """Neighbouring pieces of one phase as one."""
    result: list[Piece] = []
    for piece in released:
        last = result[-1] if result else None
        # A piece without values ends a warm-up whose rows were out: it stays what it is.
        same = last and (last.phase_start, last.measured) == (piece.phase_start, piece.measured)
        if last and same and last.end > last.start and piece.end > piece.start:
            last.end, last.trace = piece.end, last.trace.joined(piece.trace)
        else:
            result.append(piece)
    return result


def published(pipeline: Pipeline, journal: Iterable[Piece]) -> Iterator[tuple[int, FloatArray]]:
    """The values as they were published, with the position of the first of each piece."""
    block, step = pipeline.perturber.block, pipeline.lattice.step
    remainder = Remainder() if pipeline.non_negative else None
    phase: int | None = None
    prediction, filled = 0.0, 0  # of the open cell
    for row in journal:
        if row.phase_start != phase:
            phase, prediction, filled = row.phase_start, row.first, 0
        out = np.zeros(row.end - row.start)
        cells = row.trace
        if not out.size:
            prediction, filled = cells.predictions.item(-1), 0
        elif not row.measured:
            out[:] = row.first
        elif cells.widths.size:
            prediction, filled = spread_widths(
                out, prediction, filled, cells.widths, cells.totals, cells.predictions
            )
        else:
            prediction, filled = spread(
                out, prediction, filled, block, cells.sums, cells.predictions
            )
        out *= step
        if remainder is not None:
            remainder.settle(out)
        yield row.start, out


_TAMPERED = "is damaged or was tampered with: restore it, or begin again with --new-epoch"
