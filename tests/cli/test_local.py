"""`tidegate local`: devices with memories of their own, JSON lines, collect, announce, query."""

import gzip
import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import tidegate as tg
from tests.local.devices import reply
from tidegate.cli.app import app
from tidegate.io import read_metadata, read_released
from tidegate.local.announcements_and_reports import Announcement
from tidegate.local.device_memory import Memory
from tidegate.local.integer_weights import WORDS
from tidegate.local.questions import Question
from tidegate.local.topl import Topl
from tidegate.randomness import KeystreamWords
from tidegate.settings import digest

# Without the linear program of the default report, which takes a while in every new process.
REPORT = {"report": "hybrid"}
SETTINGS: dict[str, Any] = {"epsilon": 2, "bound": 500, "holdout": 100, "horizon": 2**12, **REPORT}
OPTIONS = ["--epsilon", "2", "--bound", "500", "--holdout", "100", "--horizon", "4096"]
OPTIONS += ["--report", "hybrid"]
GIVEN = ["--epsilon", "1", "--bound", "100", "--threshold", "40", "--report", "hybrid"]


def run(*words: Any, stdin: str | bytes | None = None) -> Result:
    result = CliRunner().invoke(app, ["local", *map(str, words)], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def done(*words: Any, stdin: str | bytes | None = None) -> str:
    result = run(*words, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


def announced(state: Path, *options: Any) -> list[Announcement]:
    lines = done("announce", state, *options).splitlines()
    return [Announcement.from_json(line) for line in lines]


def report(asked: Announcement, client: str, answer: int = 0) -> str:
    return reply(asked, client, answer).json()


def lines(count: int, asked: Announcement, first: int = 0) -> str:
    domain = asked.question.reports
    return "".join(f"{report(asked, f'c{n}', n % domain)}\n" for n in range(first, first + count))


# -- from end to end ------------------------------------------------------------------------------


def simulated_words(
    questions: list[Question], count: int, stream: KeystreamWords
) -> list[list[int]]:
    """The words that the simulation gives to each of `count` devices, asked in rotation.

    Of a 64-bit word, a device takes the upper half first; words that are not below the total of
    its question are replaced, in the order in which the simulation replaces them.
    """
    words: list[list[int]] = [[] for _ in range(count)]
    for index, question in enumerate(questions):
        again = [*range(index, count, len(questions))]
        for device, both in zip(again, stream.take(len(again)).tolist(), strict=True):
            words[device] = [both >> 32, both & (WORDS - 1)]
        total = getattr(question, "total", WORDS)
        while again := [device for device in again if words[device][-1] >= total]:
            for device, both in zip(again, stream.take(len(again)).tolist(), strict=True):
                words[device].append(both & (WORDS - 1))
    return words


def test_devices_to_answers_is_what_the_simulation_says(tmp_path: Path) -> None:
    """Announce → devices with files of their own → JSON lines → collect, round after round; given
    the words of the simulation, to the bit."""
    state, topl, seed = tmp_path / "state.db", Topl(**SETTINGS, keep_asking=False), 11
    values = tg.synthetic.baskets(180, seed=4)
    simulation = topl.simulate(values, tg.seeded(seed))
    keystream = (
        tg.seeded(seed).new_epoch().keystream("local/topl_simulation", digest(topl.settings()))
    )
    asked = announced(state, *OPTIONS, "--no-keep-asking")
    left, position, batch = topl.collection().left, 0, 0
    while position < values.size:
        count = values.size - position if left is None else min(left, values.size - position)
        questions = [announcement.question for announcement in asked]
        words = simulated_words(questions, count, keystream.at(chunk=batch))
        with (tmp_path / f"reports-{batch}.jsonl").open("w") as file:
            for device in range(count):
                with Memory.open(tmp_path / f"device-{position + device}.json") as memory:
                    client = topl.client(memory)
                    client._words = lambda _, given=words[device]: iter(given).__next__  # type: ignore[method-assign]
                    announcement = asked[device % len(asked)].json()
                    file.write(client.answer(announcement, values[position + device]).json() + "\n")
        said = json.loads(done("collect", state, file.name, "--json"))
        assert (said["accepted"], said["rejected"]) == (count, {})
        left, position, batch = said["left"], position + count, batch + 1
        asked = announced(state)
    assert batch == 6
    assert said["threshold"] == simulation.threshold
    assert said["published"] == simulation.released.size == 80
    answers = json.loads(done("query", state, 10, 75, "--json"))
    expected = simulation.query(10, 75)
    (answer,) = answers["answers"]
    for name in ("estimate", "low", "high", "standard_error"):
        assert answer[name] == getattr(expected, name)
    assert answers["guarantee"] == "ε = 2 per event (exact arithmetic, local model)"
    # The devices have their reports on their disks: asked again, they send the same.
    with Memory.open(tmp_path / "device-0.json") as memory:
        (pin,) = memory.pins
        assert f'"{pin.client}"' in (tmp_path / "reports-0.jsonl").read_text()


def test_devices_of_a_whole_survey(tmp_path: Path) -> None:
    """Through every round, those in the stream too; late devices are told from early ones."""
    state, topl = tmp_path / "state.db", Topl(**SETTINGS)
    asked, taken, late = announced(state, *OPTIONS), 0, 0
    while asked[0].phase == "threshold" or len(asked) > 1:
        batch = [
            topl.client(Memory.volatile()).answer(asked[n % len(asked)], (n * 7) % 60).json()
            for n in range(90)
        ]
        said = json.loads(done("collect", state, "--json", stdin="\n".join(batch)))
        assert said["accepted"] + said["rejected"].get("late", 0) == 90
        taken, late = taken + said["accepted"], late + said["rejected"].get("late", 0)
        asked = announced(state)
    assert said["accepted_in_all"] == taken == 612
    assert late > 0
    assert said["published"] == 512
    assert said["left"] == 4096 - 512  # until the next horizon begins


# -- announce -------------------------------------------------------------------------------------


def test_announcements_are_lines_and_stay_the_same(tmp_path: Path) -> None:
    state = tmp_path / "state.db"
    first = announced(state, *OPTIONS)
    assert [asked.slot for asked in first] == [*range(len(first))]
    assert {asked.phase for asked in first} == {"threshold"}
    assert announced(state) == first
    assert announced(state, *OPTIONS) == first
    (again, *_) = announced(state, "--next-round")
    assert again.round != first[0].round
    assert again.question == first[0].question


def test_settings_begin_a_collection_and_cannot_be_changed(tmp_path: Path) -> None:
    state = tmp_path / "state.db"
    for options, named in (([], "epsilon"), (["--epsilon", "1"], "bound")):
        result = run("announce", state, *options)
        assert (result.exit_code, state.exists()) == (2, False)
        assert named in result.stderr
    announced(state, *GIVEN)
    for option, value in (("--epsilon", "2"), ("--threshold", "41"), ("--no-keep-asking", None)):
        result = run("announce", state, option, *([value] if value else []))
        assert result.exit_code == 2, result.output
        assert option.strip("-").removeprefix("no-") in result.stderr
    announced(state, "--epsilon", "1.0")


@pytest.mark.parametrize("option", [["--epsilon", "0"], ["--epsilon", "nan"], ["--bound", "-1"]])
def test_bad_settings_leave_no_file(tmp_path: Path, option: list[str]) -> None:
    result = run("announce", tmp_path / "state.db", *GIVEN, *option)
    assert result.exit_code == 2
    assert option[0].strip("-") in result.stderr
    assert list(tmp_path.iterdir()) == []


# -- collect --------------------------------------------------------------------------------------


@pytest.fixture
def state(tmp_path: Path) -> Path:
    path = tmp_path / "state.db"
    announced(path, *GIVEN)
    return path


def test_collecting_again_takes_nothing_twice(tmp_path: Path, state: Path) -> None:
    (asked,) = announced(state)
    file = tmp_path / "reports.jsonl"
    file.write_text(lines(50, asked))
    assert "accepted   50 reports, 50 in all" in done("collect", state, file)
    with file.open("a") as more:
        more.write(lines(20, asked, 50))
    said = done("collect", state, file)
    assert "accepted   20 reports, 70 in all" in said
    assert "rejected   50 duplicate" in said
    assert "published  70 values" in said
    assert "threshold  40" in said


def test_rejected_lines_are_counted_by_reason_and_the_rest_is_taken(state: Path) -> None:
    (asked,) = announced(state)
    good = report(asked, "a")
    plain = json.loads(good)
    text = [
        good,
        good,
        "",
        "no report",
        json.dumps({**plain, "tidegate": 7}),
        json.dumps({**plain, "client": "b", "report": 10**6}),
        json.dumps({**plain, "client": "c", "round": "old"}),
        json.dumps({**plain, "client": "d", "slot": 3}),
        json.dumps({**plain, "client": "e", "phase": "threshold"}),
        json.dumps({**plain, "client": "f", "epsilon": "9"}),
        report(asked, "g", 1),
        good[:20],  # torn
    ]
    said = json.loads(done("collect", state, "--json", stdin="\n".join(text)))
    assert said["accepted"] == 2
    assert said["rejected"] == {
        "duplicate": 1,
        "malformed": 2,
        "version": 1,
        "domain": 1,
        "round": 1,
        "slot": 1,
        "phase": 1,
        "epsilon": 1,
    }
    assert said["rejected_at"]["1"] == "duplicate"
    assert said["rejected_at"]["2"] == "malformed"
    assert len(said["rejected_at"]) == 9
    again = json.loads(done("collect", state, "--json", stdin="also no report"))
    assert again["rejected_in_all"]["malformed"] == 3
    assert again["rejected"] == {"malformed": 1}


def test_compressed_reports(tmp_path: Path, state: Path) -> None:
    (asked,) = announced(state)
    file = tmp_path / "reports.jsonl.gz"
    file.write_bytes(gzip.compress(lines(30, asked).encode()))
    assert "accepted   30" in done("collect", state, file)


def test_what_cannot_be_read_has_its_exit_code(tmp_path: Path, state: Path) -> None:
    assert run("collect", tmp_path / "none.db", stdin="").exit_code == 4
    assert run("collect", state, tmp_path / "none.jsonl").exit_code == 4
    assert run("collect", state, tmp_path / "reports.csv").exit_code == 4
    (tmp_path / "other.db").write_text("something else")
    result = run("collect", tmp_path / "other.db", stdin="")
    assert result.exit_code == 3
    assert "no state of a server" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_line_without_end_does_not_fill_the_memory(state: Path) -> None:
    result = run("collect", state, stdin=b"x" * (17 << 20))
    assert result.exit_code == 4
    assert "longer than any report" in result.stderr


KILLED = """
import os, sys
from tidegate.cli import report_lines
from tidegate.cli.app import app
real = report_lines.read_lines

def killed(incoming):
    for number, lines in enumerate(real(incoming)):
        if number == 2:
            os._exit(9)
        yield lines

report_lines.read_lines = killed
sys.argv = ["tidegate", "local", "collect", sys.argv[1], sys.argv[2]]
app()
"""


def test_a_killed_collection_is_completed_by_the_same_command(tmp_path: Path, state: Path) -> None:
    (asked,) = announced(state)
    file = tmp_path / "reports.jsonl"
    count = 20_000  # more than two blocks of a megabyte
    file.write_text(lines(count, asked))
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(state), str(file)], check=False, capture_output=True
    )
    assert killed.returncode == 9, killed.stderr
    said = json.loads(done("collect", state, file, "--json"))
    taken = said["rejected"]["duplicate"]
    assert 0 < taken < count
    assert said["accepted"] == count - taken
    assert said["accepted_in_all"] == said["published"] == count


