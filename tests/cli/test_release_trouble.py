"""Bad input, full disks, closed pipes, signals: a clear message, a code, and nothing lost.

The planted secret must not be in any message; what was released before the trouble must be whole.
"""

import gzip
import json
import os
import select
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.depth import depth, in_turn
from tidegate.cli.app import app
from tidegate.io import read_metadata, read_released

SECRET = "s3cr3t-8675309"
VALUES = np.random.default_rng(1).integers(0, 100, 5000)
# Far longer than any of this takes: on a loaded machine slowness is no failure.
PATIENCE = 240.0
SETTINGS = ["--epsilon", "1", "--bound", "100", "--holdout", "100", "--horizon", "256"]
SETTINGS += ["--preset", "tops"]


def command(*arguments):
    return [sys.executable, "-m", "tidegate", "release", *map(str, arguments), *SETTINGS]


def run(*arguments):
    """The command, in this process: what it prints, and the code it ends with."""
    words = [str(word) for word in arguments]
    result = CliRunner().invoke(app, ["release", *words, *SETTINGS], prog_name="tidegate")
    ended = result.exception is None or isinstance(result.exception, SystemExit)
    assert ended, f"a traceback: {result.exception!r}"
    return SimpleNamespace(
        returncode=result.exit_code, stdout=result.stdout_bytes, stderr=result.stderr_bytes
    )


def run_apart(*arguments, prefix=()):
    """The command as a process of its own."""
    return subprocess.run(
        [*prefix, *command(*arguments)], capture_output=True, timeout=PATIENCE, check=False
    )


def text(values, tail=""):
    return "value\n" + "".join(f"{value}\n" for value in values) + tail


def released(path):
    return sum(values.size for _, values in read_released(path))


def complained(result, code, *words):
    lines = result.stderr.decode().splitlines()
    message, *left = [line for line in lines if "(no --key-file" not in line]  # of a new state
    assert result.returncode == code, message
    assert len(left) <= 1  # rows that are out, what they have spent, how to go on
    assert all("released" in line or "have spent" in line for line in left)
    assert message.startswith("tidegate: ")
    assert SECRET not in result.stderr.decode()
    assert "Traceback" not in result.stderr.decode()
    for word in words:
        assert word in message, message


BAD_ROWS = {
    "text": f"{SECRET}\n",
    "text, then more": f"{SECRET}\n5\n6\n",
    "two fields": f"5,{SECRET}\n",
    "torn": f"7{SECRET}",
    "quoted": f'"{SECRET}"\n',
    "not UTF-8": "5\ud8007\n",
}


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_row_that_is_no_number(tmp_path, name, durable):
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    bad = text(VALUES[:1500]) + BAD_ROWS[name]
    source.write_bytes(bad.encode("utf-8", "surrogatepass"))
    state = ["--state", tmp_path / "state"] if durable else []
    result = run(source, "-o", output, *state)
    complained(result, 4, "1500")
    if not durable:  # nothing is spent on the rows before it
        assert not output.exists()
        return
    assert released(output) == 1400
    assert read_metadata(output)["released"] == 1400
    source.write_text(text(VALUES))  # mended, it goes on
    assert run(source, "-o", output, *state).returncode == 0
    assert released(output) == 4900


@pytest.mark.usefixtures("read_once")
@pytest.mark.parametrize("bad", [f'{{"value": "{SECRET}"}}', f'{{"value": {SECRET}', "[]"])
def test_bad_json_lines(tmp_path, bad):
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    rows = "".join(json.dumps({"value": int(value)}) + "\n" for value in VALUES[:300])
    source.write_text(rows + bad + "\n")
    complained(run(source, "-o", output, "--column", "value"), 4, "300")
    assert released(output) == 200


def test_a_torn_last_line_is_never_taken_for_a_number_and_then_changed(tmp_path):
    """A writer in mid-line: "12" of "123". Whatever is decided, the next run goes on."""
    source, output, state = (tmp_path / name for name in ("in.csv", "out.csv", "state"))
    source.write_text(text(VALUES[:200]) + "12")
    first = run(source, "-o", output, "--state", state)
    source.write_text(text(VALUES[:200]) + "123\n4\n")
    second = run(source, "-o", output, "--state", state)
    assert (first.returncode, second.returncode) in {(4, 0), (0, 3)}
    if second.returncode == 0:
        assert released(output) == 102


