"""Every change of a byte and every move of a line is found, with the entry it happened in.

What is *not* found without an anchor is shown as well: a ledger whose end was cut off.
"""

import hashlib
import hmac
import json
import os
from itertools import permutations
from pathlib import Path

import pytest

from tests.depth import depth
from tidegate.errors import SettingError
from tidegate.ledger import Ledger, LedgerError

Anchor = tuple[int, str]


def refused(path: Path, data: bytes, key: bytes | None) -> LedgerError:
    with path.open("r+b") as file:  # in place: emptying it first makes some file systems sync
        file.write(data)
        file.truncate()
    with pytest.raises(LedgerError) as error:
        Ledger.open(path, key=key, read_only=True).close()
    return error.value


def test_every_flipped_byte_is_found(path: Path, filled: Anchor, key: bytes | None) -> None:
    whole = path.read_bytes()
    entry = 1
    for place, byte in enumerate(whole):
        # A digit changes, a letter's case, and a line is cut or made longer.
        others = (byte ^ 1, byte ^ 32, ord("\n"))
        for other in {*depth(others[place % 3 :][:1], others)} - {byte}:
            error = refused(path, whole[:place] + bytes([other]) + whole[place + 1 :], key)
            assert error.entry == entry
            assert f"entry {entry}: " in str(error)
        entry += byte == ord("\n")


def test_the_last_newline_counts_too(path: Path, filled: Anchor, key: bytes | None) -> None:
    whole = path.read_bytes()
    for other in set(range(256)) - {ord("\n")}:  # else the last charge would look unfinished
        assert refused(path, whole[:-1] + bytes([other]), key).entry == filled[0]


def test_every_removed_byte_is_found(path: Path, filled: Anchor, key: bytes | None) -> None:
    whole = path.read_bytes()
    for place in range(len(whole) - 1):  # without its last byte it is whole but for the newline
        refused(path, whole[:place] + whole[place + 1 :], key)


def test_lines_that_were_moved_are_found(path: Path, filled: Anchor, key: bytes | None) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    ordered = tuple(range(len(lines)))
    for order in permutations(ordered, len(lines)):
        if order[:4] == ordered[:4] and order != ordered:
            error = refused(path, b"".join(lines[number] for number in order), key)
            assert error.problem.startswith("it does not follow the entry before it")
    for number in ordered:
        if number:
            error = refused(path, b"".join([*lines[: number + 1], *lines[number:]]), key)
            assert error.entry == number + 2  # the second of two
        if number + 1 < len(lines):
            removed = [*lines[:number], *lines[number + 1 :]]
            assert refused(path, b"".join(removed), key).entry == number + 1


def test_two_ledgers_cannot_be_mixed(path: Path, filled: Anchor, key: bytes | None) -> None:
    other = path.with_name("other")
    with Ledger.open(other, key=key, cap=1):
        pass
    first, *rest = path.read_bytes().splitlines(keepends=True)
    foreign_first, foreign_cap = other.read_bytes().splitlines(keepends=True)
    assert refused(path, b"".join([foreign_first, *rest]), key).entry == 2
    assert refused(path, b"".join([first, foreign_cap, *rest[1:]]), key).entry == 2


def test_a_cut_off_end_is_found_only_with_the_anchor(
    path: Path, filled: Anchor, key: bytes | None
) -> None:
    count, _ = filled
    lines = path.read_bytes().splitlines(keepends=True)
    for kept in range(1, count):
        path.write_bytes(b"".join(lines[:kept]))
        with Ledger.open(path, key=key, read_only=True) as ledger:
            assert ledger.count == kept  # a valid ledger, keyed or not
        with pytest.raises(LedgerError, match=f"{kept} entries, but {count} were anchored"):
            Ledger.open(path, key=key, expected=filled)
    before = path.read_bytes()
    with Ledger.open(path, key=key) as ledger:
        ledger.set_cap(2)  # another history of the same length
        assert ledger.count == count
    with pytest.raises(LedgerError, match="not the entry that was anchored") as error:
        Ledger.open(path, key=key, expected=filled)
    assert error.value.entry == count
    path.write_bytes(before)
    with pytest.raises(LedgerError, match="were anchored"):
        Ledger.open(path, key=key, expected=filled)
    assert path.read_bytes() == before  # looked at before anything is written
    path.unlink()
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger.open(path, key=key, expected=filled)
    assert not path.exists()


def test_a_torn_end_is_not_repaired_before_the_anchor_was_asked(
    path: Path, filled: Anchor, key: bytes | None
) -> None:
    torn = path.read_bytes()[:-20]
    path.write_bytes(torn)
    with pytest.raises(LedgerError, match="were anchored"):
        Ledger.open(path, key=key, expected=filled)
    assert path.read_bytes() == torn


