"""`--preset adaptive` from end to end: release, query, show, plan, and what is not known."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import tidegate as tg
from tidegate.cli.app import app
from tidegate.durable import DurableRelease, transfer
from tidegate.io import Batch, SourceError, read_metadata, read_released
from tidegate.io.metadata_files import write_metadata_sidecar
from tidegate.released import ReleasedFile

VALUES = np.random.default_rng(1).poisson(20 * (1 + np.sin(np.arange(9000) / 500)))
SETTINGS = ["--epsilon", "1/2", "--bound", "200", "--holdout", "500", "--horizon", "2000"]


def run(*words: Any) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.csv"
    path.write_text("value\n" + "".join(f"{value}\n" for value in VALUES))
    return path


def released(source: Path, name: str, *more: Any) -> Path:
    output = source.with_name(name)
    result = run("release", source, "-o", output, "--preset", "adaptive", *SETTINGS, *more)
    assert result.exit_code == 0, result.output
    return output


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl.gz", "out.parquet"])
@pytest.mark.parametrize("more", [(), ("--non-negative", "--resolution", "1/10")])
def test_a_file_answers_as_the_release_does(source: Path, name: str, more: tuple[str, ...]) -> None:
    """The same numbers as from the durable state, whose record is the release's own."""
    state = source.with_name("state")
    output = released(source, name, "--state", state, *more)
    file = ReleasedFile.open(output)
    ends = np.sort(np.random.default_rng(2).integers(0, 8501, size=(2, 50)), axis=0)
    with DurableRelease.existing(state) as durable:
        record = durable.record
        assert record is not None
        for as_of in (None, 8500):
            found, expected = (one.queries(*ends, as_of=as_of) for one in (file.record, record))
            for column in ("estimate", "low", "high", "noise_error", "prediction_error"):
                np.testing.assert_array_equal(getattr(found, column), getattr(expected, column))
    total = file.record.query(0, 8500).estimate
    assert total == pytest.approx(VALUES[500:].sum(), rel=0.3)  # fresh noise in every run


def test_query_and_show_say_what_they_answer(source: Path) -> None:
    output = released(source, "out.csv")
    asked = run("query", output, 100, 6000)
    assert asked.exit_code == 0, asked.output
    assert "also use later data" in asked.stdout
    assert "Values were capped" in asked.stdout
    later, then = (
        json.loads(run("query", output, 100, 3000, "--json", *more).stdout)
        for more in ((), ("--as-of", 3000))
    )
    assert later["answers"][0]["estimate"] != then["answers"][0]["estimate"]
    assert then["note"] == ""
    total = sum(values.sum() for _, values in read_released(output))
    file = ReleasedFile.open(output)
    assert file.record.query(0, 8500).estimate == pytest.approx(total, rel=0.1)
    looked = run("show", output, "--width", "30", "--window", "400")
    assert looked.exit_code == 0, looked.output
    assert "AdaptiveTrees" in looked.stdout
    assert "measured as needed" in looked.stdout
    assert run("query", output, 100, 3000, "--as-of", 2000).exit_code == 2


def test_a_file_that_was_not_completed_says_what_to_do(source: Path) -> None:
    output = released(source, "out.csv")
    facts = read_metadata(output)
    assert facts is not None
    record = facts.pop("record")
    write_metadata_sidecar(output, facts)
    asked = run("query", output, 0, 10)
    assert asked.exit_code == 4
    assert "add up its rows" in asked.stderr
    damaged: list[Any] = [
        [],
        [{}],
        "x",
        [{**record[0], "sums": "1 x"}],
        [{**record[0], "blocks": "0 2000 99 0"}],
        [{**record[0], "closed": record[0]["closed"] + 1}],
        [{**record[0], "prediction": "1/3"}],
        [{**record[0], "prediction": 1e300}],
    ]
    for wrong in damaged:
        write_metadata_sidecar(output, {**facts, "record": wrong})
        with pytest.raises(SourceError, match="damaged"):
            ReleasedFile.open(output)


def test_a_file_that_still_grows_can_be_asked_as_far_as_its_record_goes(source: Path) -> None:
    """The facts are written again whenever the file has grown by a tenth."""
    output = source.with_name("out.csv")
    known = []

    class Growing:
        """A source in small batches, which looks at the output between them."""

        def batches(self) -> Iterator[Batch]:
            for part in np.array_split(VALUES, 30):
                yield Batch(part, None)
                if output.exists():
                    record = ReleasedFile.open(output).record
                    written = sum(values.size for _, values in read_released(output))
                    assert written / 1.1 <= record.end <= written
                    known.append(record.end)

    pipeline = tg.adaptive("1/2", 200, holdout=500, horizon=2000)
    transfer(Growing(), pipeline.start(), output)
    assert 8 < len(set(known)) < 25
    assert ReleasedFile.open(output).record.end == 8500


def test_a_plan_for_adaptive_says_what_it_assumes() -> None:
    words = ("plan", "--epsilon", "0.1", "--bound", 1657, "--threshold", 50, "--horizon", 2**12)
    text = run(*words, "--preset", "adaptive").stdout
    assert "drifts by 1/3 thresholds" in text
    assert "± if 0.01" in text
    facts = json.loads(run(*words, "--preset", "adaptive", "--json").stdout)
    assert facts["assumed"] == {"roughness": "1/3"}
    assert "best" not in facts
    pipeline = tg.adaptive("0.1", 1657, horizon=2**12)
    for name, widths in facts["half_width_by_roughness"].items():
        expected = tg.plan.expect(pipeline, [60, 3600, 86400], threshold=50, roughness=name)
        assert widths == [tg.plan.half_width(pipeline, each) for each in expected]
    found = run(
        "plan", "--bound", 1657, "--threshold", 50, "--horizon", 2**12, "--target", 3000,
        "--length", 1000, "--preset", "adaptive", "--json",
    )  # fmt: skip
    target = json.loads(found.stdout)["target"]
    epsilon = tg.exact_numbers.positive("epsilon", target["epsilon"])
    widths = []
    for budget in (epsilon, epsilon * 97 / 100):
        one = tg.adaptive(budget, 1657, horizon=2**12)
        (expectation,) = tg.plan.expect(one, [1000], threshold=50)
        widths.append(tg.plan.half_width(one, expectation))
    assert widths[0] <= 3000 < widths[1]
    assert run(*words, "--preset", "pak").exit_code == 2
