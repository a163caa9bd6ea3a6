"""The chooser: refuses what is not said to be public, ranks the rest, stamps what it writes."""

import csv
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import tidegate as tg
from experiments.__main__ import main
from experiments.candidates import Question, candidates, methods
from experiments.errors import ExperimentError
from experiments.sample import load
from tests.depth import depth
from tidegate.units import Window


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "sample.parquet"
    table = pyarrow.table({"value": tg.synthetic.baskets(6000)})
    pyarrow.parquet.write_table(table, path)
    return path


def arguments(path: object, output: Path, *more: str) -> list[str]:
    common = [
        "--epsilon",
        "0.5",
        "--bound",
        "500",
        "--runs",
        depth("1", "2"),
        "--output",
        str(output),
    ]
    return ["compare", str(path), *common, *more]


def test_without_the_flag_nothing_is_read_or_written(
    sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(sample, tmp_path / "out")) == 3
    assert "--public-data" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with the results of one comparison, and what was shown."""
    folder = tmp_path_factory.mktemp("compared")
    table = pyarrow.table({"value": tg.synthetic.baskets(1500)})
    pyarrow.parquet.write_table(table, folder / "sample.parquet")
    common = arguments(folder / "sample.parquet", folder / "out", "--public-data")
    with redirect_stdout(StringIO()) as shown:
        assert main([*common, "--window", "20"]) == 0
    return folder / "out", " ".join(shown.getvalue().split())


def test_all_methods_are_ranked_and_every_output_is_stamped(compared: tuple[Path, str]) -> None:
    output, shown = compared
    assert "not private" in shown
    text = (output / "comparison-not-private.csv").read_text(encoding="utf-8")
    rows = [line.split(",")[0] for line in text.splitlines()[1:]]
    assert set(rows) == {"not private"}
    for name in methods(Question(epsilon=0.5, bound=500), 187, 1313):
        assert name in text
    for png in output.glob("*.png"):
        assert png.read_bytes().startswith(b"\x89PNG")
        assert png.with_suffix(".svg").is_file()
    assert len(list(output.glob("comparison-not-private*.png"))) == 7  # 2 of windows, 5 promises


def test_units_and_promises_are_never_ranked_together(compared: tuple[Path, str]) -> None:
    output, shown = compared
    for title in ("ε per event", "(ε, δ) per event", "ε per window of 20 consecutive values"):
        assert f"{title}: methods by median MSE (not private)" in shown
    with (output / "comparison-not-private.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "short mse"]
    found = {(row["guarantee"], row["protects"], row["method"]) for row in rows}
    window = "window of 20 consecutive values"
    for promised in (
        ("ε", "event", "signed-digit-tree"),
        ("(ε, δ)", "event", "square-root"),
        ("ε", window, "budget-absorption"),
        ("ε", window, "adaptive, by group privacy"),
        ("ε", window, "zeros (spends nothing)"),
    ):
        assert promised in found
    assert not [row for row in rows if row["protects"] == "event" and "group" in row["method"]]


def test_every_central_method_takes_part() -> None:
    built = [build() for build in methods(Question(epsilon=0.5, bound=500), 750, 5250).values()]
    stages = {
        type(stage) for one in built for stage in (one.threshold, one.perturber, one.estimator)
    }
    for family in (tg.threshold, tg.perturb, tg.estimate):
        assert {getattr(family, name) for name in family.__all__} <= stages


def test_every_method_for_windows_protects_that_window() -> None:
    unit = Window(length=20)
    built = candidates(unit, Question(epsilon=5, bound=500, window=20), 750, 5250)
    assert {build().guarantee.unit for build in built.values()} == {unit.name}
    native = [one.name for one in tg.methods.registered() if one.unit == "window"]
    assert set(native) <= set(built)


def test_a_method_that_cannot_run_is_listed_with_its_reason(
    compared: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Smooth sensitivity has no δ to offer at so large an ε."""
    sample = compared[0].parent / "sample.parquet"
    common = ["--epsilon", "40", "--bound", "500", "--runs", "1", "--output", str(tmp_path / "o")]
    assert main(["compare", str(sample), *common, "--public-data"]) == 0
    assert "cannot be run" in " ".join(capsys.readouterr().out.split())


def test_a_twin_is_a_sample() -> None:
    twin = load("twin:pos")
    assert twin.label == "POS (synthetic twin)"
    assert twin.values.size == 515_597


@pytest.mark.parametrize(
    ("content", "column", "values"),
    [
        ("3\n4.5\n\n7\n", None, [3, 4.5, 7]),
        ("value\n3\n4\n", None, [3, 4]),
        ("time,fare\n1,5\n2,\n3,nan\n", "fare", [5, 0, 0]),
    ],
)
def test_text_is_read_in_its_order(
    tmp_path: Path, content: str, column: str | None, values: list[float]
) -> None:
    path = tmp_path / "sample.csv"
    path.write_text(content)
    assert load(str(path), column).values.tolist() == values


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1\nsecret\n", "line 2: not a number"),
        (b"a,b\n1,2\n", "no column 'value'"),
        (b"", "holds no numbers"),
        (b"\xff\xfe\x00", "neither Parquet nor text"),
    ],
)
def test_a_sample_that_cannot_be_read_is_named_without_its_content(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "sample.csv"
    path.write_bytes(content)
    with pytest.raises(ExperimentError, match=message) as caught:
        load(str(path))
    assert "secret" not in str(caught.value)


def test_a_sample_that_is_too_short_or_missing_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "short.csv"
    path.write_text("\n".join(map(str, np.arange(100))))
    assert main(arguments(path, tmp_path / "out", "--public-data")) == 2
    assert "too few" in capsys.readouterr().err
    assert main(arguments(tmp_path / "none.csv", tmp_path / "out", "--public-data")) == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("wrong", [["--epsilon", "0"], ["--bound", "-3"], ["--runs", "0"]])
def test_wrong_settings_are_usage_errors(
    sample: Path, wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["compare", str(sample), "--epsilon", "1", "--bound", "5", "--public-data", *wrong])
    assert wrong[0] in capsys.readouterr().err
