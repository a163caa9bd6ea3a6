"""Faults that a second stranger met: mistakes that were swallowed, and advice that was wrong."""

import json

import numpy as np
import pytest

from tests.cli.invoking import run

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
