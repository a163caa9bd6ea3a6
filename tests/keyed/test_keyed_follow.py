"""A file with keys that grows: rows come as it does, and the output can be asked meanwhile."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import tidegate as tg
from tests.cli.invoking import run
from tidegate.io import open_source
from tidegate.keyed.durable_folder import DurableKeyed
from tidegate.keyed.passage_to_file import KeyedTransferred
from tidegate.keyed.transfer import transfer_durably, transfer_keyed

PATIENCE = 60.0
READINGS = tg.tops(epsilon=1, bound=50, holdout=4, horizon=64, fanout=4)
COUNTS = tg.events(epsilon=1, every="1h", start="2024-01-01", horizon=240)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not come in time"
        time.sleep(0.01)


def lines(first: int, last: int) -> str:
    return "".join(f"2024-01-01T00:{at:02}:00,{'ab'[at % 2]},{at}\n" for at in range(first, last))


def followed(
    folder: Path,
    pipeline: tg.Pipeline,
    meanwhile: Callable[[], None],
    *,
    durable: bool,
    **into: Any,
) -> KeyedTransferred:
    """Release the file while `meanwhile` runs beside it; then the source comes to its end."""
    specification = tg.keyed(pipeline, keys=["a", "b"])
    reading: dict[str, Any] = {"column": "watts"} if pipeline is READINGS else {"count": True}
    problems: list[BaseException] = []

    def beside() -> None:
        try:
            meanwhile()
        except BaseException as error:  # noqa: BLE001  # raised again below
            problems.append(error)
        finally:
            source.close()

    with ExitStack() as stack:
        source = stack.enter_context(
            open_source(
                folder / "in.csv", by="who", time="when", late="keep", follow=True, **reading
            )
        )
        thread = threading.Thread(target=beside)
        thread.start()
        try:
            if durable:
                state = stack.enter_context(DurableKeyed.open(folder / "state", specification))
                result = transfer_durably(source, state, folder / "out.csv", **into)
            else:
                result = transfer_keyed(source, specification.start(), folder / "out.csv", **into)
        finally:
            thread.join()
    if problems:
        raise problems[0]
    return result


def rows_in(path: Path) -> int:
    return path.read_bytes().count(b"\n") - 1 if path.exists() else 0


@pytest.mark.parametrize("durable", [False, True])
def test_rows_come_as_the_file_grows(tmp_path: Path, durable: bool) -> None:
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("when,who,watts\n" + lines(0, 20))
    seen = []

    def grow() -> None:
        wait_for(lambda: rows_in(output) == 12)  # each key chose its θ by 4 rows
        wait_for(lambda: Path(f"{output}.meta.json").exists())
        seen.append(tg.open(output).query(0, 6, keys=["a"]).estimate)
        with source.open("a") as file:
            file.write(lines(20, 30) + "2024-01-01T00:30:00,a")  # a line that is not over
        wait_for(lambda: rows_in(output) == 22)

    result = followed(tmp_path, READINGS, grow, durable=durable)
    assert (result.read, result.released, result.keys) == (30, 22, 2)
    first = output.read_bytes()
    assert seen == [tg.open(output).query(0, 6, keys=["a"]).estimate]
    if durable:  # the same command goes on where it stopped
        with source.open("a") as file:
            file.write(",7\n")
        result = followed(
            tmp_path, READINGS, lambda: wait_for(lambda: rows_in(output) == 23), durable=True
        )
        assert (result.read, result.released) == (31, 23)
        assert output.read_bytes().startswith(first)


@pytest.mark.parametrize("durable", [False, True])
def test_ticks_of_all_keys_end_with_the_clock(tmp_path: Path, durable: bool) -> None:
    source, output, hour = tmp_path / "in.csv", tmp_path / "out.csv", [2]
    source.write_text("when,who\n2024-01-01T01:10:00,a\n")

    def grow() -> None:
        wait_for(lambda: rows_in(output) == 4)  # two ticks of two keys, although b had no event
        hour[0] = 5
        wait_for(lambda: rows_in(output) == 10)

    result = followed(
        tmp_path, COUNTS, grow, durable=durable, until=lambda: f"2024-01-01T{hour[0]:02}:00"
    )
    assert (result.released, result.keys) == (10, 2)


def test_a_signal_ends_the_command_tidily(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("when,who,watts\n" + lines(0, 20))
    (tmp_path / "keys.txt").write_text("a\nb\n")
    output = tmp_path / "out.csv"

    def stop() -> None:
        wait_for(lambda: rows_in(output) == 12)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=stop)
    thread.start()
    words = ["release", tmp_path / "in.csv", "--by", "who", "--keys", tmp_path / "keys.txt"]
    words += ["--column", "watts", "--time", "when", "--epsilon", 1, "--bound", 50, "-o", output]
    result = run(*words, "--preset", "tops", "--holdout", 4, "--horizon", 64, "--follow")
    thread.join()
    assert result.exit_code == 0, result.stderr
    assert "released 12 of 20 rows, of 2 keys" in result.stderr
    assert len(tg.open(output).columns()["value"]) == 12
