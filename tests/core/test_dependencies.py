"""Only what `pyproject.toml` declares is imported: other packages happen to be there, or not."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import tidegate
from tests.fresh_process import printed_by

PACKAGE = Path(tidegate.__file__).parent
IMPORTED_AS = {"nats_py": "nats", "opentelemetry_sdk": "opentelemetry", "paho_mqtt": "paho"}
PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def imported(path: Path) -> set[str]:
    """The top-level packages that a module names, also inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"tidegate"}


def test_every_package_that_is_imported_is_declared() -> None:
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    names = ("cli", "demo", "service", "spark", "brokers", "openid", "telemetry")
    wanted = [*project["dependencies"], *(one for name in names for one in extras[name])]
    declared = {re.split(r"[^A-Za-z0-9_-]", item)[0].replace("-", "_") for item in wanted}
    declared |= {IMPORTED_AS.get(name, name) for name in declared}
    found = {
        name: path.relative_to(PACKAGE).as_posix()
        for path in sorted(PACKAGE.rglob("*.py"))
        for name in imported(path)
    }
    assert found.keys() >= {"numpy", "typer"}
    assert {name: where for name, where in found.items() if name not in declared} == {}


def test_importing_tidegate_imports_little() -> None:
    """A name is imported when it is asked for; then every public one is there, and stays so."""
    program = (
        "import sys, tidegate\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "assert not loaded & {'numpy', 'cryptography', 'zoneinfo'}, sorted(loaded)\n"
        "import tidegate.keyed.keyed_release\n"  # must not put the package where the function was
        "assert 'tidegate.methods.pegasus' not in sys.modules\n"
        "found = {name: getattr(tidegate, name) for name in tidegate.__all__}\n"
        "assert all(getattr(tidegate, name) is one for name, one in found.items())\n"
        "assert found['keyed'].__module__ == 'tidegate.keyed'\n"
        "assert not hasattr(tidegate, 'no_such_method')\n"
        "print(len(found))"
    )
    assert printed_by(program).strip() == str(len(tidegate.__all__))
