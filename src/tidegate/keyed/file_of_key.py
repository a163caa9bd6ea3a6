"""`FileOfKey`: one key of a released file, with the interface of a file without keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate.keyed.key_index_file import read_blocks_to_index
from tidegate.record.rows_and_levels import Rows
from tidegate.released.released_file import ReleasedFile

if TYPE_CHECKING:
    from tidegate.keyed.keyed_file import KeyedFile


@dataclass(frozen=True, repr=False)
class FileOfKey(ReleasedFile):
    """The rows of one key. Made by `KeyedFile.of_key`.

    Attributes:
        key: its name.
        names: of all keys of the file.
    """

    key: str = ""
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, file: KeyedFile, key: str, phases: list[Any], format: str | None) -> FileOfKey:  # noqa: A002  # as in open_source
        """The view of one key; its metadata has the thresholds of the key."""
        metadata = {**file.metadata, "phases": [asdict(phase) for phase in phases]}
        record = file.record(key)
        parts = (file.path, metadata, file.pipeline, record, format)
        return cls(*parts, key=key, names=tuple(file.keys))

    @property
    def title(self) -> str:
        """The name of the file and the key."""
        return f"{self.path.name}, key {self.key}"

    def __len__(self) -> int:
        return self.record.end - self.record.start

    def blocks(self) -> Iterator[Rows]:
        """The rows of the key, one block of the file at a time."""
        mine = self.names.index(self.key)
        clock = None if self.times is None else self.times.clock
        names = list(self.names)
        for codes, positions, values, levels, *times in read_blocks_to_index(
            self.path, self.format, names, clock, leveled=True
        ):
            rows = np.flatnonzero(codes == mine)
            if rows.size:
                ticks = times[0][rows] if times else None
                yield Rows(int(positions[rows[0]]), values[rows], levels[rows], ticks)
