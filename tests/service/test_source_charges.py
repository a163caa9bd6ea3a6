"""What a source has spent, range by range: one sweep gives what the composition says."""

from __future__ import annotations

import time
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tidegate.guarantee import Guarantee
from tidegate.ledger.composition import composed_by_part, composed_ranges
from tidegate.ledger.entries import Charge
from tidegate.ledger.spent_ranges import spent_ranges


def charge(sequence: int, start: int, end: int | None, epsilon: str, part: str = "") -> Charge:
    return Charge(
        sequence=sequence, time="", hash="", note="", source="s", epoch=f"{sequence:032x}",
        stage="x", start=start, end=end, guarantee=Guarantee(epsilon=Fraction(epsilon)), part=part,
    )  # fmt: skip


@st.composite
def ledgers(draw: st.DrawFn) -> list[Charge]:
    found = []
    for sequence in range(draw(st.integers(0, 12))):
        start = draw(st.integers(0, 8))
        end = draw(st.none() | st.integers(start, 9))
        epsilon = draw(st.sampled_from(["1", "1/3", "0.1", "2"]))
        found.append(charge(sequence, start, end, epsilon, draw(st.sampled_from(["", "a", "b"]))))
    return found


@given(ledgers())
def test_ranges_have_spent_what_the_composition_says(charges: list[Charge]) -> None:
    expected = [
        (
            one.start,
            one.end,
            max(sum(c.epsilon for c in part) for part in composed_by_part(one.charges)),
        )
        for one in composed_ranges(charges)
    ]
    assert [tuple(one) for one in spent_ranges(charges)] == expected


def test_charges_on_each_other_take_no_longer_than_a_sweep() -> None:
    """Every range of 20,000 nested charges has thousands of them: 2·10⁸ in all."""
    charges = [charge(at, at, 50_000 - at, "1/7", f"p{at % 50}") for at in range(20_000)]
    begin = time.process_time()
    found = spent_ranges(charges)
    assert (
        time.process_time() - begin < 5
    )  # 0.4 s; listing the charges of every range took 14 s for 1,000
    assert len(found) == 39_999
    assert max(one.spent for one in found) == Fraction(400, 7)
