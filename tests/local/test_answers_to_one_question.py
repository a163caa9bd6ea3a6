"""Devices choose whom they answer: a round whose answers are all to one question still closes."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.depth import depth, in_turn
from tidegate.local.server_collection import STREAM
from tidegate.local.topl import Topl

SIDES: dict[str, dict[str, Any]] = {"one side": {}, "two sides": {"lower": -1000}}
WANTED = ("values only", "first question only", "last question only")


@pytest.mark.parametrize(("sides", "wanted"), in_turn(product(SIDES, WANTED), 0, of=4))
def test_no_choice_of_questions_stops_a_collection(sides: str, wanted: str) -> None:
    """Without an answer about a tail, what was known of it decides. It was an IndexError, at the
    report that closed the round: whoever sent it again met it again, for ever."""
    topl = Topl(epsilon=1, bound=1000, horizon=4096, holdout=100, report="hybrid", **SIDES[sides])
    collection = topl.collection()
    for _ in range(depth(7, 10)):
        values = [at for at, slot in enumerate(collection.slots) if slot.phase == STREAM]
        slot = {"values only": (values or [0])[0], "first question only": 0}.get(wanted, -1)
        count = collection.left or 1
        slots = np.full(count, slot % len(collection.slots))
        collection.receive(slots, np.zeros(count, dtype=np.int64))
    assert collection.round >= 6
    assert collection.threshold is not None
    assert 0 < collection.threshold <= 1000
    answer = collection.query(0, collection.collected.count)
    assert np.isfinite([answer.low, answer.estimate, answer.high]).all()
