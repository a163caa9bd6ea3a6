from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from tidegate.io import open_source


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, bytes], Path]:
    """A file of these bytes, compressed as its name says."""

    def make(name: str, data: bytes) -> Path:
        path = tmp_path / name
        if name.endswith(".gz"):
            data = gzip.compress(data)
        elif name.endswith(".zst"):
            data = zstandard.compress(data)
        path.write_bytes(data)
        return path

    return make


@pytest.fixture
def read() -> Callable[..., list[Any]]:
    """All values of a source, None for a missing one."""

    def values(path: Path, **settings: Any) -> list[Any]:
        with open_source(path, **settings) as source:
            batches = [batch.values for batch in source.batches()]
        joined = np.concatenate(batches).tolist() if batches else []
        return [None if value != value else value for value in joined]

    return values
