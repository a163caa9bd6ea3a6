"""Times on the command line: carried through, asked for, refused by position; small comforts."""

import json
from datetime import UTC

import numpy as np
import pytest
from typer.testing import CliRunner

import tidegate as tg
from tests.depth import in_turn
from tidegate.cli.app import app
from tidegate.io import KINDS, read_metadata, read_rows
from tidegate.released import ReleasedFile

BASE = ["--epsilon", "1", "--bound", "50", "--column", "value", "--quiet"]
COUNT = 24 * 60
WHEN = np.datetime64("2024-01-01T00:00:00") + np.arange(COUNT).astype("timedelta64[h]")
VALUES = np.random.default_rng(0).integers(0, 50, COUNT)


def run(*arguments, stdin=None):
    result = CliRunner().invoke(app, [*map(str, arguments)], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def write(path, times=WHEN):
    text = "".join(f"{when},{value}\n" for when, value in zip(times, VALUES, strict=True))
    path.write_text("when,value\n" + text)
    return path


@pytest.mark.parametrize(
    ("kind", "zone"),
    in_turn([*((kind, "Asia/Tokyo") for kind in KINDS), ("csv", None), ("parquet", None)], 0),
)
def test_times_go_through_every_kind_of_file(tmp_path, kind, zone):
    source, output = write(tmp_path / "in.csv"), tmp_path / f"out.{kind}"
    zoned = [] if zone is None else ["--zone", zone]
    result = run("release", source, "-o", output, *BASE, "--time", "when", *zoned)
    assert result.exit_code == 0, result.output
    assert read_metadata(output)["time"] == {"zone": zone, "unit": None}
    times = np.concatenate([rows.times for rows in read_rows(output)])
    shift = 0 if zone is None else 9
    expected = (WHEN - np.timedelta64(shift, "h")).astype("datetime64[ns]").astype(np.int64)
    assert times.tolist() == expected.tolist()
    for _ in range(2):  # the second time from the index beside the file
        asked = run("query", output, "--from", "2024-01-08", "--to", "2024-01-15", "--json")
        (answer,) = json.loads(asked.stdout)["answers"]
        assert (answer["start"], answer["end"]) == (7 * 24, 14 * 24)
    rows = json.loads(run("query", output, "--every", "1w", "--json").stdout)["rows"]
    assert [row["rows"] for row in rows] == [168] * 8 + [96]
    assert rows[1]["sum"] == pytest.approx(answer["estimate"])
    if kind == "csv":  # the rest is the same for all
        assert "2024-01-08" in run("query", output, "--every", "1w").stdout
    assert ReleasedFile.open(output).rows().times.size == COUNT
    assert run("show", output).exit_code == 0


def test_a_durable_release_with_times_goes_on(tmp_path):
    source, output = write(tmp_path / "in.csv"), tmp_path / "out.csv"
    whole = source.read_text()
    options = ["-o", output, *BASE, "--time", "when", "--state", tmp_path / "state"]
    source.write_text("".join(whole.splitlines(keepends=True)[:800]))
    assert run("release", source, *options).exit_code == 0
    before = output.read_bytes()
    source.write_text(whole)
    assert run("release", source, *options).exit_code == 0
    assert output.read_bytes().startswith(before)
    assert len(output.read_text().splitlines()) == COUNT + 1
    other = write(tmp_path / "other.csv", WHEN + np.timedelta64(1, "s"))
    result = run("release", other, *options)
    assert result.exit_code == 3
    assert "differs from what was read before" in result.stderr


@pytest.mark.usefixtures("read_once")
@pytest.mark.parametrize("bad", ["4711-secret", "", "2023-12-31T00:00:00", "2024-13-01"])
@pytest.mark.parametrize("place", [0, 3, 700])
def test_a_bad_time_is_named_by_its_position(tmp_path, bad, place):
    times = [str(when) for when in WHEN]
    times[place] = bad
    source, output = write(tmp_path / "in.csv", times), tmp_path / "out.csv"
    options = ["release", source, *BASE, "--time", "when"]
    result = run(*options, "-o", output)
    late = bad.startswith("2023")
    if late and place == 0:
        assert result.exit_code == 0
        return
    assert result.exit_code != 0
    assert f"position {place} " in result.stderr
    assert not bad or bad not in result.output
    rows = len(output.read_text().splitlines()) - 1 if output.exists() else 0
    assert rows == place  # those before it are released, whatever the batches were
    if late:
        kept = tmp_path / "kept.csv"
        assert run(*options, "-o", kept, "--late", "keep").exit_code == 0
        assert len(kept.read_text().splitlines()) == COUNT + 1


def test_small_comforts(tmp_path):
    tabs = tmp_path / "in.tsv"
    tabs.write_text("when\tvalue\n" + "".join(f"x\t{value}\n" for value in VALUES))
    assert run("release", tabs, *BASE).exit_code == 0
    lines = "".join(json.dumps({"a": {"value": int(value)}}) + "\n" for value in VALUES)
    nested = ["--epsilon", "1", "--bound", "50", "--column", "a.value", "--quiet"]
    result = run("release", *nested, stdin=lines)  # JSON on standard input, nested keys
    assert result.exit_code == 0
    rows = [json.loads(line) for line in result.stdout.splitlines()]  # as the input
    assert [row["position"] for row in rows] == list(range(COUNT))
    assert "no key" not in result.stderr
    misspelt = run("release", *nested[:5], "a.valeu", "--quiet", stdin=lines)
    assert "no key 'a.valeu'" in misspelt.stderr
    config = tmp_path / "release.toml"
    config.write_text(
        'epsilon = 1\nbound = 50\npreset = "tops"\nholdout = 200\n'
        'start_early = 50\nrethreshold = "every=900"\n'
    )
    plain = ["--column", "value", "--quiet", "--config", config]
    result = run("release", write(tmp_path / "in.csv"), *plain)
    assert "start_early" not in result.stderr
    result = run("plan", "--epsilon", "1", "--threshold", "20", "--bound", "10")
    assert result.exit_code == 2
    assert "must not exceed the bound" in result.stderr
    with pytest.raises(tg.QueryError):
        tg.adaptive(epsilon=1, bound=5).start(tg.seeded(1)).query(0, 1)


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [("%d.%m.%Y %H:%M", "csv"), ("%m/%d/%y %I %p", "jsonl"), ("%d %b %Y %H:%M%z", "csv")],
)
def test_times_in_other_forms(tmp_path, pattern, kind):
    moments = [when.item() for when in WHEN]
    texts = [
        (when.replace(tzinfo=UTC) if "%z" in pattern else when).strftime(pattern)
        for when in moments
    ]
    source, output = tmp_path / f"in.{kind}", tmp_path / "out.csv"
    if kind == "csv":
        write(source, texts)
    else:
        rows = zip(texts, VALUES.tolist(), strict=True)
        source.write_text("".join(json.dumps({"when": a, "value": b}) + "\n" for a, b in rows))
    reading = ["--time", "when", "--time-format", pattern]
    result = run("release", source, "-o", output, *BASE, *reading)
    assert result.exit_code == 0, result.output
    times = np.concatenate([rows.times for rows in read_rows(output)])
    assert times.tolist() == WHEN.astype("datetime64[ns]").astype(np.int64).tolist()
    shown = run("check", source, "--column", "value", *reading).stdout
    assert "rows are in order of time" in shown
    assert f"--time-format '{pattern}'" in shown


def test_times_in_other_forms_are_refused_with_the_way_out(tmp_path):
    source, output = (
        write(tmp_path / "in.csv", [f"{at % 28 + 1}.2.2024" for at in range(COUNT)]),
        "-",
    )
    plain = ("release", source, "-o", output, *BASE, "--time", "when")
    assert "--time-format reads other forms" in run(*plain).stderr
    for pattern in ("%H:%M", "%d.%m", "%Q", "%d.%m.%Y %"):
        wrong = run(*plain, "--time-format", pattern)
        assert wrong.exit_code == 2
        assert "--time-format must be a pattern of strptime" in wrong.stderr
    other = run(*plain, "--time-format", "%m/%d/%Y")
    assert "time at position 0 does not match --time-format" in other.stderr
    alone = run("release", source, "-o", output, *BASE, "--time-format", "%d.%m.%Y")
    assert "--time-format needs --time" in alone.stderr
