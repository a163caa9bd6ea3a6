"""Writes docs/reference/cli.md from the commands themselves: `cli_reference.py [--check]`.

With --check nothing is written, and the exit code says whether the page is current.
"""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # when a test imports it

from generated import write_or_check

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "cli.md"
HEAD = """# Command line

Every command, argument and option of `tidegate`, as `--help` shows them. The
[guide](../guides/command-line.md) has examples and says what the answers mean. This page is
generated: change the commands, then run `python tools/cli_reference.py`.

`tidegate --install-completion` sets up completion in your shell; `--show-completion` prints it.

## Exit codes

| exit code | meaning | what to do |
| --- | --- | --- |
| 0 | done | |
| 1 | you answered no to `state unseal` or `state erase` | nothing was changed |
| 2 | an option, a setting or a range is wrong | correct the command; nothing was spent |
| 3 | refused for privacy: a cap, a state, a ledger | read the message; do not work around it |
| 4 | input or output: missing, unreadable, disk full | mend it; what was released stays valid |
| 5 | the input ended before anything was measured | more rows, `--horizon` or less `--holdout` |
| 70 | a bug in Tidegate | report it: the message holds no data |
| 130 | interrupted (Ctrl-C) | with `--state`, run the same command again |
"""
# Typer's own, which differ from shell to shell.
ELSEWHERE = ("install_completion", "show_completion")


def command_tree() -> Any:
    """The root command. (Typer carries its own copy of click, which is not typed.)"""
    from typer.main import get_command

    from tidegate.cli.app import app

    return get_command(app)


def commands(command: Any, path: str = "tidegate") -> Iterator[tuple[str, Any]]:
    """Every command below `command` and itself, with its full name."""
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, f"{path} {name}")


def parameters(command: Any, kind: str) -> list[Any]:
    """Its arguments or options, as `--help` lists them."""
    return [
        parameter
        for parameter in command.params
        if parameter.param_type_name == kind
        and parameter.name not in ELSEWHERE
        and not getattr(parameter, "hidden", False)
    ]


def names(parameter: Any) -> list[str]:
    """How an option is written, --long form first."""
    return sorted([*parameter.opts, *parameter.secondary_opts], key=len, reverse=True)


def reference(root: Any) -> str:
    """The page."""
    return "\n".join([HEAD, *(_section(path, command) for path, command in commands(root))])


def _section(path: str, command: Any) -> str:
    parts = [f"## `{path}`", _prose(command.help), _prose(command.epilog)]
    children = getattr(command, "commands", {})
    if children:
        rows = [(f"`{path} {name}`", _first_line(child.help)) for name, child in children.items()]
        parts.append(_table(("command", ""), rows))
    else:
        words = [path, *map(_argument, parameters(command, "argument"))]
        words.insert(1, "[OPTIONS]") if parameters(command, "option") else None
        parts.append(f"```console\n$ {' '.join(words)}\n```")
    arguments = parameters(command, "argument")
    if arguments:
        rows = [(f"`{_bare(item)}`", _cell(item.help)) for item in arguments]
        parts.append(_table(("argument", ""), rows))
    options = parameters(command, "option")
    if options:
        rows_ = [(_option(item), _default(item), _cell(item.help)) for item in options]
        parts.append(_table(("option", "default", ""), rows_))
    return "\n\n".join(part for part in parts if part) + "\n"


def _prose(text: str | None) -> str:
    """Help as Markdown; a paragraph that begins with \\b keeps its lines."""
    paragraphs = inspect.cleandoc(text or "").split("\n\n")
    return "\n\n".join(_paragraph(paragraph) for paragraph in paragraphs if paragraph.strip())


def _paragraph(text: str) -> str:
    if not text.lstrip("\n").startswith("\b"):
        return text.strip()
    lines = inspect.cleandoc("\n" + text.replace("\b", "", 1).strip("\n")).splitlines()
    shell = [line if line.startswith("$") else f"$ {line}" for line in lines if line.strip()]
    return "\n".join(("```console", *shell, "```"))


def _first_line(text: str | None) -> str:
    return _cell((text or "").strip().split("\n\n")[0])


def _argument(parameter: Any) -> str:
    return _bare(parameter) if parameter.required else f"[{_bare(parameter)}]"


def _bare(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper()).strip("[]")


def _option(parameter: Any) -> str:
    shown = ", ".join(f"`{name}`" for name in names(parameter))
    return shown if parameter.is_flag else f"{shown} `{_value(parameter)}`"


def _value(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper().replace("_", "-"))


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    value = parameter.default
    return "" if value in (None, False) or callable(value) else f"`{value}`"


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def _table(head: tuple[str, ...], rows: list[Any]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> int:
    return write_or_check({PAGE: reference(command_tree())}, "cli_reference.py")


if __name__ == "__main__":
    sys.exit(main())