# -- query ----------------------------------------------------------------------------------------


@pytest.fixture
def collected(state: Path) -> Path:
    (asked,) = announced(state)
    done("collect", state, stdin=lines(400, asked))
    return state


def test_a_query_shows_sum_interval_and_guarantee(collected: Path) -> None:
    text = done("query", collected, 0, 400)
    assert text.splitlines()[0].split() == ["range", "sum", "95", "%", "interval", "std.", "error"]
    assert text.splitlines()[2].startswith("[0, 400)")
    low, high = (
        json.loads(done("query", collected, 0, 400, "--json"))["answers"][0][end]
        for end in ("low", "high")
    )
    assert f"{low:,.0f} to {high:,.0f}" in text  # the interval of --json, not half of its width
    assert "Sums of values capped at 40" in text
    assert "ε = 1 per event (exact arithmetic, local model)." in text


def test_queries_of_a_file_and_as_json(tmp_path: Path, collected: Path) -> None:
    ranges = tmp_path / "ranges.csv"
    ranges.write_text("start,end\n0,100\n100,400\n0,400\n")
    words = ("query", collected, "--ranges", ranges, "--confidence", "0.9", "--json")
    said = json.loads(done(*words, "--malicious", "0.1"))
    first, second, whole = (answer["estimate"] for answer in said["answers"])
    assert first + second == pytest.approx(whole)
    assert said["confidence"] == 0.9
    with Topl(epsilon=1, bound=100, threshold=40, **REPORT).server(collected) as server:
        expected = server.query(0, 400, 0.9)
        bound = server.poisoning_bound(0.1)
    last = said["answers"][2]
    assert (last["low"], last["high"]) == (expected.low, expected.high)
    assert last["malicious_expected"] == bound.expected(400)
    assert last["malicious_sure"] == bound.sure(400)
    assert "malicious" in done("query", collected, 0, 400, "--malicious", "0.1")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((0, 401), 2),
        ((5, 3), 2),
        ((-1, 3), 2),
        ((0, 10, "--confidence", "1.5"), 2),
        ((0, 10, "--malicious", "2"), 2),
        (("--ranges", "none.csv"), 4),
    ],
)
def test_wrong_ranges(collected: Path, words: tuple[Any, ...], code: int) -> None:
    result = run("query", collected, *words)
    assert result.exit_code == code, result.output
    assert len(result.stderr.splitlines()) == 1 or "Usage" in result.stderr


