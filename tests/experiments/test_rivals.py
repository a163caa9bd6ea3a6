"""`experiments rivals`: a table of the best rival for each promise, and nothing mixed in it."""

from __future__ import annotations

import csv
import tomllib
from pathlib import Path

import numpy as np
import pytest

from experiments.__main__ import main
from experiments.candidates import Question
from experiments.compare import Entry
from experiments.ranking import advice
from experiments.rivals import _LIST, Cell, Course, _builds, courses, lost, table


def test_a_table_names_the_best_rival_and_what_it_is_worth() -> None:
    def entry(name: str, long: float, short: float) -> Entry:
        return Entry("event", name, [long], [{"short mse": short}], 5.0, "ε")

    course = Course("made up", np.zeros(3), 10, fresh=True)
    entries = [entry("adaptive", 100, 8), entry("adaptive, all rows", 50, 1)]
    entries += [entry("a", 400, 4), entry("b", 1600, 2)]
    refused = Entry("event", "c", [], [], 0.0, "", refused="cannot")
    cell = Cell(course, 0.1, [*entries, refused])
    *_, row = table("event", [cell]).splitlines()
    # Over the better of the two forms: 50 in long ranges, 1 in short ones.
    assert row == "| made up | 0.1 | 10 | **0.50** | a 8.00 | b 2.00 | yes |"
    assert lost("event", [cell]).startswith("No rival")


def test_what_beats_both_forms_is_named_with_what_it_is_worth() -> None:
    def entry(name: str, long: float, short: float) -> Entry:
        return Entry("event", name, [long], [{"short mse": short}], 5.0, "ε")

    course = Course("made up", np.zeros(3), 10, fresh=True)
    entries = [entry("adaptive", 100, 8), entry("adaptive, all rows", 50, 10)]
    found = lost("event", [Cell(course, 0.1, [*entries, entry("a", 49, 9), entry("b", 60, 2)])])
    assert found.splitlines()[2:] == ["| made up | 0.1 | short | b | 0.25 |"]  # 49 is no 5 % less


@pytest.mark.parametrize("promise", ["event", "window"])
def test_no_method_with_delta_is_ranked_among_those_with_pure_epsilon(promise: str) -> None:
    window = 60 if promise == "window" else None
    question = Question(epsilon=1, bound=100, window=window)
    found = {name: build() for name, build in _builds(promise, question, 500, 4000, True).items()}
    assert len(found) > 10
    assert not any(pipeline.guarantee.delta for pipeline in found.values())
    assert len({pipeline.guarantee.unit for pipeline in found.values()}) == 1


def test_streams_are_taken_from_the_end_or_made_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import pyarrow
    import pyarrow.parquet

    monkeypatch.setenv("TIDEGATE_DATA", str(tmp_path))
    assert [course.name for course in courses(100, "last")] == [
        "baskets (synthetic)",
        "traffic (synthetic)",
    ]
    pyarrow.parquet.write_table(
        pyarrow.table({"value": np.arange(500)}), tmp_path / "twitter_per_sec.parquet"
    )
    (tmp_path / "tables").mkdir()
    pyarrow.parquet.write_table(
        pyarrow.table({"tip": [0.5, 1.25], "fare": [1.0, 2.0]}),
        tmp_path / "tables/taxi_trips.parquet",
    )
    last = courses(100, "last")
    assert [course.name for course in last] == [
        *("twitter_per_sec", "taxi_2023_tip_cents", "taxi_2023_fare_cents")
    ]
    assert last[0].values.tolist() == list(range(400, 500))
    assert last[0].fresh
    assert last[1].values.tolist() == [50, 125]
    assert not courses(100, "first")[0].fresh
    listed = tomllib.loads(_LIST.read_text(encoding="utf-8"))
    assert all({"bound", "fresh"} <= facts.keys() for facts in listed.values())


def test_the_command_writes_table_numbers_and_picture(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    promise = "concentrated"
    monkeypatch.setenv("TIDEGATE_DATA", str(tmp_path))
    given = ["--values", "800", "--ranges", "20", "--epsilons", "1", "--output", str(tmp_path)]
    assert main(["rivals", promise, *given, "--confirm", "2"]) == 0
    with (tmp_path / f"rivals-{promise}.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = {row["method"] for row in rows}
    assert names == {
        *("adaptive-gaussian", "square-root", "banded-root", "smooth-binary"),  # and no pure ε
        "zeros (spends nothing)",
    }
    assert (tmp_path / f"rivals-{promise}.png").stat().st_size > 10_000
    assert "best rival" in (tmp_path / f"rivals-{promise}.md").read_text(encoding="utf-8")
    assert main(["rivals", "all", *given]) == 2


def test_advice_names_what_to_use_and_keeps_adaptive_where_it_is_level() -> None:
    def entry(name: str, long: float, short: float, refused: str = "") -> Entry:
        return Entry("event", name, [long], [{"short mse": short}], 5.0, "ε", refused=refused)

    entries = [entry("tops", 97, 30), entry("adaptive, all rows", 100, 90)]
    entries += [entry("adaptive", 500, 60), entry("pak", 1, 1, refused="cannot")]
    long, short = "adaptive, all rows", "tops (0.50 of the MSE of adaptive)"
    assert advice(entries) == f"Use for long ranges {long}, for short ranges {short}."
    assert advice(entries[:1]) == "Use for long ranges tops, for short ranges tops."
    assert not advice(entries[-1:])
