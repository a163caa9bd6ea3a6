"""The command line in this process, as tests call it."""

from typing import Any

from typer.testing import CliRunner, Result

from tidegate.cli.app import app


def run(*words: Any) -> Result:
    """Run a command; an exception that is not an exit is a fault."""
    result = CliRunner().invoke(app, [str(word) for word in words], prog_name="tidegate")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result
