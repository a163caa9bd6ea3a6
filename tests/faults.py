"""Durable runs that are disturbed, and the undisturbed run that they are compared with.

Durable releases refuse seeded randomness, so two runs are made comparable by their state: it is
begun once (which draws the key of the noise) and copied for every run.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

import tidegate as tg
from tidegate import _atomic_files
from tidegate.cli.exit_codes_and_signals import complain, stopping_on_signal
from tidegate.durable import DurableRelease, transfer
from tidegate.io import Batch, read_metadata
from tidegate.ledger import Ledger

PIPELINES = {
    "tops": tg.tops(
        epsilon=1, bound=1000, holdout=900, horizon=1024, fanout=4, skipped=1,
        rethreshold_every=1500, rethreshold_share="1/4",
    ),
    # Twelve blocks: it is the files that are disturbed here, not the forecaster.
    "adaptive": tg.adaptive(epsilon=1, bound=1000, holdout=900, horizon=4096),
}  # fmt: skip
VALUES = np.random.default_rng(1).integers(0, 400, 2800)
PIECE = 400
# Within the hold-out, over its end, within a phase, over a new threshold: a batch of each kind.
FEW_PIECES = 700


class Pieces:
    """A source in memory, in batches of `piece` values."""

    def __init__(self, values=VALUES, piece=PIECE):
        self._values, self._piece = values, piece

    def batches(self) -> Iterator[Batch]:
        for start in range(0, self._values.size, self._piece):
            yield Batch(self._values[start : start + self._piece].astype(float))

    def fraction(self) -> None:
        return None


class Run:
    """A folder with a state and an output, and the run that goes from the one to the other."""

    def __init__(self, folder: Path, pipeline: str, kind: str) -> None:
        self.folder = folder
        self.pipeline = PIPELINES[pipeline]
        self.output = folder / f"out.{kind}"
        self.state = folder / "state"

    def begin(self) -> None:
        """Draw the key of the noise; nothing is read yet."""
        DurableRelease.open(self.state, self.pipeline, source="meters").close()

    def copy(self, folder: Path) -> Run:
        """The same state, elsewhere."""
        other = Run.__new__(Run)
        other.__dict__.update(self.__dict__)
        shutil.copytree(self.folder, folder)
        other.folder, other.state = folder, folder / "state"
        other.output = folder / self.output.name
        return other

    def go(self, values=VALUES) -> None:
        """As `tidegate release --state` does it."""
        with (
            stopping_on_signal(None),
            DurableRelease.open(self.state, self.pipeline) as run,
        ):
            transfer(Pieces(values, FEW_PIECES), run, self.output, warn=complain)

    def left(self) -> dict[str, bytes]:
        """Everything beside the state: the output, its metadata, what should not be there."""
        return {path.name: path.read_bytes() for path in self.folder.iterdir() if path.is_file()}

    def metadata(self) -> dict | None:
        """What the output says about itself, if it is there."""
        return read_metadata(self.output) if self.output.exists() else None

    def committed(self) -> tuple[int, list[dict]]:
        """How many values the state knows to be released, and its phases."""
        with DurableRelease.existing(self.state) as run:
            return run.position, [phase.plain() for phase in run.phases]

    def check_says_nothing_uncommitted(self) -> None:
        """The output's metadata is of values and thresholds that the state knows."""
        facts = self.metadata()
        if facts is not None:
            released, phases = self.committed()
            assert facts["released"] <= released
            assert facts["phases"] == phases[: len(facts["phases"])]
            assert facts["threshold"] in [None, *(phase["threshold"] for phase in phases)]

    def charges(self) -> list[tuple]:
        """What was paid for, without times."""
        with Ledger.open(self.state / "ledger.jsonl", read_only=True) as ledger:
            return [
                (item.source, item.epoch, item.stage, item.start, item.end, item.epsilon)
                for item in ledger.charges()
            ]


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """A full disk, as far as one process can have it: no file may grow above `size` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


CALLS = ("open", "close", "write", "pwrite", "fsync", "ftruncate", "replace", "unlink", "mkdir")


def _done(name: str, real, place, *more):
    return real(place, *more)


class Disk:
    """Stands in for `os` in `tidegate._atomic_files`: notes calls, and makes one of them fail.

    Args:
        folder: only calls on files in here count, and not on those in folders below: the output and
            its metadata. None: all calls, those of ledger and state too.
        fails: which call fails, counted from 0; None: none does.
        how: an error number, raised instead of the call; "after", raised when it was done; "short",
            a write that takes half; "torn", the same and then an error (only writes count then).
    """

    def __init__(self, folder: Path | None = None, fails: int | None = None, how=errno.EIO) -> None:
        self._folder = folder
        self._fails, self._how = fails, how
        self._names: dict[int, str] = {}  # of open descriptors
        self.calls: list[str] = []
        self.met = False

    def __getattr__(self, name: str):
        real = getattr(os, name)
        return partial(self._call, name, real) if name in CALLS else real

    def _call(self, name: str, real, place, *more):
        path = Path(self._names.get(place, "?") if isinstance(place, int) else place)
        fails = False
        counts = name in ("write", "pwrite") or self._how not in ("short", "torn")
        if counts and (self._folder is None or path.parent == self._folder):
            fails = len(self.calls) == self._fails
            self.calls.append(name)
        self.met |= fails
        result = (self._failing if fails else _done)(name, real, place, *more)
        if name == "open":
            self._names[result] = os.fspath(place)
        return result

    def _failing(self, name: str, real, place, *more):
        number = self._how if isinstance(self._how, int) else errno.EIO
        if self._how in ("short", "torn"):
            half = more[0][: (len(more[0]) + 1) // 2]
            if self._how == "short":
                return real(place, half, *more[1:])
            real(place, half, *more[1:])
        elif name == "close" or self._how == "after":  # a descriptor is gone even if close fails
            result = real(place, *more)
            if name == "open":
                os.close(result)
        raise OSError(number, os.strerror(number))


@contextmanager
def failing_disk(disk: Disk) -> Iterator[Disk]:
    """Have the durable files of Tidegate on such a disk."""
    before = _atomic_files.os
    _atomic_files.os = disk
    try:
        yield disk
    finally:
        _atomic_files.os = before
