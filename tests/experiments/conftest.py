"""Experiments without anybody's data: an empty folder of streams, so that twins are used."""

from pathlib import Path

import pytest

from experiments import cells, datasets


def forget() -> None:
    """What was loaded from one folder must not be found under another."""
    datasets.whole.cache_clear()
    cells.checksum.cache_clear()


@pytest.fixture(autouse=True)
def forgotten() -> None:
    forget()


@pytest.fixture
def no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """TIDEGATE_DATA names an empty folder."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("TIDEGATE_DATA", str(folder))
    return folder
