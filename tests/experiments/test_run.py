"""A figure from its file to the page; interrupted and resumed; the same whatever the workers."""

import csv
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.cells import job_key
from experiments.figures import Method, figures
from experiments.results import COLUMNS
from experiments.scoring import METRICS
from tests.depth import at_the_gate
from tests.experiments.conftest import forget

ROOT = Path(__file__).parent.parent.parent
SMALL = ["smooth", "--quick", "--runs", "1", "--datasets", "pos"]


def lines(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole figure, quick, and its page."""
    folder = tmp_path_factory.mktemp("results")
    few = ["--quick", "--datasets", "pos", "dns"]  # one that is mirrored, one that is not
    forget()  # this is set up before any fixture of a single test
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_DATA", str(tmp_path_factory.mktemp("no data")))
        assert main(["run", "smooth", *few, "--workers", "1", "--results", str(folder)]) == 0
        assert main(["report", "smooth", *few, "--results", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of one small run."""
    folder = tmp_path_factory.mktemp("small")
    forget()  # this is set up before any fixture of a single test
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_DATA", str(tmp_path_factory.mktemp("no data")))
        assert main(["run", *SMALL, "--workers", "1", "--results", str(folder)]) == 0
    return folder


def test_the_table_is_tidy_and_says_where_numbers_come_from(results: Path) -> None:
    rows = lines(results / "results-quick.csv")
    assert tuple(rows[0]) == COLUMNS
    assert COLUMNS[:9] == (
        "figure", "dataset", "method", "epsilon", "metric", "mean", "std", "median", "runs",
    )  # fmt: skip
    assert {row["dataset"] for row in rows} == {"dns", "pos"}
    assert {row["metric"] for row in rows} == {*METRICS, "threshold"}
    assert all(float(row["mean"]) > 0 and row["runs"] == "2" and row["seed"] == "1" for row in rows)
    assert all(len(row["checksum"]) == 64 and row["version"] for row in rows)
    sources = {row["dataset"]: row["source"] for row in rows}
    assert all("synthetic twin" in source for source in sources.values())
    assert "mirrored" in sources["pos"]
    assert "mirrored" not in sources["dns"]


def test_pictures_are_there_in_both_formats(results: Path) -> None:
    folder = results / "figures-quick"
    assert (folder / "smooth.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (folder / "smooth.svg").read_text(encoding="utf-8")


def test_the_page_stands_alone(results: Path) -> None:
    page = (results / "report-quick.html").read_text(encoding="utf-8")
    sources = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert all(source.startswith(("data:image/png;base64,", "#")) for source in sources)
    assert "<script" not in page
    assert "synthetic twin" in page
    assert "Mean beats Recent" in page
    assert re.search(r"holds|does not hold", page)


def test_facts_of_the_run_are_kept(results: Path) -> None:
    (facts,) = json.loads((results / "runs.json").read_text(encoding="utf-8"))
    assert facts["figures"] == ["smooth"]
    assert facts["cells run"] == 2 * 5 * 3
    assert facts["version"].startswith(facts["tidegate"])


@at_the_gate  # what is kept, damaged or of another version is met below, without processes
def test_a_killed_run_goes_on_where_it_was_and_ends_the_same(
    small: Path, no_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = tmp_path / "cut"
    command = [sys.executable, "-m", "experiments", "run", *SMALL, "--results", str(cut)]
    process = subprocess.Popen([*command, "--workers", "1"], cwd=ROOT, stdout=subprocess.DEVNULL)
    while process.poll() is None and not list(cut.glob("cells/*.json")):
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = {path.name: path.stat().st_mtime_ns for path in cut.glob("cells/*.json")}
    assert kept
    capsys.readouterr()
    assert main(["run", *SMALL, "--workers", "2", "--results", str(cut)]) == 0
    assert f"{15 - len(kept)} cells to run, {len(kept)} kept" in capsys.readouterr().out
    after = {path.name: path.stat().st_mtime_ns for path in cut.glob("cells/*.json")}
    assert len(after) == 15
    assert {name: after[name] for name in kept} == kept
    table = "results-quick.csv"
    assert (cut / table).read_bytes() == (small / table).read_bytes()


def test_results_of_another_version_are_used_only_if_asked_for(
    no_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["datasets", "--datasets", "pos", "--results", str(tmp_path)]
    assert main(["run", *arguments]) == 0
    (path,) = (tmp_path / "cells").glob("*.json")
    cell = json.loads(path.read_text(encoding="utf-8"))
    cell["job"]["version"] = "0.0.9+older"
    (tmp_path / "cells" / f"{job_key(cell['job'])}.json").write_text(json.dumps(cell))
    path.unlink()
    assert main(["report", *arguments]) == 2
    assert main(["report", *arguments, "--stale"]) == 0
    assert "0.0.9+older" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert main(["run", *arguments]) == 0
    assert "1 cells to run" in capsys.readouterr().out


def test_a_cell_that_cannot_be_run_costs_no_other(
    no_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    broken = Method("Recent", {"preset": "tops", "fanout": 1})
    figure = figures()["smooth"]
    methods = [broken, *figure.methods[1:]]
    monkeypatch.setitem(figures(), "smooth", replace(figure, methods=methods))
    assert main(["run", *SMALL, "--workers", "1", "--results", str(tmp_path)]) == 2
    message = capsys.readouterr().err
    assert "3 cells could not be run; the first: smooth, pos, Recent, ε = 0.01: fanout" in message
    found = {row["method"] for row in lines(tmp_path / "results-quick.csv")}
    assert found == {method.name for method in methods[1:]}


def test_a_damaged_cell_is_named_not_used(
    no_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["datasets", "--datasets", "pos", "--results", str(tmp_path / "results")]
    assert main(["run", *arguments]) == 0
    (cell,) = (tmp_path / "results" / "cells").glob("*.json")
    cell.write_text(cell.read_text()[:-20])
    assert main(["run", *arguments]) == 2
    assert cell.name in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "pie"], "there is no figure 'pie'"),
        (["run", "hie", "--datasets", "nope"], "there is no dataset 'nope'"),
        (["run", "hie", "--datasets", "twitter"], "nothing to run"),
        (["report", "hie", "--datasets", "pos"], "there are no results"),
    ],
)
def test_wrong_requests_are_answered_in_words(
    no_data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    assert main([*arguments, "--results", str(tmp_path / "none")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_results_that_cannot_be_written_are_named(
    no_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert main(["run", "datasets", "--datasets", "pos", "--results", str(blocked)]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_another_figure_joins_the_table_of_all(small: Path, no_data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    shutil.copytree(small, folder)
    alone = lines(folder / "results-quick.csv")
    common = ["--quick", "--runs", "1", "--datasets", "pos", "--results", str(folder)]
    assert main(["run", "datasets", *common]) == 0
    both = lines(folder / "results-quick.csv")
    assert both[-len(alone) :] == alone
    assert {row["figure"] for row in both} == {"datasets", "smooth"}


def test_figures_are_listed(no_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    assert "query_mse" in shown
    assert "(twin)" in shown


def test_the_authors_numbers_on_their_stream(
    data_directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The project's reading notes: medians of 12 runs, within a factor of two."""
    from experiments.cells import Wanted, cells
    from experiments.figures import figures
    from experiments.jobs import work

    wanted = Wanted(datasets=("pos",), methods=("H16c", "Ĥ16c"), epsilons=(0.1,))
    found = {
        cell.method: sorted(work(cell.job)["series"]["mse"])
        for cell in cells(figures()["hie"], wanted)
    }
    for method, target in (("H16c", 5.1e7), ("Ĥ16c", 1.1e7)):
        middle = (found[method][5] + found[method][6]) / 2
        assert target / 2 < middle < 2 * target
