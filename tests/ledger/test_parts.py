"""Parts of a source share no value: the source has spent the maximum over them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tidegate.errors import SettingError
from tidegate.guarantee import Guarantee
from tidegate.ledger import CapExceeded, Ledger
from tidegate.ledger.composition import ComposedAmount, most_spent

CHARGES = st.lists(
    st.tuples(
        st.sampled_from(["", "a", "b"]), st.integers(0, 5), st.integers(1, 5), st.integers(1, 9)
    ),
    min_size=1,
    max_size=12,
)


@given(CHARGES)
def test_a_value_pays_for_its_part_and_for_what_reads_all(
    charges: list[tuple[str, int, int, int]],
) -> None:
    amounts = [
        ComposedAmount(part, start, start + size, Fraction(epsilon))
        for part, start, size, epsilon in charges
    ]
    # By brute force: every value there can be, of every part.
    by_hand = max(
        sum(one.epsilon for one in amounts
            if one.part in ("", part) and one.start <= place < (one.end or 99))
        for part in ("a", "b", "c") for place in range(11)
    )  # fmt: skip
    assert most_spent(amounts) == by_hand


def test_parts_under_a_cap(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.jsonl", cap=2) as book:
        one = Guarantee(epsilon=Fraction(1))

        def charge(part: str) -> None:
            book.charge(
                source="city",
                epoch=f"e{book.count}",
                stage="stream",
                start=0,
                guarantee=one,
                part=part,
            )

        charge("north")
        charge("south")
        assert book.total("city").epsilon == 1
        charge("")
        assert book.total("city").epsilon == 2
        for part in ("north", "", "south"):
            with pytest.raises(CapExceeded):
                book.check("city", [(0, None, one)], part=part)
            with pytest.raises(CapExceeded):
                charge(part)
        charge("west")
        book.set_cap(3, source="city")
        charge("north")
        assert (book.total("city").epsilon, book.left("city")) == (3, 0)
        head = book.head
    with Ledger.open(tmp_path / "ledger.jsonl") as again:  # parts and caps are in the chain
        assert (again.head, again.left("city"), again.cap_of("other")) == (head, 0, 2)
        (spent,) = again.ranges("city")
        assert spent.total.epsilon == 3


def test_parts_are_refused_where_a_user_may_be_in_several(tmp_path: Path) -> None:
    per_user = tg.tops(epsilon=1, bound=10, unit=tg.units.UserHorizon(most=4)).guarantee
    with Ledger.open(tmp_path / "book", cap=1) as book:
        charge: dict[str, Any] = {"source": "cards", "epoch": "e", "stage": "s", "start": 0}
        with pytest.raises(SettingError, match="part: must be left out where a user"):
            book.charge(**charge, guarantee=per_user, part="shop 1")
        with pytest.raises(SettingError, match="part: must be left out"):
            book.check("cards", [(0, None, per_user)], part="shop 1")
        assert not book.charges()
        book.charge(**charge, guarantee=per_user)
