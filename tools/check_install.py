"""Installs the package as a user would, into a throwaway environment, and looks at what came.

Checked: the core brings numpy and cryptography and nothing that these do not bring themselves;
only `tidegate` is installed, with its type marker; importing it works away from the checkout and
loads no optional package, neither there nor in the environment of this script, which has them.
"""

import json
import subprocess
import sys
import tempfile
from importlib.metadata import Distribution, distributions
from pathlib import Path, PurePosixPath

CHECKOUT = Path(__file__).resolve().parent.parent
CORE = {"numpy", "cryptography"}
BROUGHT_BY_CORE = {"cffi", "pycparser"}
OF_THE_ENVIRONMENT = {"pip", "setuptools", "wheel"}
OPTIONAL = ("matplotlib", "opendp", "pandas", "polars", "pyarrow", "pyspark", "scipy")

IMPORT = f"""
import sys, json, tidegate
print(json.dumps(sorted(set({OPTIONAL!r}) & set(sys.modules))))
"""


def imported_with(python: str) -> list[str]:
    """Which optional packages `import tidegate` loads, asked from outside the checkout."""
    with tempfile.TemporaryDirectory() as elsewhere:
        command = [python, "-I", "-c", IMPORT]
        answer = subprocess.check_output(command, cwd=elsewhere)
    loaded: list[str] = json.loads(answer)
    return loaded


def problems_of(wheel: Distribution, installed: set[str]) -> list[str]:
    """What is wrong with the installed package and what came along with it."""
    files = [PurePosixPath(file) for file in wheel.files or ()]
    strangers = {
        file.parts[0]
        for file in files
        if file.parts[0] not in {"tidegate", "..", f"tidegate-{wheel.version}.dist-info"}
    }
    found = []
    if missing := CORE - installed:
        found.append(f"not installed: {sorted(missing)}")
    if extra := installed - CORE - BROUGHT_BY_CORE - OF_THE_ENVIRONMENT - {"tidegate"}:
        found.append(f"the core pulls in more than it may: {sorted(extra)}")
    if strangers:
        found.append(f"the wheel holds more than the package: {sorted(strangers)}")
    if PurePosixPath("tidegate/py.typed") not in files:
        found.append("the wheel lacks tidegate/py.typed")
    return found


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder, "venv")
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        python = str(environment / "bin" / "python")
        pip = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, str(CHECKOUT)], check=True)

        where = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
        site = subprocess.check_output(where, text=True).strip()
        found = {wheel.name.lower(): wheel for wheel in distributions(path=[site])}
        problems = problems_of(found["tidegate"], set(found))
        for label, interpreter in (("a bare install", python), ("this one", sys.executable)):
            if loaded := imported_with(interpreter):
                problems.append(f"import tidegate loads {loaded} in {label}")
        came = ", ".join(f"{name} {found[name].version}" for name in sorted(found))

    print(f"installed: {came}")
    for problem in problems:
        print(f"problem: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
