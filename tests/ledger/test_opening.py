"""Files, permissions, locks: who may open a ledger, and what is said to the others."""

import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fresh_process import printed_by
from tidegate.guarantee import Guarantee
from tidegate.ledger import Ledger, LedgerError

OTHER_PROCESS = """
import sys
from tidegate.ledger import Ledger, LedgerError
with Ledger.open(sys.argv[1], read_only=True) as ledger:
    print(ledger.count)
try:
    Ledger.open(sys.argv[1])
except LedgerError as error:
    print(error)
"""


def test_a_new_ledger_is_for_its_owner_only(path: Path) -> None:
    before = os.umask(0)
    try:
        Ledger.open(path).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_permissions_that_the_operator_chose_stay(path: Path) -> None:
    Ledger.open(path).close()
    path.chmod(0o640)
    Ledger.open(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_second_writer_is_refused(path: Path, ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="in use by another release or command"):
        Ledger.open(path)
    shown = printed_by(OTHER_PROCESS, path).splitlines()
    assert shown[0] == "1"  # looking is allowed
    assert "wait for it or stop it" in shown[1]
    assert "read_only=True" in shown[1]
    ledger.close()
    Ledger.open(path).close()


def test_a_failed_opening_leaves_no_lock(path: Path) -> None:
    Ledger.open(path, cap=1).close()
    for _ in range(2):
        with pytest.raises(ValueError, match="set_cap"):
            Ledger.open(path, cap=2)
    Ledger.open(path).close()


def test_a_forked_child_may_not_write(path: Path, tenth: Guarantee) -> None:
    script = """
import os, sys
from fractions import Fraction
from tidegate.guarantee import Guarantee
from tidegate.ledger import Ledger, LedgerError
charge = dict(source="a", epoch="5f", stage="s", start=0, guarantee=Guarantee(epsilon=Fraction(1)))
ledger = Ledger.open(sys.argv[1])
if os.fork() == 0:
    try:
        ledger.charge(**charge)
    except LedgerError as error:
        os._exit("opened by the parent process" in str(error))
    os._exit(2)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 1
ledger.charge(**charge)  # the parent goes on, lock and all
try:
    Ledger.open(sys.argv[1])
except LedgerError:
    ledger.close()
"""
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)
    with Ledger.open(path) as ledger:
        assert len(ledger.charges()) == 1


def test_looking_changes_nothing(path: Path, tenth: Guarantee) -> None:
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger.open(path, read_only=True)
    assert not path.exists()
    Ledger.open(path).close()
    before = path.read_bytes()
    with Ledger.open(path, read_only=True) as ledger:
        with pytest.raises(LedgerError, match="open for reading only: nothing can be charged"):
            ledger.charge(source="a", epoch="5f", stage="s", start=0, guarantee=tenth)
        assert ledger.charges() == []
    path.chmod(0o400)
    Ledger.open(path, read_only=True).close()
    assert path.read_bytes() == before


def test_what_is_no_ledger_is_left_alone(path: Path, tmp_path: Path) -> None:
    for content in (
        b"hello",
        b"hello\n",
        b"{}\n",
        b'{"sequence":1,\n',
        b"\x89PNG",
        b"[" * 9,
        b"\n",
    ):
        path.write_bytes(content)
        with pytest.raises(LedgerError, match=r"entry 1: (this is not a Tidegate ledger|it was)"):
            Ledger.open(path)
        assert path.read_bytes() == content
    for place, problem in (
        (tmp_path, "cannot be opened: Is a directory"),
        (tmp_path / "none" / "x", "there is no such folder"),
        (Path("/dev/null"), "not a regular file"),
    ):
        with pytest.raises(LedgerError, match=problem):
            Ledger.open(place)
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger.open(tmp_path / "new", create=False)


def test_an_empty_file_is_a_new_ledger_only_if_one_may_be_made(path: Path) -> None:
    path.touch()
    for how in ({"create": False}, {"read_only": True}):
        with pytest.raises(LedgerError, match="it holds no entry yet"):
            Ledger.open(path, **how)
    with pytest.raises(LedgerError, match="0 entries, but 3 were anchored"):
        Ledger.open(path, expected=(3, "ab"))
    with Ledger.open(path) as ledger:
        assert ledger.count == 1


@pytest.mark.parametrize("how", ["removed", "replaced", "appended", "cut"])
def test_a_file_that_changes_underneath_is_noticed(
    path: Path, ledger: Ledger, tenth: Guarantee, how: str
) -> None:
    charge = {"source": "a", "epoch": "5f", "stage": "s", "start": 0, "guarantee": tenth}
    ledger.charge(**charge)
    whole = path.read_bytes()
    if how == "removed":
        path.unlink()
    elif how == "replaced":
        path.rename(path.with_name("moved"))
        path.write_bytes(whole)
    else:
        path.write_bytes(whole + b"x" if how == "appended" else whole[:-5])
    with pytest.raises(LedgerError, match=r"removed or replaced|something else wrote to it"):
        ledger.charge(**charge)
    assert ledger.total() == tenth


def test_errors_travel_between_processes(path: Path) -> None:
    path.write_bytes(b"no")
    with pytest.raises(LedgerError) as error:
        Ledger.open(path)
    again = pickle.loads(pickle.dumps(error.value))
    assert str(again) == str(error.value)
    assert (again.path, again.entry) == (path, 1)


def test_relative_and_linked_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Ledger.open("here").close()
    Path("link").symlink_to("here")
    with Ledger.open("link") as ledger:
        assert ledger.count == 1
        with pytest.raises(LedgerError, match="in use"):
            Ledger.open("here")


def test_another_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Charges go to the file that was opened, and nowhere else."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with Ledger.open("here") as ledger:
        before = ledger.count
        monkeypatch.chdir("elsewhere")
        ledger.set_cap(5)
    assert not list(Path().iterdir())
    with Ledger.open(tmp_path / "here", read_only=True) as ledger:
        assert ledger.count > before
