"""What all tests share: how hypothesis searches, and where the real streams are."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# No deadlines: a slow machine is not a failing law. CI draws the same examples every time, so that
# a red run can be repeated; elsewhere every run looks at new ones.
settings.register_profile("tidegate", deadline=None)
settings.register_profile("tidegate-ci", deadline=None, derandomize=True, database=None)
settings.load_profile("tidegate-ci" if os.environ.get("CI") else "tidegate")


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
