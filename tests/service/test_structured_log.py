"""Log lines: one object each, and never the words of an exception."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import pytest

from tests.service.conftest import Place
from tidegate.errors import SettingError
from tidegate.service.logs_and_traces import FACTS, LogLineFormatter

SECRET = "8675309.125"


def record(message: str, logger: str = "tidegate.x") -> logging.LogRecord:
    try:
        raise ValueError(f"could not convert {SECRET}")
    except ValueError:
        found = logging.LogRecord(logger, logging.ERROR, "f", 1, message, (), sys.exc_info())
    setattr(found, FACTS, {"database": "sqlite"})
    return found


def test_a_line_says_what_happened_and_not_with_which_value() -> None:
    line = LogLineFormatter("json").format(record("two\nlines"))
    assert "\n" not in line
    found = json.loads(line)
    assert found.pop("time").endswith("+00:00")
    assert found.pop("raised_in").startswith(Path(__file__).name)
    said = {"level": "error", "logger": "tidegate.x", "message": "two\nlines"}
    assert found == {**said, "database": "sqlite", "exception": "ValueError"}
    text = LogLineFormatter("text").format(record("two\nlines"))
    assert "error tidegate.x: two lines database=sqlite exception=ValueError" in text
    assert SECRET not in line + text
    with pytest.raises(SettingError, match="text, json"):
        LogLineFormatter("xml")


@pytest.mark.parametrize("form", ["json", "text"])
def test_messages_of_others_do_not_show_values(form: str) -> None:
    """A lifespan that fails is told by its traceback, a callback by its arguments."""
    lines = LogLineFormatter(form)
    found = lines.format(record(f"Traceback (most recent call last):\n{SECRET}", "uvicorn.error"))
    assert "Traceback (most" in found
    assert SECRET not in found
    found = lines.format(record(f"Exception in callback push({SECRET})", "asyncio"))
    assert "an error in the event loop" in found
    assert SECRET not in found


def test_a_database_that_fails_is_told_once_and_so_is_its_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Place(tmp_path / "gate", None).opened().gate
    caplog.set_level(logging.INFO, "tidegate")

    def fail() -> None:
        raise ValueError(SECRET)

    for work in (fail, fail):
        assert gate.call(work).exception(60) is not None
    gate.call(lambda: None).result(60)
    gate.close()
    assert [one.getMessage() for one in caplog.records] == [
        "changes are refused",
        "changes are taken again",
    ]
    lines = "".join(LogLineFormatter("json").format(one) for one in caplog.records)
    assert "a fault" in lines
    assert SECRET not in lines
