"""docs/reproduction.md: complete beside the figures, and written from results."""

from pathlib import Path

import pytest

from experiments import page
from experiments.__main__ import main
from experiments.cells import Wanted
from experiments.claims import FAILS, HOLDS, PART
from experiments.errors import ExperimentError
from experiments.figures import figures
from experiments.results import Store


def test_the_page_has_every_figure_its_command_and_a_verdict_on_every_claim() -> None:
    assert main(["page", "--check"]) == 0
    text = page.PAGE.read_text(encoding="utf-8")
    assert text.count("| **") == sum(len(figure.claims) for figure in figures().values())


def test_what_is_missing_or_left_over_is_noticed() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    gone = text.replace("## Hierarchies", "## Trees")
    assert page.check(gone) == ["no section for hie", "a section without a figure: Trees"]
    unsaid = text.replace("| Consistency gives approximately another 2×.", "| Nothing.")
    assert len(page.check(unsaid)) == 2
    assert page.check(text.replace("python -m experiments run hie`", "make hie`"))
    silent = text.replace(f"**{HOLDS}**", "").replace(f"**{PART}**", "").replace(f"**{FAILS}**", "")
    assert page.check(silent)
    assert page.check("")


def test_the_page_is_written_from_results(
    no_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ExperimentError, match="no results of a full run"):
        page.page(Wanted(datasets=("pos",)), Store(tmp_path))
    monkeypatch.setattr(page, "figures", lambda: {"datasets": figures()["datasets"]})
    names = ("kosarak", "pos")
    command = ["run", "datasets", "--workers", "1", "--results", str(tmp_path)]
    assert main([*command, "--datasets", *names]) == 0
    text = page.page(Wanted(datasets=names), Store(tmp_path))
    assert page.check(text) == []
    assert "| The table of dataset characteristics. |" in text
    assert "**holds** (2 of 2)" in text