def test_nothing_can_be_asked_before_there_is_a_threshold(tmp_path: Path) -> None:
    announced(tmp_path / "state.db", *OPTIONS)
    assert run("query", tmp_path / "state.db", 0, 1).exit_code == 2
    assert run("query", tmp_path / "none.db", 0, 1).exit_code == 4


# -- simulate -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_simulation_publishes_what_the_library_does(tmp_path: Path, kind: str) -> None:
    values = tg.synthetic.baskets(900, seed=2)
    source, output = tmp_path / "values.csv", tmp_path / f"out.{kind}"
    source.write_text("fare\n" + "".join(f"{value}\n" for value in values))
    words = ("simulate", source, "--column", "fare", "-o", output, *OPTIONS, "--seed", "5")
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert "simulation" in result.stderr
    expected = Topl(**SETTINGS).simulate(values, tg.seeded(5))
    written = np.concatenate([piece for _, piece in read_released(output)])
    np.testing.assert_allclose(written, expected.released, rtol=1e-9)
    facts = read_metadata(output)
    assert facts is not None
    assert facts["simulation"] is True
    assert facts["guarantee"].startswith("none (simulation)")
    assert facts["threshold"] == expected.threshold
    assert (facts["holdout"], facts["released"]) == (100, 800)
    assert facts["model"] == "local"


