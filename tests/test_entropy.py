"""What a test draws depends on its name alone: not on its neighbours, their order or the run."""

from __future__ import annotations

import os

import pytest

import tidegate as tg
from tests.entropy import EXPLORING, beginning_with

pytestmark = pytest.mark.skipif(EXPLORING, reason="TIDEGATE_EXPLORE asks for true randomness")


@pytest.fixture(scope="module")
def shared() -> bytes:
    return os.urandom(8)


def test_a_test_draws_the_same_bytes_in_every_run() -> None:
    assert os.urandom(4).hex() == "c92c772e"
    assert os.urandom(4).hex() != "c92c772e"


def test_another_test_draws_others(shared: bytes) -> None:
    assert os.urandom(4).hex() == "7be80978"
    assert shared.hex() == "a18070cfb418c261"


def test_a_release_draws_from_there_and_no_two_are_alike() -> None:
    drawn = []
    for _ in range(2):
        with beginning_with("a name"):
            drawn += [[tg.secure().new_epoch() for _ in range(2)]]
    assert drawn[0] == drawn[1]
    assert drawn[0][0] != drawn[0][1]
    with beginning_with("another name"):
        assert tg.secure().new_epoch() not in drawn[0]
