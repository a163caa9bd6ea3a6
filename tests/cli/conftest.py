"""Durable runs to disturb, and what they make undisturbed."""

import shutil
import tempfile
from pathlib import Path

import pytest

from tests.faults import Run
from tidegate.cli import file_options


@pytest.fixture
def read_once(monkeypatch):
    """Files are read as large ones are: as they are released, not once before."""
    monkeypatch.setattr(file_options, "_READ_FIRST", 0)


@pytest.fixture(scope="module")
def memory_folder():
    """In memory where there is such a place: a disk takes 10 ms for each of thousands of fsyncs."""
    place = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=place if place.is_dir() else None))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def shared_memory(memory_folder):
    """A folder of the test's own."""
    return Path(tempfile.mkdtemp(dir=memory_folder))


@pytest.fixture(scope="module")
def undisturbed(request, memory_folder):
    """A state that was begun, and what an undisturbed run makes of it."""
    pipeline, kind = request.param
    folder = Path(tempfile.mkdtemp(dir=memory_folder))
    begun = Run(folder / "begun", pipeline, kind)
    begun.folder.mkdir()
    begun.begin()
    reference = begun.copy(folder / "reference")
    reference.go()
    return begun, reference