def test_a_simulation_is_stamped_with_fresh_noise_too_and_differs(tmp_path: Path) -> None:
    source = tmp_path / "values.csv"
    source.write_text("value\n" + "7\n" * 200)
    outputs = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for output in outputs:
        assert run("simulate", source, "-o", output, *GIVEN).exit_code == 0
        facts = read_metadata(output)
        assert facts is not None
        assert facts["guarantee"].startswith("none (simulation)")
    assert outputs[0].read_text() != outputs[1].read_text()
    assert len(outputs[0].read_text().splitlines()) == 201


def test_a_simulation_from_pipe_to_pipe() -> None:
    result = run("simulate", *GIVEN, stdin="value\n" + "7\n" * 30)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "position,value"
    assert len(result.stdout.splitlines()) == 31


def test_a_simulation_that_is_too_short_says_so(tmp_path: Path) -> None:
    result = run("simulate", "-o", tmp_path / "out.csv", *OPTIONS, stdin="value\n1\n2\n")
    assert result.exit_code == 0
    assert "100 values" in result.stderr


def test_bad_input_to_a_simulation(tmp_path: Path) -> None:
    result = run("simulate", *GIVEN, stdin="value\nsecret\n")
    assert result.exit_code == 4
    assert "secret" not in result.output
    assert run("simulate", tmp_path / "none.csv", *GIVEN).exit_code == 4
    assert run("simulate", "--epsilon", "1", stdin="value\n1\n").exit_code == 2


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_rehearsal_replaces_rehearsals_only(tmp_path: Path, suffix: str) -> None:
    output = tmp_path / f"out.{suffix}"
    stdin = "value\n" + "7\n" * 300
    for _ in range(2):
        assert run("simulate", "-o", output, *GIVEN, stdin=stdin).exit_code == 0
    output.unlink()
    given = ("--epsilon", "1", "--bound", "50", "--holdout", "100", "-o", str(output))
    assert CliRunner().invoke(app, ["release", *given], input=stdin).exit_code == 0
    before = output.read_bytes()
    result = run("simulate", "-o", output, *GIVEN, stdin=stdin)
    assert result.exit_code == 2
    assert "no rehearsal" in result.stderr
    assert output.read_bytes() == before


