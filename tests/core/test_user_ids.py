"""One user is one user, however the id is written; or the id is refused and not shown."""

from __future__ import annotations

import enum
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tidegate as tg
from tests.texts import texts
from tidegate.durable.input_digests import InputDigests
from tidegate.errors import InputError
from tidegate.user_ids import canonical_users

SAME = [17, 17.0, b"17", "17", "17 ", "\t17\n", np.int8(17), np.float32(17), np.str_("17"), b" 17"]
NOBODY = [None, float("nan"), np.float64("nan"), "", "  ", b"", np.nan]


class Kind(enum.IntEnum):
    SEVENTEEN = 17


@pytest.mark.parametrize("user", [*SAME, np.bytes_(b"17"), np.uint64(17), Kind.SEVENTEEN], ids=repr)
def test_seventeen_is_one_user(user: Any) -> None:
    assert canonical_users([user]) == ["17"]


def test_one_user_has_one_cap_however_it_is_written() -> None:
    unit = tg.units.UserHorizon(most=2)
    pipeline = tg.tops(epsilon=1, bound=9, holdout=10, horizon=64, unit=unit)
    release = pipeline.start(tg.seeded(1))
    release.push([5] * 10, SAME)
    for user in SAME:
        release.push(5, user)
    assert release.user_cap.counts == {"17": 2}


@pytest.mark.parametrize("user", NOBODY, ids=repr)
def test_a_missing_user_is_nobody(user: Any) -> None:
    assert canonical_users([user, "a"]) == [None, "a"]


def test_missing_users_of_other_libraries_are_nobody() -> None:
    assert canonical_users(pa.array(["a", None, ""])) == ["a", None, None]
    masked = np.ma.array([1, 2], mask=[False, True])
    assert canonical_users(masked) == ["1", None]
    kind = type("NAType", (), {"__eq__": lambda *_: NotImplemented, "__hash__": None})  # as pandas
    assert canonical_users([kind(), "a"]) == [None, "a"]


REFUSED = {
    "bool": True,
    "numpy bool": np.True_,
    "fraction": 17.5,
    "infinite": float("inf"),
    "rounded": float(1 << 53),
    "numpy rounded": np.float64(1e300),
    "long double": np.longdouble(17) + np.finfo(np.longdouble).eps * 64,
    "bytes of another encoding": "café".encode("latin-1"),
    "control character": "se\x00cret",
    "line inside": "se\ncret",
    "zero width": "se\u200bcret",
    "byte order mark": "\ufeffsecret",
    "direction": "\u202esecret",
    "lone surrogate": "secret\udcff",
    "too long": "secret" * 200,
    "too many digits": 10**5000,
    "decimal": Decimal(17),
    "uuid": uuid.UUID(int=17),
    "list": ["secret"],
    "tuple": ("secret", 1),
    "complex": 17 + 0j,
    "duration": np.timedelta64(17, "s"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_could_be_two_spellings_of_one_user_is_refused(name: str) -> None:
    for users in (["a", REFUSED[name]], ["a", 5, REFUSED[name]]):
        with pytest.raises(InputError, match=f"user at position {len(users) + 2} ") as error:
            canonical_users(users, position=3)
        assert "secret" not in str(error.value)
        assert "17" not in str(error.value)
        assert error.value.__cause__ is None
        assert error.value.__suppress_context__ or error.value.__context__ is None


@pytest.mark.parametrize("users", ["ab", b"ab", {"a": 1, "b": 2}, {"a", "b"}, 17, None])
def test_users_are_a_list_and_not_one_text(users: Any) -> None:
    """`push([1, 2], "ab")` is one user for two values, not the users a and b."""
    unit = tg.units.UserHorizon(most=2)
    release = tg.tops(epsilon=1, bound=9, unit=unit).start(tg.seeded(1))
    with pytest.raises(InputError):
        release.push([1, 2], users)
    assert release.seen == 0
    release.push([1, 2], ["a", "b"])  # what was refused left it usable


def test_unicode_forms_are_one_user() -> None:
    assert canonical_users(["e\u0301", "\u00e9", " \u00e9"]) == ["\u00e9"] * 3
    assert canonical_users(["Alice", "alice", "017", "17"]) == ["Alice", "alice", "017", "17"]


@given(
    st.lists(
        st.one_of(texts(), st.integers(), st.none(), st.floats(), st.binary(max_size=5)),
        max_size=12,
    )
)
@example([1, 1.0, True])
@example([float(1 << 53), 1 << 53])
def test_names_are_canonical_whatever_stands_beside_them(users: list[Any]) -> None:
    """The short way for many users gives what each gives alone, and names are their own names."""

    def alone(user: Any) -> Any:
        try:
            return canonical_users([user])[0]
        except InputError:
            return InputError

    expected = [alone(user) for user in users]
    if InputError in expected:
        with pytest.raises(InputError, match=f"position {expected.index(InputError)} "):
            canonical_users(users)
    else:
        assert canonical_users(users) == expected
        assert canonical_users(expected) == expected


@pytest.mark.parametrize(
    "form",
    [
        list,
        tuple,
        np.array,
        lambda ids: np.array(ids).astype(str),
        lambda ids: np.array(ids).astype("S5"),
        lambda ids: np.array(ids, dtype=object),
        lambda ids: np.array(ids, dtype=float),
        pa.array,
        lambda ids: pa.array(map(str, ids)).dictionary_encode(),
        lambda ids: pa.chunked_array([map(str, ids), []], type=pa.string()),
    ],
)
def test_arrays_of_all_kinds(form: Any) -> None:
    ids = np.random.default_rng(1).integers(-5, 99, 300).tolist()
    assert canonical_users(form(ids)) == [str(number) for number in ids]


def test_the_durable_state_knows_users_by_the_same_names() -> None:
    """A file that is read again may have its users as text where they were numbers before."""
    one, two, other = (InputDigests(b"k" * 32, 9) for _ in range(3))
    one.push(np.arange(4), [17, None, "a", 5.0])
    two.push(np.arange(4), ["17", "", "a ", b"5"])
    other.push(np.arange(4), ["17", "None", "a", "5"])
    assert one.user_tail == two.user_tail
    assert one.user_tail != other.user_tail
