"""`tidegate._atomic_files`: the one place where files are made durable."""

import errno
import os
import re
from pathlib import Path

import pytest

import tidegate
from tidegate import _atomic_files

CALLS = re.compile(
    r"\bos\.(write|fsync|fdatasync|replace|rename|truncate|ftruncate|unlink|remove)\(|flock\("
    r"|\.(replace|rename|unlink)\([^,\"']*\)$|O_CREAT \| os\.O_EXCL"
)
# `released/sums_index_file.py` removes its temporary file, whose name nobody else knows. The memory
# of a device works relative to an open folder; `tests/local/test_memory_faults.py` makes its calls
# fail.
KNOWN = {"_atomic_files.py", "released/sums_index_file.py", "local/device_memory_file.py"}


def test_no_other_module_makes_these_calls():
    """A second copy of "write, sync, rename, sync the folder" is one that no fault test meets."""
    package = Path(tidegate.__file__).parent
    found = [
        f"{path.relative_to(package)}: {line.strip()}"
        for path in sorted(package.rglob("*.py"))
        if str(path.relative_to(package)) not in KNOWN
        for line in path.read_text().splitlines()
        if CALLS.search(line)
    ]
    assert found == []


def test_a_write_that_takes_nothing_is_an_error(tmp_path, monkeypatch):
    descriptor = _atomic_files.create(tmp_path / "file")
    monkeypatch.setattr(os, "write", lambda descriptor, data: 0)
    with pytest.raises(OSError, match="Input/output error"):
        _atomic_files.write_all(descriptor, b"abc")
    monkeypatch.undo()
    _atomic_files.close(descriptor)


@pytest.mark.parametrize("call", ["open", "write", "fsync", "replace"])
def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch, call):
    path = tmp_path / "file"
    _atomic_files.replace_file(path, b"old")

    def failing(*given):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, call, failing)
    with pytest.raises(OSError, match="full"):
        _atomic_files.replace_file(path, b"new")
    monkeypatch.undo()
    assert [item.name for item in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"old"
    assert path.stat().st_mode & 0o777 == 0o600


def test_folders_are_synced_each_in_the_one_that_holds_it(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(_atomic_files, "sync_folder", synced.append)
    _atomic_files.make_folder(tmp_path / "a" / "b", 0o700)
    assert synced == [tmp_path, tmp_path / "a"]
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_a_lock_is_held_until_it_is_closed(tmp_path):
    first = _atomic_files.open_lock(tmp_path / "lock")
    assert first is not None
    assert _atomic_files.open_lock(tmp_path / "lock") is None
    _atomic_files.close(first)
    again = _atomic_files.open_lock(tmp_path / "lock")
    assert again is not None
    _atomic_files.close(again)
