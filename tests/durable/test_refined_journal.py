"""A release whose warm-up is released: on the disk, in files, and on the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import tidegate as tg
from tests.adaptive.test_refined_release import PIPELINE, growing
from tests.laws.catalogue import bits
from tidegate.cli.app import app
from tidegate.cli.exit_codes_and_signals import NOTHING
from tidegate.durable import DurableRelease, transfer
from tidegate.durable.charging import charged_costs
from tidegate.durable.output_writer import OutputTarget, OutputWriter
from tidegate.durable.release_in_memory import ReleaseInMemory
from tidegate.released import ReleasedFile
from tidegate.run.snapshot import plain_record_snapshot


def test_rows_are_durable_before_they_leave_and_are_replayed(tmp_path) -> None:
    """Killed anywhere (warm-ups of both kinds among it): the journal has what was handed out."""
    values, published, start = growing(), [], 0
    for end in (5, 11, 60, 252, 259, 266, 268, 300, 420, 900):
        with DurableRelease.open(tmp_path, PIPELINE) as run:
            first, out = run.push(values[start:end])
            assert first == start
            published.append(out)
            live = run._release
            if live.threshold is None:
                assert run.warming == live.warming > 0
                assert run.facts()["phases"] == []
                with pytest.raises(tg.QueryError, match="warm-up needs"):
                    run.query(0, 5)
        start = end
    with DurableRelease.open(tmp_path, PIPELINE) as run:
        replayed = np.concatenate([values for _, values in run.replay()])
        assert bits(replayed) == bits(np.concatenate(published))
        record = run.record
        assert record is not None
        assert record.end == run.position == values.size
        facts = run.facts()
        assert (facts["holdout"], facts["warm-up"]) == (0, PIPELINE.warm_up)
        assert len(facts["phases"]) > 3


def test_a_record_in_a_warm_up_is_that_of_the_running_release(tmp_path) -> None:
    values, compared = growing(), 0
    with DurableRelease.open(tmp_path, PIPELINE) as run:
        run.push(values[:250])
        for at in range(250, 330, 4):
            run.push(values[at : at + 4])
            live = run._release
            assert run.facts()["record"] == plain_record_snapshot(live.record)
            compared += live.warming > 0
    assert compared


def test_a_finished_warm_up_is_durable_too(tmp_path) -> None:
    pipeline = tg.adaptive(epsilon=1, bound=1000, horizon=4096)
    with DurableRelease.open(tmp_path, pipeline) as run:
        before = run.push(np.full(40, 30))[1]
        run.finish()
        answer = run.query(0, 40)
        assert run.warming == 0
    with DurableRelease.open(tmp_path, pipeline) as run:
        assert run.query(0, 40) == answer
        after = run.push(np.full(200, 30))[1]
        replayed = np.concatenate([values for _, values in run.replay()])
        assert bits(replayed) == bits(np.concatenate((before, after)))
        assert run.record is not None
        assert run.record.end == 240


def test_everything_is_charged_before_the_first_value() -> None:
    (cost,) = charged_costs(PIPELINE)
    assert (cost.start, cost.end, cost.guarantee) == (0, None, PIPELINE.guarantee)


@pytest.fixture
def cli():
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def short(tmp_path):
    path = tmp_path / "values.csv"
    path.write_text("value\n" + "30\n" * 40)
    return path


def test_a_file_that_ends_in_its_warm_up_says_so_and_can_be_asked(short, cli) -> None:
    output = short.with_name("private.csv")
    settings = ("--preset", "adaptive", "--epsilon", "1", "--bound", "1000", "--horizon", "4096")
    done = cli("release", short, "-o", output, *settings, "-q")
    assert done.exit_code == NOTHING
    assert "warm-up needs" in done.stderr
    assert "placeholders" in done.stderr
    assert "tidegate query" in done.stderr
    assert "30" not in done.stderr.replace("4,096", "")
    file = ReleasedFile.open(output)
    assert file.record.end == 40
    asked = cli("query", output, "0", "40", "--json")
    (answer,) = json.loads(asked.stdout)["answers"]
    assert answer["low"] <= 40 * min(30, file.thresholds[0].threshold) <= answer["high"]
    shown = cli("show", output)
    assert f"warm-up {file.pipeline.warm_up:,} (released)" in shown.stdout


def test_with_a_state_the_warm_up_goes_on(short, cli) -> None:
    output, state = short.with_name("private.csv"), short.with_name("state")
    settings = ("--preset", "adaptive", "--epsilon", "1", "--bound", "1000", "--horizon", "4096")
    done = cli("release", short, "-o", output, *settings, "--state", state, "-q")
    assert done.exit_code == NOTHING
    assert "nothing is measured yet" in done.stderr
    asked = cli("query", output, "0", "40")
    assert "still open" in asked.stderr
    short.write_text("value\n" + "30\n" * 400)
    done = cli("release", short, "-o", output, *settings, "--state", state, "-q")
    assert done.exit_code == 0
    assert ReleasedFile.open(output).record.end == 400


def test_an_input_that_ends_in_a_later_warm_up_is_measured_to_its_end(tmp_path) -> None:
    whole = PIPELINE.start(tg.seeded(5))
    whole.push(growing())
    again = next(
        one.origin
        for one in whole.record.segments[1:]
        if one.blocks[0].layout.length == PIPELINE.warm_up
    )
    path = tmp_path / "private.csv"
    values = growing()[: again + 4]
    blocks = [values[at : at + 100] for at in range(0, values.size, 100)]
    outcome = transfer(blocks, PIPELINE.start(tg.seeded(5)), path)
    assert outcome.unmeasured == 0
    file = ReleasedFile.open(str(path))
    assert file.record.end == outcome.released == again + 4
    assert all(segment.measured for segment in file.record.segments)


def test_a_file_in_its_warm_up_says_what_it_is(tmp_path) -> None:
    """Before its first rows: a reader may come at any time, and a process be killed."""
    path = tmp_path / "private.csv"
    run = ReleaseInMemory(PIPELINE.start())
    with OutputWriter(OutputTarget.to(path, None), run, 0, print) as writer:
        writer.write(run.push_rows([1, 2, 3]))
        with pytest.raises(tg.QueryError, match="still open"):
            ReleasedFile.open(str(path))
