"""Every command and option is documented, and the generated page is current."""

import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.fresh_process import printed_by
from tidegate.cli.app import app
from tools import cli_reference

ROOT = Path(__file__).parent.parent.parent
GUIDE = ROOT / "docs" / "guides" / "command-line.md"
COMMANDS = dict(cli_reference.commands(cli_reference.command_tree()))
LEAVES = {path: command for path, command in COMMANDS.items() if not hasattr(command, "commands")}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_everything_has_help(command: Any) -> None:
    assert (command.help or "").strip()
    for kind in ("argument", "option"):
        for parameter in cli_reference.parameters(command, kind):
            assert (parameter.help or "").strip(), f"{command.name} {parameter.name}"


def test_the_page_is_current() -> None:
    page = cli_reference.PAGE.read_text(encoding="utf-8")
    assert page == cli_reference.reference(cli_reference.command_tree()), (
        "run python tools/cli_reference.py"
    )


def test_every_command_is_in_the_guide_and_every_option_is_documented() -> None:
    guide, page = GUIDE.read_text(encoding="utf-8"), cli_reference.PAGE.read_text(encoding="utf-8")
    for path, command in COMMANDS.items():
        assert path in guide
        section = page.partition(f"## `{path}`\n")[2].partition("\n## ")[0]
        for option in cli_reference.parameters(command, "option"):
            for name in cli_reference.names(option):
                assert f"`{name}`" in section, f"{path} {name}"


@pytest.mark.parametrize("path", LEAVES)
def test_help_shows_every_option_and_keeps_the_lines_of_examples(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    result = CliRunner().invoke(app, [*path.split()[1:], "--help"])
    assert result.exit_code == 0
    for option in cli_reference.parameters(LEAVES[path], "option"):
        assert cli_reference.names(option)[0] in result.stdout
    help_text = f"{LEAVES[path].help}\n{LEAVES[path].epilog or ''}"
    examples = [line.strip() for line in help_text.splitlines() if "  tidegate " in line]
    for example in examples:
        assert example in result.stdout


def test_a_stale_page_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_reference, "PAGE", tmp_path / "cli.md")
    monkeypatch.setattr(sys, "argv", ["cli_reference.py", "--check"])
    assert cli_reference.main() == 1
    monkeypatch.setattr(sys, "argv", ["cli_reference.py"])
    assert cli_reference.main() == 0
    monkeypatch.setattr(sys, "argv", ["cli_reference.py", "--check"])
    assert cli_reference.main() == 0
    (tmp_path / "cli.md").write_text("old")
    assert cli_reference.main() == 1


def test_help_needs_no_heavy_library() -> None:
    program = (
        "import sys; from typer.testing import CliRunner; from tidegate.cli.app import app\n"
        "for name in ('query', 'show', 'plan', 'ledger'):\n"
        "    assert CliRunner().invoke(app, [name, '--help']).exit_code == 0\n"
        "print(*{'pyarrow', 'pyspark', 'matplotlib', 'polars', 'scipy'} & set(sys.modules))"
    )
    assert printed_by(program).strip() == ""
