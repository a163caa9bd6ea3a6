"""docs/architecture.md and docs/files.md are true: they say what the code says."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import pairwise

import pytest

import tidegate as tg
from tools import architecture

LONGEST = 300
FOUNDATION = {
    *(
        "_hash_chain",
        "_context_managers",
        "_atomic_files",
        "_names_on_demand",
        "_version",
        "clock",
        "errors",
        "exact_numbers",
        "guarantee",
    ),
    *(
        "lattice",
        "ownership",
        "randomness",
        "sealing",
        "state_as_bytes",
        "settings",
        "timestamps",
        "timestamps_in_bulk",
        "user_ids",
    ),
}
ENTRANCES = ["__init__", "__main__", "demo", "duckdb", "polars", "synthetic", "units"]


@pytest.fixture(scope="module")
def walks() -> list[architecture.Walk]:
    return architecture.all_walks()


def test_the_page_is_current(walks: list[architecture.Walk]) -> None:
    page = architecture.PAGE.read_text(encoding="utf-8")
    assert page == architecture.page(walks), "run python tools/architecture.py"


def test_every_file_is_listed_with_what_it_holds() -> None:
    told = architecture.FILES.read_text(encoding="utf-8")
    assert told == architecture.tree(), "run python tools/architecture.py"
    lines = told.splitlines()
    place = lines.index(
        f"randomness.py  {architecture.summary(architecture.PACKAGE / 'randomness.py')}"
    )
    assert "KeystreamWords" in lines[place + 1]
    assert "_" not in {line.strip()[:1] for line in lines if line.startswith("    ")}


def test_every_file_says_what_it_is_in_one_line() -> None:
    for path in architecture.PACKAGE.rglob("*.py"):
        said = architecture.summary(path)
        assert said.endswith((".", "?")), path  # else the sentence goes on in the next line


def test_the_walks_are_short(walks: list[architecture.Walk]) -> None:
    limited = {walk.title: walk for walk in walks if walk.limit}
    assert len(limited) == 11  # two pushes and a query of three pipelines, and two reports
    for title, walk in limited.items():
        assert len(set(walk.files)) == len(walk.files) > 3
        assert len(walk.files) <= (walk.limit or 0), title


def test_the_picture_names_the_files_of_its_walks(walks: list[architecture.Walk]) -> None:
    drawn = architecture.PICTURE.read_text(encoding="utf-8")
    for _, key, _ in architecture.COLUMNS:
        walk = next(walk for walk in walks if key in walk.title)
        for number, file in enumerate(walk.files, 1):
            assert re.search(rf">{number} +{re.escape(file)}<", drawn), "run tools/architecture.py"


def test_a_walk_notes_every_file_in_order() -> None:
    guarantee = tg.Guarantee  # looked up before: the package imports a name when it is asked for
    found = architecture.traced(lambda: str(guarantee(epsilon=Fraction(1))))
    assert list(found) == ["guarantee.py"]
    assert "Guarantee.__str__" in architecture.steps(found)[0].functions


def test_there_are_ten_layers_at_most() -> None:
    layers = architecture.layers()
    assert len(layers) <= 10
    named = [re.split(r" [|:] ", line) for line in layers]
    assert all(not set(above) & set(below) for above, below in pairwise(named))
    assert set(named[-1]) == {*FOUNDATION, "tables"}


def test_only_the_foundation_lies_at_the_top() -> None:
    found = {path.stem for path in architecture.PACKAGE.glob("*.py")}
    assert found - set(ENTRANCES) == FOUNDATION


def test_no_file_is_long() -> None:
    lengths = {
        path.relative_to(architecture.PACKAGE).as_posix(): path.read_bytes().count(b"\n")
        for path in architecture.PACKAGE.rglob("*.py")
    }
    assert len(lengths) > 100
    long = {file: n for file, n in lengths.items() if n > LONGEST}
    assert long == {}
