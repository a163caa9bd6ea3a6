"""`tidegate check`: for the owner alone, writes nothing, and what it suggests works."""

import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.cli.invoking import run
from tests.depth import in_turn
from tidegate.plan.data_profile import DataProfile


@pytest.fixture
def meters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Decimals, a few refunds, a few missing values, two rows out of order; with semicolons."""
    values = np.random.default_rng(3).gamma(2.0, 1.0, 6000).round(2)
    values[::500] = -1
    lines = [
        f"2024-01-01T{at // 3600:02}:{at // 60 % 60:02};{value}" for at, value in enumerate(values)
    ]
    lines[7], lines[3000] = lines[3000], lines[7]
    lines[9] = lines[9].partition(";")[0] + ";"
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "meters.csv"
    path.write_text("time;watts\n" + "\n".join(lines) + "\n")
    return path


def test_it_says_what_is_in_the_data_and_suggests_a_command_that_works(meters: Path) -> None:
    how = ("--column", "watts", "--delimiter", ";")
    result = run("check", meters.name, *how, "--time", "time", "--bound", "12.5")
    assert result.exit_code == 0, result.output
    first, *rest = result.stdout.splitlines()
    assert "not private" in first
    assert "Nothing is written" in first
    text = "\n".join(rest)
    for fact in (
        "rows       6,000",
        "decimals, 2 places",
        "missing    1 (0.02%)",
        "12 rows (0.20%)",
        "rows are older than one before",
        "▁",
    ):
        assert fact in text
    assert [path.name for path in meters.parent.iterdir()] == ["meters.csv"]
    command = shlex.split(rest[-1])
    assert command[:2] == ["tidegate", "release"]
    released = run(*command[1:])
    assert released.exit_code == 0, released.output
    assert "warning" not in released.stderr


def test_settings_that_were_thought_of_are_judged(meters: Path) -> None:
    how = ("check", meters.name, "--column", "watts", "--delimiter", ";", "--epsilon", "0.5")
    tight = run(*how, "--bound", "2", "--resolution", "1").stdout
    assert "of the rows count as less than they are" in tight
    assert "--resolution 1 " in tight
    hopeless = run(*how[:-2], "--epsilon", "0.0001").stdout
    assert "hopeless" in hopeless
    assert "too few rows for this epsilon" in hopeless


def test_a_key_that_is_nowhere_is_noticed(tmp_path: Path) -> None:
    """A release takes it for missing values: it must not depend on them. Here it may be said."""
    path = tmp_path / "in.jsonl"
    path.write_text('{"watts": 3}\n' * 50)
    result = run("check", path, "--column", "wats")
    assert result.exit_code == 4
    assert "all 50 rows have no number in 'wats'" in result.stderr
    (tmp_path / "empty.csv").write_text("")
    assert run("check", tmp_path / "empty.csv").exit_code == 4


@pytest.mark.parametrize("pieces", [1, 7, 400])
def test_a_profile_does_not_depend_on_how_it_is_fed(pieces: int) -> None:
    values = np.random.default_rng(1).gamma(2.0, 10.0, 1000).round(3)
    values[5] = np.nan
    profile = DataProfile()
    for part in np.array_split(values, pieces):
        profile.push(part)
    assert (profile.rows, profile.missing, profile.places) == (1000, 1, 3)
    assert profile.sum == pytest.approx(np.nansum(values))
    assert profile.quantiles(0.5) == [pytest.approx(np.nanquantile(values, 0.5))]
    stretches = np.nan_to_num(values)[: 16 * 62].reshape(62, 16).mean(axis=1)
    assert profile.means == pytest.approx(stretches.tolist())
    share, lost = profile.above(20.0)
    kept = values[np.isfinite(values)]
    assert share == pytest.approx((kept > 20).mean())
    assert lost == pytest.approx(np.maximum(kept - 20, 0).sum() / kept.sum())


def test_the_owner_is_shown_which_columns_there_are(meters: Path) -> None:
    shown = run("check", meters.name, "--delimiter", ";").stdout
    assert "Choose a column with --column: 'time', 'watts'" in shown
    rows = meters.with_name("rows.jsonl")
    rows.write_text('{"ts": 1706745600, "d": {"temp": 1.5}}\n' * 30)
    assert "--column: 'ts', 'd.temp'" in run("check", rows.name).stdout
    found = run("check", rows.name, "--column", "d.temp").stdout
    assert "time       column 'ts'" in found
    assert "--column d.temp --time ts" in found


@pytest.mark.parametrize("written", ["$1234.00", "1 234.50", "1'234.5", "12€", "(5)"])
def test_money_is_told_from_other_text(meters: Path, written: str) -> None:
    meters.write_text(f"time;watts\nx;{written}\n")
    result = run("check", meters.name, "--column", "watts", "--delimiter", ";")
    assert "currency sign or marks of thousands" in result.stderr
    assert written not in result.stderr
    assert "write 1234.5" in result.stderr
    meters.write_text("time;watts\nx;1.234,5\n")
    result = run("check", meters.name, "--column", "watts", "--delimiter", ";", "--decimal", ",")
    assert "write 1234,5" in result.stderr
    meters.write_text("time;watts\nx;a12a7\n")
    result = run("check", meters.name, "--column", "watts", "--delimiter", ";")
    assert "currency" not in result.stderr


@pytest.mark.parametrize(
    "how", in_turn([["--by", "zone"], ["--every", "15min"], ["--by", "zone", "--every", "1h"]], 0)
)
def test_streams_by_key_and_per_tick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: list[str]
) -> None:
    random = np.random.default_rng(2)
    rows = [
        f"2024-01-{1 + at // 1000:02}T{at % 1000 // 42:02}:{at % 42:02},{'abc'[at % 3]},{value:.2f}"
        for at, value in enumerate(random.gamma(2, 5, 6000))
    ]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trips.csv").write_text("\n".join(["pickup,zone,fare", *rows]) + "\n")
    (tmp_path / "keys.txt").write_text("a\nb\nc\nd\n")
    result = run("check", "trips.csv", "--column", "fare", "--time", "pickup", *how)
    assert result.exit_code == 0, result.output
    if "--by" in how:
        assert "3 in 'zone': 2,000 to 2,000 rows each" in result.stdout
        assert "a total of a key" in result.stdout
    if "--every" in how:
        assert f"of {how[-1]}:" in result.stdout
        assert "in the busiest" in result.stdout
    command = shlex.split(result.stdout.splitlines()[-1])
    assert set(how) < set(command)
    released = run(*command[1:])
    assert released.exit_code == 0, released.output
    assert run("query", "private.csv").exit_code == 0


@pytest.mark.parametrize("every", [[], ["--every", "1h"]])
def test_rows_whose_key_is_not_declared_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: list[str]
) -> None:
    """What it says is what a release of the declared keys would have; its command names them."""
    monkeypatch.chdir(tmp_path)
    rows = [
        f"2024-01-01T{at // 60 // 60:02}:{at // 60 % 60:02}:{at % 60:02},{'a7x'[at % 3]},"
        f"{9 if at % 3 < 2 else 5000}"
        for at in range(9000)
    ]
    (tmp_path / "trips.csv").write_text("\n".join(["at,zone,fare", *rows]) + "\n")
    (tmp_path / "declared").write_text("a\n7\nnever\n")
    look = ["check", "trips.csv", "--column", "fare", "--time", "at", *every]
    result = run(*look, "--by", "zone", "--keys", "declared")
    assert result.exit_code == 0, result.output
    assert "rows       6,000\n" in result.stdout
    assert "largest    9\n" in result.stdout
    assert "2 in 'zone': 3,000 to 3,000 rows each" in result.stdout
    assert "declared   3 keys in declared; 1 have no row" in result.stdout
    assert "dropped    3,000 rows have another key: a release drops them" in result.stdout
    assert "5000" not in result.stdout
    assert "keys.txt" not in result.stdout
    command = shlex.split(result.stdout.splitlines()[-1])
    assert command[command.index("--keys") + 1] == "declared"
    released = run(*command[1:])
    assert released.exit_code == 0, released.output
    assert "dropped 3,000 rows" in released.stderr
    assert run(*look, "--keys", "declared").stderr.startswith("tidegate: --keys needs --by")
    (tmp_path / "declared").write_text("A\n")
    nothing = run(*look, "--by", "zone", "--keys", "declared")
    assert (nothing.exit_code, "keys: no row has a key of declared" in nothing.stderr) == (4, True)


def test_it_says_whose_midnight_begins_a_day(tmp_path: Path) -> None:
    """Offsets that change with the clocks do not tell the zone: days are those of UTC."""
    path = tmp_path / "clocks.csv"
    path.write_text("time,value\n2024-03-31T01:00+01:00,4\n2024-03-31T03:00+02:00,5\n")
    how = ("check", str(path), "--time", "time", "--column", "value")
    assert "2024-03-31T01:00:00Z; days begin at midnight UTC" in run(*how).stdout
    known = run(*how, "--zone", "Europe/Berlin").stdout
    assert "2024-03-31T03:00:00+02:00\n" in known


def test_ticks_need_times(tmp_path: Path) -> None:
    (tmp_path / "values.csv").write_text("value\n1\n2\n")
    result = run("check", str(tmp_path / "values.csv"), "--every", "15min")
    assert result.exit_code != 0
    assert "--time" in result.stderr


def test_rows_that_were_sent_twice_are_counted(tmp_path: Path) -> None:
    rows = [f"2025-03-01T00:{at // 2:02},{'ab'[at % 2]},{at % 3}" for at in range(100)]
    (tmp_path / "once.csv").write_text("\n".join(["when,who,load", *rows, ""]))
    (tmp_path / "twice.csv").write_text("\n".join(["when,who,load", *rows, *rows[-8:-3], ""]))
    words = ("--column", "load", "--time", "when", "--by", "who")
    assert "repeated" not in run("check", tmp_path / "once.csv", *words).output
    said = run("check", tmp_path / "twice.csv", *words).output
    assert "5 rows have the time, key and value of another" in said
