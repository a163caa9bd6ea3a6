"""One device, one memory: whatever its file is called, wherever it goes, whoever opens it."""

import json
import os
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.local.devices import asked, device
from tidegate.local.device_memory import DeviceMemoryError, Memory


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of a memory in a folder of its own."""
    (tmp_path / "home").mkdir()
    return tmp_path / "home" / "device.json"


def other_names(path: Path) -> dict[str, Path]:
    """Names that lead to the same file, or to the place where it will be."""
    folder = path.parent
    (folder / "link.json").symlink_to(path.name)
    (folder / "chain.json").symlink_to(folder / "link.json")
    (folder.parent / "folder").symlink_to(folder)
    (folder / "deep" / "er").mkdir(parents=True)
    (folder.parent / "far").symlink_to(folder / "deep" / "er")
    return {
        "symlink": folder / "link.json",
        "symlink to a symlink": folder / "chain.json",
        "symlinked folder": folder.parent / "folder" / path.name,
        "dots": folder / "deep" / ".." / path.name,
        "dots after a symlink": folder.parent / "far" / ".." / ".." / path.name,
    }


def is_in_use(path: Path) -> bool:
    try:
        Memory.open(path).close()
    except DeviceMemoryError as error:
        return "is in use" in str(error)
    return False


def test_every_name_of_a_file_is_one_memory(path: Path) -> None:
    names = other_names(path)
    with Memory.open(path) as memory:
        report = device(memory).answer(asked(), 7)
        for kind, name in names.items():
            assert is_in_use(name), kind
    for kind, name in names.items():
        with Memory.open(name) as memory:
            assert device(memory).answer(asked(), 93) == report, kind
    # Begun by another name, it is the same file too.
    path.unlink()
    for kind, name in names.items():
        with Memory.open(name):
            assert is_in_use(path), kind
        assert not path.is_symlink()
        path.unlink()
    assert not list(path.parent.glob("*.lock"))


def test_a_relative_name_means_the_folder_in_which_it_was_opened(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    with Memory.open(path.name) as memory:
        report = device(memory).answer(asked("r1"), 7, event="1")
        monkeypatch.chdir(tmp_path)
        second = device(memory).answer(asked("r2"), 7, event="2")
    assert not (tmp_path / path.name).exists()
    with Memory.open(path) as memory:
        assert device(memory).answer(asked("r1"), 93, event="1") == report
        assert device(memory).answer(asked("r2"), 93, event="2") == second


def test_a_second_hard_link_is_refused_at_opening_and_before_every_write(path: Path) -> None:
    with Memory.open(path) as memory:
        client = device(memory)
        client.answer(asked("r1"), 7, event="1")
        os.link(path, path.with_name("second.json"))
        with pytest.raises(DeviceMemoryError, match="hard link"):
            client.answer(asked("r2"), 7, event="2")
    for name in (path, path.with_name("second.json")):
        with pytest.raises(DeviceMemoryError, match="hard link"):
            Memory.open(name)
    path.with_name("second.json").unlink()
    with Memory.open(path) as memory:
        assert [pin.round for pin in memory.pins] == ["r1"]


def test_a_copy_is_refused_until_somebody_says_that_the_original_is_gone(path: Path) -> None:
    with Memory.open(path) as memory:
        report = device(memory).answer(asked(), 7)
    copy = path.with_name("copy.json")
    shutil.copy2(path, copy)
    with pytest.raises(DeviceMemoryError, match="copy"):
        Memory.open(copy)
    path.unlink()
    with Memory.open(copy, moved=True) as memory:
        assert device(memory).answer(asked(), 93) == report
    Memory.open(copy).close()  # and from then on it is at home there


@pytest.mark.skipif(sys.platform != "linux", reason="nowhere else are generations asked for")
def test_an_older_version_that_is_copied_back_over_the_file_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Disks use inode numbers again: on ext4 every second version of the file has the same one."""

    def generation(descriptor: int, request: int, data: bytes) -> bytes:
        return os.fstat(descriptor).st_ino.to_bytes(8, sys.byteorder)  # of a disk that has them

    monkeypatch.setattr("fcntl.ioctl", generation)
    versions: list[bytes] = []
    with Memory.open(path) as memory:
        for number in range(4):
            device(memory).answer(asked(f"r{number}"), 7, event=str(number))
            versions.append(path.read_bytes())
    now = path.stat().st_ino
    for version in versions[:-1]:
        before = json.loads(version)
        if before["inode"] == now:
            continue  # this disk did use it again, and the planted generation follows it
        path.write_text(json.dumps({**before, "inode": now}))  # as `cp backup device.json` does
        with pytest.raises(DeviceMemoryError, match="copy"):
            Memory.open(path)
    path.write_bytes(versions[-1])
    Memory.open(path).close()


