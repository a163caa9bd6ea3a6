"""What tests of the local model share."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_IN_MEMORY = Path("/dev/shm")  # where waiting for the disk takes no time


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for tests that write hundreds of times, each time flushed to the disk."""
    if not os.access(_IN_MEMORY, os.W_OK):
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(dir=_IN_MEMORY))
    yield folder
    shutil.rmtree(folder)
