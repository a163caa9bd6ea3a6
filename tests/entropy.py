"""The operating system's random bytes, the same in every run: a red test can be run again.

Secrets, epochs and keys all come from `os.urandom`. A test that counts how often something
happens, or looks for a value in what is printed, would fail once in many runs for no reason, and
the one after it would be green. So every test draws from a stream of its own, which its name
begins: whatever ran before it, in whatever order, in whichever process.

TIDEGATE_EXPLORE=1 gives true randomness, here and to hypothesis: for a look at new ground.
Processes that a test starts have true randomness always.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

EXPLORING = bool(os.environ.get("TIDEGATE_EXPLORE"))


@contextmanager
def beginning_with(name: str) -> Iterator[None]:
    """Random bytes that the name determines."""
    if EXPLORING:
        yield
        return
    before = os.urandom
    os.urandom = random.Random(name).randbytes  # the same in all versions, and safe with threads
    try:
        yield
    finally:
        os.urandom = before


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """All of a test: its fixtures, itself, and what comes after."""
    with beginning_with(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Iterator[None]:
    """What tests share is made in whichever of them comes first: it has a stream of its own."""
    if fixturedef.scope == "function":
        return (yield)
    which = getattr(request, "param_index", 0)
    with beginning_with(f"{fixturedef.baseid}::{fixturedef.argname}[{which}]"):
        return (yield)