def test_a_file_of_an_earlier_version_knows_its_inode_only(path: Path) -> None:
    with Memory.open(path) as memory:
        report = device(memory).answer(asked(), 7)
    plain = json.loads(path.read_text())
    plain.pop("generation", None)
    with path.open("r+", encoding="utf-8") as file:  # the same inode
        file.write(json.dumps(plain))
        file.truncate()
    with Memory.open(path) as memory:
        assert device(memory).answer(asked(), 93) == report


def test_a_file_that_was_renamed_is_still_itself(path: Path) -> None:
    with Memory.open(path) as memory:
        report = device(memory).answer(asked(), 7)
    path.rename(path.with_name("renamed.json"))
    with Memory.open(path.with_name("renamed.json")) as memory:
        assert device(memory).answer(asked(), 93) == report


def _deleted(path: Path) -> None:
    path.unlink()


def _renamed(path: Path) -> None:
    path.rename(path.with_name("elsewhere.json"))


def _copied_over(path: Path) -> None:
    shutil.copy2(path, path.with_name("copy.json"))
    path.with_name("copy.json").replace(path)


def _folder_renamed(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))


def _folder_replaced(path: Path) -> None:
    shutil.copytree(path.parent, path.parent.with_name("copy"))
    path.parent.rename(path.parent.with_name("moved"))
    path.parent.with_name("copy").rename(path.parent)


@pytest.mark.parametrize(
    "swap", [_deleted, _renamed, _copied_over, _folder_renamed, _folder_replaced]
)
def test_a_file_that_is_no_longer_where_it_was_opened_is_not_written(
    swap: Callable[[Path], None], path: Path
) -> None:
    with Memory.open(path) as memory:
        client = device(memory)
        first = client.answer(asked("r1"), 7, event="1")
        swap(path)
        with pytest.raises(DeviceMemoryError, match="no longer the file"):
            client.answer(asked("r2"), 7, event="2")
        assert client.answer(asked("r1"), 93, event="1") == first  # what was sent may be sent again
    assert not path.exists() or path.read_bytes().count(b'"r2"') == 0


def test_a_symlink_that_turns_to_another_file_is_not_followed(path: Path) -> None:
    link, other = path.with_name("link.json"), path.with_name("other.json")
    Memory.open(other).close()
    link.symlink_to(path)
    with Memory.open(link) as memory:
        link.unlink()
        link.symlink_to(other)
        with pytest.raises(DeviceMemoryError, match="no longer the file"):
            device(memory).answer(asked(), 7)


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_only_a_regular_file_is_a_memory(kind: str, path: Path) -> None:
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/null")
    with pytest.raises(DeviceMemoryError, match="cannot use"):
        Memory.open(path)


@pytest.mark.parametrize("name", ["", ".", "/", "a\0b", "\ud800", "none/device.json", "x" * 300])
def test_a_name_that_no_file_can_have_is_an_error(name: str) -> None:
    with pytest.raises(DeviceMemoryError, match="cannot use"):
        Memory.open(name)


def test_of_many_that_begin_a_memory_at_once_one_gets_it(path: Path) -> None:
    """Threads, whose locks on separately opened files are as good as those of processes."""
    together, opened, refused = threading.Barrier(8), [], []

    def begin() -> None:
        together.wait()
        try:
            opened.append(Memory.open(path))
        except DeviceMemoryError as error:
            refused.append("is in use" in str(error))

    for _ in range(20):
        threads = [threading.Thread(target=begin) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(opened) == 1
        opened.pop().close()
        path.unlink()
    assert all(refused)
    assert len(refused) == 140
