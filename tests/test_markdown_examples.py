"""The `>>>` examples in README.md and docs/ do what they say; those of a page run in order."""

import doctest
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")))
    if page.exists() and ">>> " in page.read_text(encoding="utf-8")
]


def without_fences(text: str) -> str:
    """Blank lines for fences, which doctest would take for expected output; line numbers stay."""
    lines = text.splitlines()
    return "\n".join("" if line.lstrip().startswith("```") else line for line in lines) + "\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_examples_of_a_page(
    page: Path, pytestconfig: pytest.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    flags = sum(
        doctest.OPTIONFLAGS_BY_NAME[name] for name in pytestconfig.getini("doctest_optionflags")
    )
    text = without_fences(page.read_text(encoding="utf-8"))
    examples = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=flags).run(examples, out=report.append)
    assert not report, "".join(report)


def test_a_wrong_example_is_noticed() -> None:
    text = without_fences("```pycon\n>>> 1 + 1\n3\n```\n")
    examples = doctest.DocTestParser().get_doctest(text, {}, "page", None, 0)
    results = doctest.DocTestRunner().run(examples, out=lambda _: None)
    assert (results.failed, results.attempted) == (1, 1)
