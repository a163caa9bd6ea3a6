"""What all tests share: how hypothesis searches, and where the real streams are."""

import os
from collections.abc import Generator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.depth import examples, left_to_the_gate
from tests.entropy import EXPLORING

# A slow machine is not a failing law, nor is it one on which examples are slow to draw. The same
# examples every time, so that a red run can be repeated; exploring, every run looks at new ones.
patient = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=examples(100)
)
settings.register_profile("tidegate", patient, derandomize=True, database=None)
settings.register_profile("tidegate-exploring", patient)
settings.load_profile("tidegate-exploring" if EXPLORING else "tidegate")

# The examples must not depend on which modules a worker has imported: hypothesis would read all of
# ours for constants to try, which takes seconds in a new checkout, too.
with suppress(ImportError, AttributeError):
    from hypothesis.internal.conjecture import providers

    providers.is_local_module_file = lambda path: False

# The commands are made once, as in every process, and not anew for every call: that takes longer
# than most calls themselves. Where typer is missing, or does without, nothing needs to be kept.
with suppress(ImportError, AttributeError):
    from typer import testing

    testing._get_command = cache(testing._get_command)


@pytest.fixture(scope="session")
def data_directory() -> Path:
    """The folder of real streams that TIDEGATE_DATA names; without it, a test is skipped."""
    location = os.environ.get("TIDEGATE_DATA")
    if not location:
        pytest.skip("needs real streams: TIDEGATE_DATA names no folder")
    directory = Path(location)
    if not directory.is_dir():
        pytest.skip(f"needs real streams: TIDEGATE_DATA={location} is not a folder")
    return directory


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[Any], list[Any]]:
    """Look for examples in docstrings of the package, not of its tests: a third of collecting."""
    found = yield
    return [one for one in found if type(one).__name__ != "DoctestModule"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Spark comes first: it takes half a minute to start, and workers steal what comes last.

    Otherwise two of them would start it, or one would still be at it when all else is done.
    By hand, tests that meet nothing of a new kind are left to the gate.
    """
    left = left_to_the_gate(items, config.args)
    if left:
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]
    items.sort(key=lambda item: not item.nodeid.startswith("tests/spark/"))
