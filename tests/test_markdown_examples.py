"""The examples in README.md and docs/ do what they say; those of a page run in order.

`>>>` everywhere; on the pages for newcomers the commands too: lines after `$` run as typed, and
what is shown below one is compared.
"""

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.depth import at_the_gate
from tidegate.cli.app import app

ROOT = Path(__file__).parent.parent
COMMANDS = ("tutorial.md", "recipes.md")
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")))
    if page.exists() and ">>> " in page.read_text(encoding="utf-8")
]


def without_fences(text: str) -> str:
    """Blank lines for fences, which doctest would take for expected output; line numbers stay."""
    lines = text.splitlines()
    return "\n".join("" if line.lstrip().startswith("```") else line for line in lines) + "\n"


def run(command: str) -> None:
    """Print what a command prints; fail if it fails. Ours run here: a start takes half a second."""
    words = shlex.split(command)
    if words[0] == "tidegate" and not set(command) & set("|<>&;$`*"):
        result = CliRunner().invoke(app, words[1:])
        assert result.exit_code == 0, result.stderr
        sys.stdout.write(result.stdout)
        return
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    places = {**os.environ, "PATH": path}
    done = subprocess.run(
        command, shell=True, capture_output=True, text=True, env=places, check=False
    )
    assert done.returncode == 0, done.stderr
    sys.stdout.write(done.stdout)


_CONTINUED = re.compile(r"^(\$ .*)\\\n *(.*)$", re.MULTILINE)


def with_commands(text: str) -> str:
    """Commands as examples of Python: one whose output is not shown may print anything.

    A command may go on in the next line, after a backslash; line numbers stay.
    """
    while (joined := _CONTINUED.sub(r"\n\1\2", text)) != text:
        text = joined
    lines = [*text.splitlines(), ""]
    for at, line in enumerate(lines):
        if line.startswith("$ "):
            following = lines[at + 1].strip()
            shown = following not in ("", "```") and not following.startswith("$ ")
            lines[at] = f">>> {'run' if shown else 'silently'}({line[2:]!r})"
    return "\n".join(lines) + "\n"


def silently(command: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        run(command)


# Half of the time of all pages, for commands and calls that have tests of their own.
LONG = ("docs/recipes.md", "docs/guides/local.md")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name, marks=[at_the_gate] if name in LONG else [])
        for page in PAGES
        for name in [page.relative_to(ROOT).as_posix()]
    ],
)
def test_examples_of_a_page(
    page: Path, pytestconfig: pytest.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    flags = sum(
        doctest.OPTIONFLAGS_BY_NAME[name] for name in pytestconfig.getini("doctest_optionflags")
    )
    text = page.read_text(encoding="utf-8")
    text = without_fences(with_commands(text) if page.name in COMMANDS else text)
    names = {"run": run, "silently": silently}
    examples = doctest.DocTestParser().get_doctest(text, names, page.name, str(page), 0)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=flags).run(examples, out=report.append)
    assert not report, "".join(report)


@pytest.mark.parametrize(
    ("block", "failed"),
    [
        ("$ echo 2\n2", 0),
        ("$ echo 2\n3", 1),
        ("$ false", 1),
        ("$ echo 2\n$ true", 0),
        ("$ echo 2 \\\n    3 \\\n    4\n2 3 4", 0),
        ("$ echo 2 \\\n    3\n2 4", 1),
    ],
)
def test_a_wrong_command_is_noticed(block: str, failed: int) -> None:
    text = without_fences(with_commands(f"```console\n{block}\n```\n"))
    names = {"run": run, "silently": silently}
    examples = doctest.DocTestParser().get_doctest(text, names, "page", None, 0)
    assert doctest.DocTestRunner().run(examples, out=lambda _: None).failed == failed


def test_a_wrong_example_is_noticed() -> None:
    text = without_fences("```pycon\n>>> 1 + 1\n3\n```\n")
    examples = doctest.DocTestParser().get_doctest(text, {}, "page", None, 0)
    results = doctest.DocTestRunner().run(examples, out=lambda _: None)
    assert (results.failed, results.attempted) == (1, 1)
