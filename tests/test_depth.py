"""Less by hand, all at the gate: and turns that leave nothing out."""

from itertools import islice
from typing import Any

import pytest

from tests import depth


@pytest.fixture(params=[False, True], ids=["by hand", "gate"])
def thorough(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(depth, "THOROUGH", request.param)
    return bool(request.param)


@pytest.mark.parametrize("of", [2, 3, 4])
def test_tests_that_take_turns_meet_every_case(thorough: bool, of: int) -> None:
    turns = [depth.in_turn(range(11), turn, [5], of=of) for turn in range(of)]
    assert sorted({one for cases in turns for one in cases}) == list(range(11))
    assert all((len(cases) == 11) is thorough and 5 in cases for cases in turns)


def test_moments_of_a_family_differ_and_are_all_met(
    thorough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    met = set()
    for case in range(20):
        monkeypatch.setenv("PYTEST_CURRENT_TEST", f"tests/one.py::test_it[{case}] (call)")
        first, second = islice(depth.moments(), 2)
        assert second - first == (1 if thorough else 3)
        met |= {*islice(depth.moments(), 9)}
    assert met >= set(range(9))
    assert (max(met) > 9) is not thorough


def test_what_is_left_to_the_gate(thorough: bool) -> None:
    class Item:
        def __init__(self, mark: str) -> None:
            self.mark = mark

        def get_closest_marker(self, name: str) -> bool:
            return name == self.mark

    items: Any = [Item("at_the_gate"), Item("another")]
    assert depth.left_to_the_gate(items, ["tests"]) == (set() if thorough else {items[0]})
    assert depth.left_to_the_gate(items, ["tests/one.py::test_it"]) == set()
