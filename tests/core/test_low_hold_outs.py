"""Answers of every method after a hold-out that left the threshold where it began."""

from __future__ import annotations

import numpy as np
import pytest

import tidegate as tg
from tidegate import methods


def _central() -> dict[str, tg.Pipeline]:
    """Each method with a hold-out, and with a lower bound if it takes one."""
    found = {}
    for method in methods.registered():
        if not isinstance(method.made(), tg.Pipeline):
            continue
        for lower in ({}, {"lower": -1}):
            try:
                made = method.made(epsilon=40, bound=1, resolution=None, holdout=37, **lower)
            except tg.SettingError:
                continue  # it has no lower bound, or no hold-out
            found[f"{method.name} below 0" if lower else method.name] = made
    return found


CENTRAL = _central()


@pytest.mark.parametrize("name", CENTRAL)
def test_zeros_can_be_asked_about(name: str) -> None:
    """Methods without a tree of noise raised an IndexError: no answer could be had at all."""
    release = CENTRAL[name].start(tg.seeded(1))
    end = release.push(np.zeros(400)).size
    answer = release.query(0, end)
    assert answer.low <= answer.estimate <= answer.high


def test_most_methods_are_asked() -> None:
    assert len(CENTRAL) > 30
    assert {"adaptive", "adaptive below 0", "pegasus"} <= set(CENTRAL)
