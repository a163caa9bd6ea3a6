"""Keys in tables and pictures: of a release, of a released file, and on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.cli.invoking import run
from tests.keyed.test_keyed_files import NAMES, moved
from tidegate.keyed import keyed
from tidegate.released.released_file import ReleasedFile

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("pictures")
    moved(folder, "out.csv")
    return tg.open(folder / "out.csv")


def labels(axes: Any) -> list[str]:
    found = [line.get_label() for line in axes.lines]
    matplotlib.pyplot.close(axes.figure)
    return found


def test_a_range_of_time_by_position(released: Any) -> None:
    named = released.query(from_="2024-03-02", to="2024-03-04", key="7")
    assert released.query("2024-03-02", "2024-03-04", key="7") == named
    days = np.datetime64("2024-03-02"), np.datetime64("2024-03-04")
    assert released.query(*days) == released.query(from_=days[0], to=days[1])
    with pytest.raises(tg.QueryError, match="give a range once"):
        released.query("2024-03-02", key="7", to="2024-03-04")


def test_tables_of_one_key_and_of_the_total(released: Any) -> None:
    days = released.table("1d")
    assert repr(released.table("1d", key="north", from_="2024-03-01", to="2024-03-08")) == repr(
        released.table("1d", keys=["north"], from_="2024-03-01", to="2024-03-08")["north"]
    )
    assert repr(released.table("1d", total=True)) == repr(released.totals("1d"))
    printed = str(days).splitlines()
    assert printed[0] == f"{len(days)} sums of 3 keys with 95% intervals"
    assert printed[1].split() == ["key", "from", "rows", "sum", "low", "high"]
    assert "KeyedTable(" not in str(days)
    assert all(sum(line.startswith(name) for line in printed) == 4 for name in NAMES)
    assert "<table" in days._repr_html_()
    assert [line.split()[:3] for line in str(released.table(50)).splitlines()][3] == [
        "north",
        "0",
        "50",
    ]


def test_pictures_of_keys(released: Any) -> None:
    assert labels(released.plot()) == NAMES
    assert labels(released.plot(keys=["7", "north"])) == ["7", "north"]
    axes = released.plot("north", window=50)
    assert axes.get_title(loc="left").startswith("out.csv, key north.")
    assert labels(axes) == ["level", "moving average of 50 values"]
    release = keyed(tg.adaptive(1, 50, horizon=512), keys=range(9)).start()
    release.push(np.repeat(range(9), 100), np.arange(900) % 50)
    release.finish()
    assert labels(release.plot(keys=[3, 4])) == ["3", "4"]
    assert labels(release.plot(5, window=20)) == ["5"]
    assert "9, 9 of them with rows" in release._repr_html_()
    with pytest.raises(tg.QueryError, match="9 keys are too many for one picture: give key="):
        release.plot()
    with pytest.raises(tg.SettingError, match="window: must lie between 1 and the 100 values"):
        release.plot(5, window=101)


def test_a_key_of_a_file_has_what_a_file_has(released: Any) -> None:
    north = released.of_key("north")
    assert isinstance(north, ReleasedFile)
    rows, mine = north.rows(), released.rows().of("north")
    for column in ("values", "levels", "times"):
        np.testing.assert_array_equal(getattr(rows, column), getattr(mine, column))
    assert north.query(0, len(north)) == released.query(0, len(north), key="north")
    with pytest.raises(tg.QueryError, match="key 'west' has no released rows"):
        released.of_key("west")


def test_show_one_key(released: Any, tmp_path: Path) -> None:
    picture = tmp_path / "north.png"
    shown = run("show", released.path, "--key", "north", "--width", 40, "--png", picture)
    assert shown.exit_code == 0, shown.stderr
    assert "out.csv, key north" in shown.stdout
    assert f"{len(released.of_key('north')):,}" in shown.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    without = run("show", released.path)
    assert without.exit_code == 2
    assert "--key is required: out.csv has the keys north," in without.stderr