def test_an_anchor_holds_while_the_ledger_grows(
    path: Path, filled: Anchor, key: bytes | None
) -> None:
    with Ledger.open(path, key=key, expected=filled) as ledger:
        ledger.set_cap(2)
    with Ledger.open(path, key=key, expected=filled) as ledger:
        assert ledger.count == filled[0] + 1
    with pytest.raises(SettingError, match="expected: must be at least 1"):
        Ledger.open(path, key=key, expected=(0, ""))


def rechained(lines: list[bytes]) -> bytes:
    """What a forger writes who knows the format, and no key."""
    previous, forged = "0" * 64, b""
    for line in lines:
        facts = {**json.loads(line), "previous": previous}
        del facts["hash"]
        body = json.dumps(facts, separators=(",", ":")).encode()[:-1]
        previous = hashlib.sha256(body).hexdigest()
        forged += body + b',"hash":"%s"}\n' % previous.encode()
    return forged


def test_a_forger_needs_the_key(path: Path, filled: Anchor, key: bytes | None) -> None:
    changed = path.read_bytes().replace(b'"epsilon":"1/10"', b'"epsilon":"1/99"')
    forged = rechained(changed.splitlines())
    if key is not None:
        assert refused(path, forged, key).entry == 1
        unkeyed = rechained(changed.replace(b'"keyed":true', b'"keyed":false').splitlines())
        assert "not keyed, but a key was given" in str(refused(path, unkeyed, key))
        return
    path.write_bytes(forged)
    with Ledger.open(path) as ledger:  # a plain chain does not stop a forger, only an anchor does
        assert ledger.count == filled[0]
    with pytest.raises(LedgerError, match="not the entry that was anchored"):
        Ledger.open(path, expected=filled)


NONSENSE = {
    b'"kind":"charge"': [b'"kind":"refund"'],
    b'"start":64': [b'"start":-64', b'"start":"64"'],
    b'"end":64': [b'"end":0'],
    b'"end":128': [b'"end":1'],
    b'"charge":4': [b'"charge":1', b'"charge":3', b'"charge":99'],
    b'"epsilon":"1/10"': [b'"epsilon":"-1/10"', b'"epsilon":"1/0"'],
    b'"delta":"0"': [b'"delta":"1"'],
    b'"epoch":"5f",': [b""],
}


@pytest.mark.parametrize(("old", "new"), [(old, new) for old in NONSENSE for new in NONSENSE[old]])
@pytest.mark.parametrize("key", [None], indirect=True)
def test_nonsense_with_right_hashes_is_refused(
    path: Path, filled: Anchor, key: None, old: bytes, new: bytes
) -> None:
    whole = path.read_bytes()
    assert old in whole
    error = refused(path, rechained(whole.replace(old, new).splitlines()), key)
    assert "says nothing that this Tidegate understands" in str(error)
    assert error.entry is not None


@pytest.mark.parametrize("key", [None], indirect=True)
def test_numbers_with_right_hashes_must_count_up(path: Path, filled: Anchor, key: None) -> None:
    forged = path.read_bytes().replace(b'"sequence":4', b'"sequence":5')
    error = refused(path, rechained(forged.splitlines()), key)
    assert error.entry == 4
    assert "does not follow" in str(error)


def test_the_chain_can_be_checked_without_tidegate(
    path: Path, filled: Anchor, key: bytes | None
) -> None:
    previous = "0" * 64
    subkey = key and hmac.digest(key, b"tidegate ledger: chain", "sha256")
    for line in path.read_bytes().splitlines():
        body, _, digest = line.partition(b',"hash":"')
        assert json.loads(line)["previous"] == previous
        previous = (
            hmac.digest(subkey, body, "sha256").hex()
            if subkey
            else hashlib.sha256(body).hexdigest()
        )
        assert digest == previous.encode() + b'"}'
    assert previous == filled[1]


@pytest.mark.parametrize("key", [bytes(range(32))], ids=["keyed"], indirect=True)
def test_keys_are_asked_for_and_checked(path: Path, filled: Anchor, key: bytes) -> None:
    with pytest.raises(LedgerError, match="its chain is keyed: give the key it was made with"):
        Ledger.open(path)
    with pytest.raises(LedgerError, match="or the key is another one"):
        Ledger.open(path, key=os.urandom(32))
    for wrong in (b"short", "x" * 32):
        with pytest.raises(SettingError, match="key: must be 32 bytes"):
            Ledger.open(path, key=wrong)
    assert key.hex() not in path.read_text()


def test_other_versions_are_named(path: Path, filled: Anchor, key: bytes | None) -> None:
    newer = path.read_bytes().replace(b'"version":1', b'"version":2')
    assert "format version 2; this Tidegate reads 1" in str(refused(path, newer, key))
