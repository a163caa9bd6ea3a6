"""Budget belongs to the source: the total is the maximum over positions of the sum."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from tests.depth import examples
from tidegate.errors import SettingError
from tidegate.guarantee import Guarantee, parallel
from tidegate.ledger import CapExceeded, Charge, Ledger

LIMIT = 12  # positions; whatever lies beyond is like the last one
AMOUNTS = some.fractions(min_value=0, max_value=2, max_denominator=30)


@some.composite
def charges(draw: some.DrawFn) -> dict[str, object]:
    start = draw(some.integers(0, LIMIT - 1))
    delta = draw(some.sampled_from([0, Fraction(1, 10**6), Fraction(1, 3)]))
    return {
        "source": draw(some.sampled_from(["a", "b"])),
        "start": start,
        "end": draw(some.none() | some.integers(start + 1, LIMIT)),
        "guarantee": Guarantee(epsilon=draw(AMOUNTS), delta=Fraction(delta)),
    }


def without_disk() -> patch:  # laws of arithmetic need no disk, and are looked at many times
    return patch.object(os, "fsync", lambda _: None)


@contextmanager
def charged(wanted: list[dict[str, object]]) -> Iterator[tuple[Ledger, Path]]:
    """A ledger without a cap that was charged all this."""
    with (
        tempfile.TemporaryDirectory() as folder,
        without_disk(),
        Ledger.open(Path(folder, "x")) as ledger,
    ):
        for item in wanted:
            ledger.charge(epoch="5f", stage="stream", **item)
        yield ledger, Path(folder, "x")


def covers(charge: Charge, position: int) -> bool:
    return charge.start <= position and (charge.end is None or position < charge.end)


def by_hand(charges: list[Charge], amount: str) -> Fraction:
    return max(
        sum((getattr(c, amount) for c in charges if covers(c, position)), start=Fraction(0))
        for position in range(LIMIT + 1)
    )


@given(wanted=some.lists(charges(), max_size=12), closings=some.lists(some.integers(0, LIMIT)))
def test_the_total_is_the_maximum_over_positions(
    wanted: list[dict[str, object]], closings: list[int]
) -> None:
    with charged(wanted) as (ledger, path):
        for charge, end in zip(ledger.charges(), closings, strict=False):
            if charge.end is None and end >= charge.start:
                assert ledger.close_charge(charge, end).end == end
        for source in ("a", "b"):
            held, total = ledger.charges(source), ledger.total(source)
            assert total.epsilon == by_hand(held, "epsilon")
            assert total.delta == min(1, by_hand(held, "delta"))
            parts = ledger.ranges(source)
            for position in range(LIMIT + 1):
                here = [p for p in parts if p.start <= position < (p.end or LIMIT + 1)]
                covering = [c for c in held if covers(c, position)]
                assert len(here) == bool(covering)
                assert not here or sorted(here[0].charges, key=lambda c: c.sequence) == covering
            assert [part.start for part in parts] == sorted({part.start for part in parts})
            if parts:
                whole = parallel(*(part.total for part in parts))
                assert (whole.epsilon, whole.delta) == (total.epsilon, total.delta)
        with Ledger.open(path, read_only=True) as again:
            assert again.entries == ledger.entries
            assert again.charges() == ledger.charges()
            assert again.total() == ledger.total()


@given(wanted=some.lists(charges(), max_size=12), cap=some.fractions(min_value="1/30", max_value=3))
def test_no_sequence_of_charges_exceeds_the_cap(
    wanted: list[dict[str, object]], cap: Fraction
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        without_disk(),
        Ledger.open(Path(folder, "x"), cap=cap) as ledger,
    ):
        for item in wanted:
            source = item["source"]
            opened = [charge for charge in ledger.charges(source) if charge.end is None]
            if opened and opened[0].start <= item["start"]:  # one phase follows another
                ledger.close_charge(opened[0], item["start"])
            before = ledger.count
            try:
                ledger.charge(epoch="5f", stage="stream", **item)
            except CapExceeded as refused:
                would_be = refused.total
                extra = Charge(sequence=0, time=None, hash="", note="", epoch="", stage="", **item)
                assert ledger.count == before
                assert by_hand([*ledger.charges(source), extra], "epsilon") == would_be > cap
            assert by_hand(ledger.charges(source), "epsilon") <= cap
            assert ledger.left(source) == cap - ledger.total(source).epsilon >= 0


@settings(max_examples=examples(50))
@given(wanted=some.lists(charges(), max_size=8), disjoint=some.sets(some.sampled_from(["a", "b"])))
def test_sources_add_up_unless_disjoint(
    wanted: list[dict[str, object]], disjoint: set[str]
) -> None:
    with charged(wanted) as (ledger, _):
        for source in disjoint:
            ledger.declare(source, disjoint=True)
        a, b = (ledger.total(source).epsilon for source in ("a", "b"))
        # One that is disjoint from every other is disjoint from the second of two.
        assert ledger.total().epsilon == (max(a, b) if disjoint else a + b)
        for source in disjoint:
            ledger.declare(source, disjoint=False)
        assert ledger.total().epsilon == a + b


def test_sums_are_exact(ledger: Ledger) -> None:
    for _ in range(3):
        ledger.charge(
            source="a", epoch="5f", stage="s", start=0, guarantee=Guarantee(epsilon=0.1, delta=1e-6)
        )
    total = ledger.total("a")
    assert total.epsilon == Fraction(3, 10)  # 0.1 + 0.1 + 0.1 in floats is more
    assert total.delta == Fraction(3, 10**6)
    assert type(total.epsilon) is type(total.delta) is Fraction


def test_a_cap_can_be_spent_to_the_last_bit(path: Path) -> None:
    with Ledger.open(path, cap=0.3) as ledger:
        for _ in range(3):
            ledger.charge(
                source="a", epoch="5f", stage="s", start=0, guarantee=Guarantee(epsilon=0.1)
            )
        assert ledger.left("a") == 0
        least = Guarantee(epsilon=Fraction(1, 10**30))
        with pytest.raises(CapExceeded, match=r"would be ≈0\.3, above the cap of 0\.3"):
            ledger.charge(source="a", epoch="5f", stage="s", start=0, guarantee=least)
        assert ledger.left("a") == 0


def test_nothing_charged_is_nothing_spent(ledger: Ledger) -> None:
    assert ledger.total().epsilon == ledger.total("nobody").epsilon == 0
    assert ledger.left("nobody") is None
    assert ledger.ranges("nobody") == []


def test_float_arithmetic_is_remembered(ledger: Ledger, tenth: Guarantee) -> None:
    ledger.charge(source="a", epoch="5f", stage="s", start=0, end=5, guarantee=tenth)
    assert ledger.total().arithmetic == "exact"
    floating = Guarantee(epsilon=Fraction(1, 100), arithmetic="float")
    ledger.charge(source="a", epoch="5f", stage="s", start=5, guarantee=floating)
    assert ledger.total().arithmetic == "float"


def test_other_units_and_models_are_refused_before_anything_is_written(
    ledger: Ledger, path: Path, tenth: Guarantee
) -> None:
    ledger.charge(source="a", epoch="5f", stage="s", start=0, end=5, guarantee=tenth)
    before = path.read_bytes()
    for other in ({"unit": "user-horizon:3"}, {"model": "local"}):
        with pytest.raises(SettingError, match="a is charged per event in the central model"):
            ledger.charge(
                source="a",
                epoch="5f",
                stage="s",
                start=5,  # on other positions too: a source has one total
                guarantee=Guarantee(epsilon=Fraction(1), **other),
            )
    assert path.read_bytes() == before
    ledger.charge(
        source="b", epoch="5f", stage="s", start=0, guarantee=Guarantee(epsilon=1, unit="window:7")
    )
    with pytest.raises(SettingError, match="different privacy units"):
        ledger.total()
    assert "units or models differ: no total" in ledger.table()
