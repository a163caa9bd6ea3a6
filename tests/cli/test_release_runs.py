"""`tidegate release` on files: every kind in and out, options and TOML, exit codes."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
import zstandard
from typer.testing import CliRunner

from tidegate.cli import release as command
from tidegate.io import read_metadata, read_released

app = typer.Typer()
app.command("release")(command.release)

KINDS = ["csv", "csv.gz", "csv.zst", "jsonl", "jsonl.gz", "jsonl.zst", "parquet"]
VALUES = np.random.default_rng(1).integers(0, 100, 700)
SETTINGS = ["--epsilon", "1", "--bound", "100", "--holdout", "100", "--horizon", "256"]


def run(*arguments, stdin=None, settings=SETTINGS):
    preset = [] if "--config" in arguments else ["--preset", "tops"]
    words = [*preset, *map(str, arguments), *settings]
    result = CliRunner().invoke(app, words, input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def write(path, values=VALUES, column="value"):
    kind = path.name.partition(".")[2]
    if kind == "parquet":
        pq.write_table(pa.table({column: values}), path)
        return path
    if kind.startswith("csv"):
        text = f"{column}\n" + "".join(f"{value}\n" for value in values)
    else:
        text = "".join(json.dumps({column: int(value)}) + "\n" for value in values)
    data = text.encode()
    data = gzip.compress(data) if kind.endswith("gz") else data
    path.write_bytes(zstandard.compress(data) if kind.endswith("zst") else data)
    return path


def rows(path):
    pieces = list(read_released(path))
    return np.concatenate([values for _, values in pieces]) if pieces else np.empty(0)


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("into", KINDS)
@pytest.mark.parametrize("kind", ["csv", "jsonl.zst", "parquet"])
def test_every_kind_in_and_out(tmp_path, kind, into, durable):
    source, output = write(tmp_path / f"in.{kind}"), tmp_path / f"out.{into}"
    state = ["--state", tmp_path / "state"] if durable else []
    result = run(source, "--column", "value", "-o", output, *state)
    assert result.exit_code == 0, result.output
    assert rows(output).size == 600
    facts = read_metadata(output)
    assert facts["released"] == 600
    assert facts["epsilon"] == "1"
    assert len(facts["phases"]) == 1
    if durable:  # again: nothing changes
        before = output.read_bytes()
        assert run(source, "--column", "value", "-o", output, *state).exit_code == 0
        assert output.read_bytes() == before


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_read(tmp_path, kind):
    source = write(tmp_path / f"in.{kind}")
    result = run(source, "--column", "value", "--skipped", "0", "--quiet")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    if kind.startswith("jsonl"):  # the output follows the input
        rows = [json.loads(line) for line in lines]
        assert [row["position"] for row in rows] == list(range(600))
        assert set(rows[0]) == {"position", "value", "level"}
        return
    assert lines[0] == "position,value,level"
    assert [line.partition(",")[0] for line in lines[1:]] == [str(row) for row in range(600)]


def test_standard_input_to_standard_output():
    text = "".join(f"{value}\n" for value in VALUES)
    result = run(stdin=text)
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 601
    result = run("-", "--output-format", "jsonl", stdin=text)
    assert json.loads(result.stdout.splitlines()[-1])["position"] == 599


def test_format_of_the_input_may_be_told(tmp_path):
    path = write(tmp_path / "in.jsonl").rename(tmp_path / "in.log")
    assert run(path, "--column", "value").exit_code == 2
    assert run(path, "--column", "value", "--format", "jsonl").exit_code == 0


def test_an_empty_input_and_a_hold_out_longer_than_the_input(tmp_path):
    for count in (0, 50):
        source, output = write(tmp_path / "in.csv", VALUES[:count]), tmp_path / f"out{count}.csv"
        result = run(source, "-o", output)
        assert result.exit_code == 5
        assert ("50 more rows" if count else "no rows") in result.stderr
        assert not output.exists()
        assert run(source, "-o", output, "--quiet").stderr == result.stderr


def test_a_hold_out_filled_over_several_runs(tmp_path):
    state, output = tmp_path / "state", tmp_path / "out.csv"
    for count in (0, 50, 99, 100, 101, 300):
        write(tmp_path / "in.csv", VALUES[:count])
        result = run(tmp_path / "in.csv", "-o", output, "--state", state)
        assert result.exit_code == (0 if count > 100 else 5), result.output
        assert output.exists() == (count >= 100)  # a threshold that was chosen is in its facts
        if output.exists():
            assert rows(output).size == count - 100


# -- options ---------------------------------------------------------------------------------------


def test_a_config_file_says_the_same(tmp_path):
    source = write(tmp_path / "in.csv")
    config = tmp_path / "release.toml"
    config.write_text(
        'epsilon = 1\nbound = 100\nholdout = 100\nhorizon = 256\ncolumn = "value"\n'
        f'output = "{tmp_path / "out.csv"}"\nnon-negative = true\nquiet = true\nskipped = 0\n'
        'rethreshold = "every=150,share=1/4"\npreset = "tops"\n'
    )
    result = run(source, "--config", config, settings=[])
    assert result.exit_code == 0, result.output
    assert result.output == ""
    facts = read_metadata(tmp_path / "out.csv")
    assert facts["settings"]["non_negative"] is True
    assert len(facts["phases"]) == 1 + 600 // 150


def test_the_command_line_wins_over_the_config(tmp_path):
    source = write(tmp_path / "in.csv")
    config = tmp_path / "release.toml"
    config.write_text("epsilon = 7\nbound = 100\nholdout = 100\nhorizon = 256\n")
    output = tmp_path / "out.csv"
    run(source, "--config", config, "-o", output, settings=[])
    assert read_metadata(output)["epsilon"] == "7"
    more = ("--epsilon", "0.5", "--overwrite")
    run(source, "--config", config, "-o", output, *more, settings=[])
    assert read_metadata(output)["epsilon"] == "1/2"


@pytest.mark.parametrize(
    "line",
    [
        "nope = 1",
        "output = 3",
        'preset = ["tops"]',
        'preset = "best"',
        "estimator = {a = 1}",
        'follow = "no"',
        'quiet = "false"',
        'non-negative = "no"',
        "non-negative = 1",
        'holdout = "many"',
        "holdout = 1.5",
        "holdout = -3",
        "epsilon = [1]",
        "epsilon = true",
        "epsilon = 0",
        "epsilon = nan",
        'bound = "large"',
        'unit = "fortnight"',
        "unit = 5",
        'rethreshold = "sometimes"',
        'rethreshold = "every=²"',
        'rethreshold = "every=500,share=2"',
        "format = 3",
        "[epsilon]\nvalue = 1",
        'emit = "some"',
        "cap = 1",
        "not toml at all",
        "epsilon = 1\nepsilon = 2",
    ],
)
def test_a_wrong_config_is_told_with_exit_code_2(tmp_path, line):
    config = tmp_path / "release.toml"
    config.write_text(line + "\n")
    name = line.split()[0].strip("[]")
    settings = [
        part
        for option, value in zip(SETTINGS[::2], SETTINGS[1::2], strict=True)
        if option != f"--{name}"
        for part in (option, value)
    ]
    source = write(tmp_path / "in.csv")
    result = run(source, "--config", config, "--column", "value", settings=settings)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("tidegate: ")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["--epsilon", "-1"],
        ["--epsilon", "ten"],
        ["--unit", "user-horizon:4"],
        ["--user-column", "user"],
        ["--unit", "window:0"],
        ["--estimator", "magic"],
        ["--preset", "pak", "--unit", "window:3"],
        ["--delta", "0.1"],
        ["--cap", "1"],
        ["--new-epoch"],
        ["--emit", "new"],
        ["--stdin", "continues"],
        ["--rethreshold", "every=10"],
        ["--output-format", "xml"],
        ["--column", "volts"],
        ["--follow", "--format", "parquet"],
    ],
)
def test_wrong_options_are_told_with_exit_code_2(tmp_path, arguments):
    source = write(tmp_path / "in.csv")
    settings = [*SETTINGS, "--column", "value"] if "--column" not in arguments else SETTINGS
    result = run(source, *arguments, settings=[*settings, *arguments])
    assert result.exit_code == 2, result.output


def test_what_is_missing_is_named(tmp_path):
    source = write(tmp_path / "in.csv")
    result = run(source, settings=["--bound", "100"])
    assert (result.exit_code, "--epsilon" in result.stderr) == (2, True)


def test_the_output_is_never_the_input(tmp_path):
    source = write(tmp_path / "in.csv")
    before = source.read_bytes()
    (tmp_path / "link.csv").symlink_to(source)
    for output in (source, tmp_path / "link.csv"):
        assert run(source, "-o", output).exit_code == 2
        assert source.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "guarantee"),
    [
        (["--unit", "event"], "per event"),
        (["--unit", "window:60"], "per window of 60 consecutive values"),
        (["--preset", "pak", "--delta", "1e-9"], "δ = 1e-09 per event"),
    ],
)
def test_the_guarantee_is_in_the_facts(tmp_path, arguments, guarantee):
    output = tmp_path / "out.csv"
    assert run(write(tmp_path / "in.csv"), "-o", output, *arguments).exit_code == 0
    assert guarantee in read_metadata(output)["guarantee"]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_users_are_capped(tmp_path, kind):
    """With a huge budget the output is the truth, but for values beyond the limit, which are 0."""
    count = 300
    users = [f"u{index % 7}" for index in range(count)]
    path = tmp_path / f"in.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"v": [90] * count, "who": users}), path)
    elif kind == "csv":
        path.write_text("who,v\n" + "".join(f"{user},90\n" for user in users))
    else:
        path.write_text("".join(f'{{"v": 90, "who": "{user}"}}\n' for user in users))
    output = tmp_path / "out.csv"
    result = run(
        path, "--column", "v", "--user-column", "who", "--unit", "user-horizon:2", "-o", output,
        settings=["--epsilon", "4000", "--bound", "100", "--holdout", "14", "--horizon", "64",
                  "--skipped", "0"],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    released = rows(output)
    counted = np.flatnonzero(released > 45)
    assert (np.bincount(counted // 64)[: released.size // 64] == 14).all()  # 7 users, 2 each
    assert counted[:14].tolist() == list(range(14))
