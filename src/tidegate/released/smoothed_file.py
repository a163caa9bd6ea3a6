"""The smoothed sums beside a released file (`.<name>.tidegate-smoothed`).

The record of an adaptive release is smoothed before its first answer: 0.1 s for 10⁸ values in
blocks of 65,536. What that gives follows from the record and the settings in the metadata, so it
can be kept. Everything in it comes from the released file: it may be deleted.

    mark · SHA-256 of what follows · digest of record and settings, version, segments

It is used only if the digest is that of the file's own record and the version is this one, so it
cannot answer for another file, however that came to its name. It is written after an answer; where
that is impossible (a read-only folder, a full disk), the next process smooths again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidegate import _atomic_files
from tidegate._version import __version__
from tidegate.errors import SnapshotError
from tidegate.record.record import Record
from tidegate.state_as_bytes import MALFORMED, decoded, encoded

# Increase this after a change of what the smoother computes: earlier files are then not used.
_MARK = b"TIDEGATE SMOOTHED 1\n"
_DIGEST = hashlib.sha256().digest_size
_LEAST_CELLS = 512  # fewer are smoothed in some milliseconds


class SmoothedFile:
    """The result of smoothing a record, stored beside its file.

    Args:
        released: the file whose record it is, not a link to it.
        metadata: of that file, with record and settings.
        mode: who may read the file may read this one.
    """

    def __init__(self, released: Path, metadata: Mapping[str, Any], mode: int) -> None:
        self._path = released.with_name(f".{released.name}.tidegate-smoothed")
        text = json.dumps([metadata["settings"], metadata["record"]], sort_keys=True)
        self._of = [hashlib.sha256(text.encode()).hexdigest(), __version__]
        self._mode = mode & 0o666
        self._kept: list[int] = []  # segments that the file has

    @classmethod
    def beside(
        cls, released: Path, metadata: Mapping[str, Any], mode: int, record: Record
    ) -> SmoothedFile | None:
        """Load the stored result into the record. None: smoothing it is fast anyway."""
        if sum(segment.cells for segment in record.segments) < _LEAST_CELLS:
            return None
        found = cls(released, metadata, mode)
        found._give(record)
        return found

    def _give(self, record: Record) -> None:
        with contextlib.suppress(OSError, SnapshotError, *MALFORMED):
            data = self._path.read_bytes()
            body = data[len(_MARK) + _DIGEST :]
            if data[: -len(body)] != _MARK + hashlib.sha256(body).digest():
                return
            state = decoded(body)
            if state["of"] != self._of or len(state["segments"]) != len(record.segments):
                return
            for at, (segment, smoothed) in enumerate(
                zip(record.segments, state["segments"], strict=True)
            ):
                if smoothed is not None:
                    segment.posterior().take_smoothed(smoothed)
                    self._kept.append(at)

    def keep(self, record: Record) -> None:
        """Store what answers have computed, if that is more than what is stored."""
        asked = enumerate(segment.answered for segment in record.segments)
        new = {
            at: smoothed
            for at, last in asked
            if last is not None
            and at not in self._kept
            and (smoothed := last[0].smoothed()) is not None
        }
        if not new:
            return
        parts = [
            record.segments[at].posterior().smoothed() if at in self._kept else new.get(at)
            for at in range(len(record.segments))
        ]
        self._kept += new  # tried once, whatever becomes of it
        body = encoded({"of": self._of, "segments": parts})
        with contextlib.suppress(OSError):
            self._write(_MARK + hashlib.sha256(body).digest() + body)

    def _write(self, data: bytes) -> None:
        """Write in one step for readers. Not synced: an answer does not wait for a busy disk, and
        what a power cut leaves of the file is not used."""
        folder, prefix = self._path.parent, f"{self._path.name}-"
        descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=prefix)
        try:
            try:
                _atomic_files.write_all(descriptor, data)
                os.fchmod(descriptor, self._mode)
            finally:
                _atomic_files.close(descriptor)
            _atomic_files.rename(Path(temporary), self._path)
        finally:
            _atomic_files.remove(Path(temporary))
