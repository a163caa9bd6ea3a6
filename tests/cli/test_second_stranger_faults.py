"""Faults that a second stranger met: mistakes that were swallowed, and advice that was wrong."""

import json
from unittest.mock import Mock

import numpy as np
import pytest

from tests.cli.invoking import run
from tidegate.cli import check_rehearsal

DAYS = [f"2024-03-{1 + at // 40:02}T{at % 40 // 2:02}:{at % 2 * 30:02}:00" for at in range(800)]


@pytest.fixture(scope="module")
def by_shop(tmp_path_factory):
    """The same rows, released by key and without keys."""
    folder = tmp_path_factory.mktemp("shops")
    rows = [f"{time},{('a', 'b', 'b')[at % 3]},{at % 7}" for at, time in enumerate(DAYS)]
    (folder / "rows.csv").write_text("when,shop,v\n" + "\n".join(rows) + "\n")
    how = ("--column", "v", "--time", "when", "--bound", 10, "--epsilon", 2)
    keyed = ("--by", "shop", "--keys-are-public")
    run("release", folder / "rows.csv", *how, *keyed, "-o", folder / "keyed.csv")
    run("release", folder / "rows.csv", *how, "-o", folder / "plain.csv")
    return folder


@pytest.mark.parametrize(
    "asked",
    [
        ("--from", "25.03.2024"),
        ("--from", "2024-03-05T00:00+01:00"),
        ("--from", "2024-03-05", "--to", "2024-03-02"),
        ("--from", "2030-01-01"),
        ("--to", "garbage"),
        (5, 1),
        (0, 900_000),
    ],
)
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_range_that_no_key_can_answer_is_refused_as_without_keys(by_shop, asked, form):
    """It printed "Some keys have too few rows", with exit code 0."""
    keyed = run("query", by_shop / "keyed.csv", *asked, *form)
    plain = run("query", by_shop / "plain.csv", *asked, *form)
    assert keyed.exit_code == plain.exit_code == 2
    assert keyed.stdout == ""
    if asked[-1] != 900_000:  # the longest key has fewer rows than all together
        assert keyed.stderr == plain.stderr


def test_keys_without_an_answer_are_counted(by_shop):
    asked = by_shop / "keyed.csv", 0, 400
    assert "1 key has no sum (of 2)" in run("query", *asked).stdout
    said = json.loads(run("query", *asked, "--json").stdout)
    assert said["answers"][0]["estimate"] is None
    assert any("1 key has no sum (of 2)" in warning for warning in said["warnings"])


@pytest.fixture
def small_readings(tmp_path):
    """Quarter hours of a meter in kWh, about 0.15 each."""
    values = np.random.default_rng(3).gamma(3, 0.05, 6_000).round(3)
    path = tmp_path / "kwh.csv"
    path.write_text("kwh\n" + "".join(f"{value}\n" for value in values))
    return path, values


def resolution_in(words):
    return float(words.partition("--resolution ")[2].split()[0].rstrip(".)"))


@pytest.mark.parametrize("given", [(), ("--resolution", 1)])
@pytest.mark.parametrize("bound", [10, 1_000, 10_000])
def test_check_never_advises_a_resolution_that_moves_the_sum(small_readings, bound, given):
    """Rounding moved the sum by 99 %, and it said: try --resolution 10."""
    path, values = small_readings
    found = run("check", path, "--header", "--bound", bound, "--epsilon", 1, *given).stdout
    for line in found.splitlines():
        advised = line if "Use --resolution" in line or "release" in line else ""
        if "--resolution" in advised.partition("Use ")[2] + advised * ("-o private" in advised):
            step = resolution_in(advised.partition("Use ")[2] or advised)
            rounded = np.rint(values / step) * step
            assert abs(rounded.sum() - values.sum()) < 0.001 * values.sum()
    (command,) = [line for line in found.splitlines() if "-o private.csv" in line]
    if given or bound == 10_000:
        assert "--resolution" in command
    assert "too few rows" not in found


def test_a_rehearsal_misses_what_the_bound_cuts(tmp_path):
    """Half of the sum was cut off, and "5 of 5" intervals held."""
    path = tmp_path / "prices.csv"
    path.write_text("price\n" + "15\n30\n" * 1_000)
    found = run("check", path, "--header", "--bound", 10, "--epsilon", 1).stdout
    assert "0 of 5" in found
    assert "--bound 10 cuts 55.6% off a total, and no interval holds that" in found
    assert found.index("Warning: --bound 10 takes 55.6% off a total") < found.index("rehearsals")
    assert "the upper end of an interval reaches further" not in found


def test_check_shows_the_intervals_that_rehearsals_had(small_readings, monkeypatch):
    """It promised ± 4.7 %, and intervals reached 42 % up."""
    answers = [Mock(estimate=900.0, low=900 - below, high=1_200.0) for below in (9, 45, 90)]
    release = Mock(query=Mock(side_effect=answers))
    pipeline = Mock(ticks=None, lattice=Mock(bottom=0, top=10, step=1.0), start=lambda: release)
    monkeypatch.setattr(check_rehearsal, "_RUNS", 3)
    found = check_rehearsal.rehearse(pipeline, np.array([500.0, 400.0]))  # the bound, 10, cuts
    assert found == check_rehearsal.Rehearsal(3, 3, 0.0, 0.05, pytest.approx(1 / 3))
    assert found.cells() == ("0.0%", "− 5.0%, + 33.3%", "3 of 3")
    told = run("check", small_readings[0], "--header", "--bound", 10, "--epsilon", 1).stdout
    assert "noise in a total" in told
    assert "95 % interval" in told
