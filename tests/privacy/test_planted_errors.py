"""The list of errors that `make power` plants fits the code: it cannot rot unnoticed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.depth import at_the_gate

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def power() -> ModuleType:
    place = importlib.util.spec_from_file_location("check_power", ROOT / "tools" / "check_power.py")
    assert place is not None
    assert place.loader is not None
    module = importlib.util.module_from_spec(place)
    sys.modules["check_power"] = module
    place.loader.exec_module(module)
    return module


def test_every_error_can_be_planted_and_every_test_of_it_exists(power: ModuleType) -> None:
    errors = power.planted_errors()
    assert len({error.what for error in errors}) == len(errors) > 30
    for error in errors:
        source = (ROOT / "src" / "tidegate" / error.file).read_text(encoding="utf-8")
        assert source.count(error.text) == 1, error.what
        assert error.replacement != error.text
        compile(source.replace(error.text, error.replacement), error.file, "exec")
        assert error.tests, error.what
        for test in error.tests:
            path, _, name = test.partition("::")
            text = (ROOT / path).read_text(encoding="utf-8")
            function = name.partition("[")[0]
            assert not name or f"def {function}(" in text, test


@at_the_gate  # of the tool, by a run of pytest
def test_a_test_that_notices_nothing_is_told(power: ModuleType, tmp_path: Path) -> None:
    """Run on a package of its own: one test sees the error, the other does not."""
    (tmp_path / "src" / "tidegate").mkdir(parents=True)
    (tmp_path / "src" / "tidegate" / "noise.py").write_text("SCALE = 10\n")
    (tmp_path / "tests").mkdir()
    check = (
        "import runpy\n\n\ndef test_it():\n    found = runpy.run_path('src/tidegate/noise.py')\n"
    )
    (tmp_path / "tests" / "test_seen.py").write_text(check + "    assert found['SCALE'] == 10\n")
    (tmp_path / "tests" / "test_blind.py").write_text(check + "    assert found['SCALE'] > 0\n")
    tests = ("tests/test_seen.py::test_it", "tests/test_blind.py::test_it")
    error = power.Planted("too little noise", "noise.py", "= 10", "= 7", tests)
    before = error.plant(tmp_path)
    failed = power.failed_tests(tmp_path, tests, tmp_path / "report.xml")
    assert failed == dict(zip(tests, (True, False), strict=True))
    assert before == "SCALE = 10\n"
    with pytest.raises(SystemExit, match="0 times"):
        error.plant(tmp_path)