def test_a_simulation_is_not_taken_for_a_release(tmp_path: Path) -> None:
    output = tmp_path / "out.csv"
    assert run("simulate", "-o", output, *GIVEN, stdin="value\n" + "7\n" * 50).exit_code == 0
    result = CliRunner().invoke(app, ["query", str(output), "0", "10"])
    assert result.exit_code == 0
    assert "A rehearsal: one process played all devices." in result.stdout


@pytest.mark.parametrize("command", ["announce", "simulate"])
def test_every_setting_is_an_option(command: str) -> None:
    shown = done(command, "--help")
    for field in fields(Topl):
        assert f"--{field.name.replace('_', '-')}" in shown


def test_questions_that_go_by_name(tmp_path: Path) -> None:
    state, topl = tmp_path / "state.db", Topl(**SETTINGS)
    asked = announced(state, *OPTIONS, "--by-name")
    devices = [topl.client(Memory.volatile(), name=f"device-{index}") for index in range(9)]
    reports = [device.answer(device.pick(asked), 17).json() for device in devices]
    said = json.loads(done("collect", state, "--json", stdin="\n".join(reports)))
    assert (said["accepted"], said["rejected"]) == (9, {})
    others = [topl.client(Memory.volatile(), name=f"other-{index}") for index in range(9)]
    reports = [device.answer(asked[0], 17).json() for device in others]
    said = json.loads(done("collect", state, "--json", stdin="\n".join(reports)))
    assert said["rejected"]["assignment"] == 9 - said["accepted"] > 0  # of nine questions
