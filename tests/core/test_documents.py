"""Documents that name code, tests and promises name what is there."""

import re
import stat
from pathlib import Path

import pytest

import tidegate as tg
from tidegate.durable import DurableRelease

ROOT = Path(__file__).parents[2]
MAP = ROOT / "docs" / "paper" / "map.md"
PAGES = [MAP, ROOT / "docs" / "privacy" / "threat-model.md", ROOT / "SECURITY.md"]
SOURCES = sorted((ROOT / "src" / "tidegate").rglob("*.py"))


def rows(page: Path) -> list[list[str]]:
    """The cells of every row of every table."""
    lines = page.read_text(encoding="utf-8").splitlines()
    return [re.split(r" \| ", line.strip("| ")) for line in lines if line.startswith("| ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tests_that_a_page_names_exist(page):
    named = re.findall(r"`((?:tests|benchmarks|tools|docs)/[^` ]+)`", page.read_text("utf-8"))
    assert named or page.name == "SECURITY.md"
    for name in named:
        path, _, function = name.partition("::")
        found = list(ROOT.glob(path))
        assert found, name
        assert not function or f"def {function}(" in found[0].read_text("utf-8"), name


def test_the_map_of_the_paper_names_code_that_exists():
    """It once said that the local model has no code."""
    defined = {path.stem for path in SOURCES} | {path.parent.name for path in SOURCES}
    for path in SOURCES:
        text = path.read_text("utf-8")
        defined.update(re.findall(r"^\s*(?:def|class) (\w+)", text, re.MULTILINE))
    checked = 0
    for cells in rows(MAP):
        if len(cells) < 3 or not cells[-1].lstrip("`").startswith("tests"):
            continue  # not a row of code and its tests
        for name in re.findall(r"`([A-Za-z_][\w.]*)(?:\([^`]*\))?`", cells[-2]):
            assert name.rpartition(".")[2] in defined, name
            checked += 1
    assert checked > 40
    local = [cells for cells in rows(MAP) if "`local." in " ".join(cells)]
    assert len(local) >= 6


def test_levels_of_the_choice_are_those_of_the_paper():
    """5 for r = 2^20 and fan-out 16, where the authors' code counts 6, as the map says."""
    slip = next(cells for cells in rows(MAP) if cells[0].startswith("NM-E (authors' code)"))
    assert "⌊log_b r⌋ + 1 = 6 levels for r = 2²⁰, b = 16" in slip[1]
    holdout, scale = 1 << 12, 60
    rule = tg.threshold.NoisyMax(epsilon=1, bound=100, horizon=2**20, holdout=holdout, fanout=16)
    worth = rule.penalty() * scale * rule.horizon / (3 * holdout)
    levels = (worth**2 / (2 * (rule.fanout - 1))) ** (1 / 3)
    assert levels == pytest.approx(5, rel=1e-12)


def test_a_state_folder_that_was_there_keeps_its_mode(tmp_path):
    """As the guide of durable state says."""
    guide = (ROOT / "docs" / "guides" / "durable.md").read_text("utf-8")
    assert "a folder that was there before keeps its mode" in guide
    pipeline = tg.tops(epsilon=1, bound=100, holdout=4, horizon=64)
    (tmp_path / "old").mkdir(mode=0o750)
    for name, mode in ("old", 0o750), ("new", 0o700):
        DurableRelease.open(tmp_path / name, pipeline).close()
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode
        for path in (tmp_path / name).iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600


NEWCOMERS = {
    "README.md": 620,
    "docs/index.md": 350,
    "docs/tutorial.md": 1_000,
    "docs/recipes.md": 1_050,
    "docs/faq.md": 570,
    "docs/getting-started.md": 770,
    "docs/concepts.md": 770,
}
"""Words that a page may have: a little more than it had after 0146."""


def words_of(path: Path) -> int:
    return len(path.read_text("utf-8").split())


def test_guides_stay_short():
    """A guide is read from start to end; what grows beyond is reference, how-to or research."""
    words = {path.name: words_of(path) for path in ROOT.glob("docs/guides/*")}
    assert len(words) > 10
    assert {name: count for name, count in words.items() if count > 850} == {}
    assert sum(words.values()) <= 10_200  # 9,997 after 0146


@pytest.mark.parametrize("page", NEWCOMERS)
def test_pages_for_newcomers_stay_short(page):
    assert words_of(ROOT / page) <= NEWCOMERS[page]
