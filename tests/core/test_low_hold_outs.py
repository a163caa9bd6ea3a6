"""Answers of every method after a hold-out that left the threshold where it began."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tidegate import methods

CENTRAL = [one for one in methods.registered() if isinstance(one.made(), tg.Pipeline)]


@pytest.mark.parametrize("method", CENTRAL, ids=lambda method: method.name)
@pytest.mark.parametrize("lower", [0, -1])
def test_zeros_can_be_asked_about(method: Any, lower: int) -> None:
    """Methods without a tree of noise raised an IndexError: no answer could be had at all."""
    try:
        pipeline = method.made(
            epsilon=40, bound=1, resolution=None, holdout=37, **({"lower": lower} if lower else {})
        )
    except tg.SettingError:
        pytest.skip("it has no lower bound, or no hold-out")
    release = pipeline.start(tg.seeded(1))
    end = release.push(np.zeros(400)).size
    answer = release.query(0, end)
    assert answer.low <= answer.estimate <= answer.high