def test_columns_that_are_not_there(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("a,b\n1,2\n")
    complained(run(source, "--column", "watts"), 2, "column")
    complained(run(source), 4, "column")
    pq.write_table(pa.table({"a": [1], "b": [SECRET]}), tmp_path / "in.parquet")
    complained(run(tmp_path / "in.parquet", "--column", "watts"), 2, "column")
    result = run(tmp_path / "in.parquet", "--column", "b")
    assert result.returncode in (2, 4)
    assert SECRET not in result.stderr.decode()


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.9, 0.999])
def test_truncated_parquet(tmp_path, kept):
    source, output = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(pa.table({"value": VALUES}), source, row_group_size=1000)
    content = source.read_bytes()
    source.write_bytes(content[: int(kept * len(content))])
    complained(run(source, "-o", output), 4, "Parquet")


@pytest.mark.usefixtures("read_once")
def test_damaged_parquet_keeps_what_came_before(tmp_path):
    source, output = tmp_path / "in.parquet", tmp_path / "out.csv"
    table = pa.table({"value": np.random.default_rng(1).integers(0, 100, 600_000)})
    pq.write_table(table, source, row_group_size=100_000, compression="gzip")
    content = bytearray(source.read_bytes())
    half = len(content) // 2
    content[half : half + 2000] = os.urandom(2000)
    source.write_bytes(content)
    result = run(source, "-o", output)
    complained(result, 4)
    assert 0 < released(output) < 600_000


def test_truncated_gzip_keeps_what_came_before(tmp_path):
    source, output = tmp_path / "in.csv.gz", tmp_path / "out.csv"
    values = np.random.default_rng(1).integers(0, 10**9, 100_000)
    packed = gzip.compress(text(values).encode())
    source.write_bytes(packed[: len(packed) // 2])
    state = ("--state", tmp_path / "state")
    complained(run_apart(source, "-o", output, *state), 4, "gzip")  # once as a process, as used
    assert released(output) > 10_000


def test_files_that_cannot_be_read_or_written(tmp_path):
    complained(run(tmp_path / "missing.csv"), 4, "missing.csv")
    (tmp_path / "out.csv").write_text("position,value\n")
    again = ("-o", tmp_path / "out.csv", "--overwrite")
    complained(run(tmp_path / "missing.csv", *again), 4, "missing.csv")
    assert (tmp_path / "out.csv").read_text() == "position,value\n"
    (tmp_path / "folder.csv").mkdir()
    complained(run(tmp_path / "folder.csv"), 4, "directory")
    source = tmp_path / "in.csv"
    source.write_text(text(VALUES))
    complained(run(source, "-o", tmp_path / "no" / "out.csv"), 4, "no")
    complained(run(source, "-o", tmp_path / "folder.csv"), 4, "directory")
    if os.geteuid():
        source.chmod(0)
        complained(run(source), 4, "in.csv")


# -- full disk, closed pipe ------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [False, True])
def test_a_full_disk(tmp_path, durable):
    source = tmp_path / "in.csv"
    source.write_text(text(np.tile(VALUES, 4)))
    state = ["--state", tmp_path / "state"] if durable else []
    result = run(source, "-o", "/dev/full", "--output-format", "csv", *state)
    complained(result, 4, "full")


# Sets the limit and becomes the command: a fork of the threads of this process may not run Python.
LIMITED = (
    sys.executable,
    "-c",
    "import os, resource, sys\n"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, 120_000))\n"
    "os.execv(sys.argv[1], sys.argv[1:])\n",
)


@pytest.mark.parametrize("kind", in_turn(["csv", "parquet", "csv.gz"], 2, of=3))
def test_a_file_that_may_not_grow(tmp_path, kind):
    """RLIMIT_FSIZE stands for a full disk: after it is lifted, the same command completes."""
    source, output = tmp_path / "in.csv", tmp_path / f"out.{kind}"
    source.write_text(text(np.tile(VALUES, 10)))
    arguments = [source, "-o", output, "--state", tmp_path / "state", "--skipped", "0"]

    result = run_apart(*arguments, prefix=LIMITED)
    assert result.returncode == 4, result.stderr.decode()
    assert b"Traceback" not in result.stderr
    result = run(*arguments)
    assert result.returncode == 0, result.stderr.decode()
    assert released(output) == 49_900


def test_a_closed_pipe(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text(text(np.tile(VALUES, 40)))  # far more than a pipe holds
    with subprocess.Popen(
        command(source, "--state", tmp_path / "state"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"position,value,level\n"
        process.stdout.close()
        error = process.stderr.read().decode()
        assert process.wait(PATIENCE) == 4
    assert "Traceback" not in error
    assert "BrokenPipe" not in error
    again = run(source, "--state", tmp_path / "state", "-o", tmp_path / "out.csv")
    assert again.returncode == 0, again.stderr.decode()
    assert released(tmp_path / "out.csv") == 199_900


# -- pipes and signals -----------------------------------------------------------------------------


def wait_for(condition, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come in time"
        time.sleep(0.02)


def at_work(process, state):
    """Whether this process has the state open. An earlier one may have left SQLite's files."""
    log = state / "state.sqlite-wal"
    descriptors = Path(f"/proc/{process.pid}/fd")
    if not descriptors.is_dir():  # not Linux
        return log.exists()
    return log.exists() and any(is_link_to(link, log) for link in descriptors.iterdir())


def is_link_to(link, path):
    try:
        return link.samefile(path)
    except OSError:  # closed meanwhile, or a pipe
        return False


def read_line(process, seconds=PATIENCE):
    ready, _, _ = select.select([process.stdout], [], [], seconds)
    assert ready, "no answer in time"
    return process.stdout.readline()


@pytest.mark.parametrize("durable", in_turn([False, True], 0))
def test_a_piped_value_is_answered_at_once(tmp_path, durable):
    state = ["--state", tmp_path / "state"] if durable else []
    with subprocess.Popen(
        command("--skipped", "0", *state), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        process.stdin.write("".join(f"{value}\n" for value in VALUES[:101]).encode())
        assert read_line(process) == b"position,value,level\n"
        assert read_line(process).startswith(b"0,")
        for position in range(1, 40):  # each is answered while the pipe stays open
            process.stdin.write(b"50\n")
            assert read_line(process).startswith(b"%d," % position)
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_tidily_wherever_it_is(tmp_path, number):
    """Many restarts, each ended by a signal at another moment; the output is whole at the end."""
    source, output, state = (tmp_path / name for name in ("in.csv", "out.csv", "state"))
    source.write_text(text(VALUES))
    codes = set()
    for trial in depth((3,), (0, 3)):
        process = subprocess.Popen(
            command("-", "--state", state, "-o", output),
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        lines = text(VALUES).encode().splitlines(keepends=True)
        process.stdin.write(b"".join(lines[:1000]))
        process.stdin.flush()
        wait_for(partial(at_work, process, state))
        deadline = time.monotonic() + 0.07 * trial
        at = 1000
        while time.monotonic() < deadline and at < 4900:
            process.stdin.write(lines[at])
            process.stdin.flush()
            at += 1
        process.send_signal(number)
        try:
            _, error = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
        codes.add(process.returncode)
        assert b"Traceback" not in error, error.decode()
    # Python itself dies of SIGINT, which shells call 130 too, if the signal met it inside an `exec`
    # (dataclasses, while modules are imported), although we caught the exception.
    assert codes <= {130, -signal.SIGINT}
    result = run(source, "--state", state, "-o", output)
    assert result.returncode == 0, result.stderr.decode()
    assert released(output) == 4900


@pytest.mark.parametrize("durable", in_turn([False, True], 1))
def test_a_growing_file_is_followed_until_a_signal(tmp_path, durable):
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text(text(VALUES[:150]))
    state = ["--state", tmp_path / "state"] if durable else []
    with subprocess.Popen(
        command(source, "-o", output, "--follow", *state), stderr=subprocess.PIPE
    ) as process:
        wait_for(lambda: output.exists() and output.read_bytes().count(b"\n") == 51)
        with source.open("a") as file:
            file.write("".join(f"{value}\n" for value in VALUES[150:300]) + "4")
        wait_for(lambda: output.read_bytes().count(b"\n") == 201)
        process.terminate()
        error = process.stderr.read().decode()
        assert process.wait(PATIENCE) == 0, error
    assert "Traceback" not in error
    assert read_metadata(output)["released"] == 200
    if durable:  # the unfinished line was not read
        with source.open("a") as file:
            file.write("2\n")
        assert run(source, "-o", output, *state).returncode == 0
        assert released(output) == 201


# -- as a program ----------------------------------------------------------------------------------


def test_no_progress_bar_in_a_pipe(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text(text(VALUES))
    result = run_apart(source)
    assert result.stderr.count(b"\n") == 3  # the summary
    assert b"\x1b" not in result.stdout + result.stderr
