"""The log of the service: a line for each thing that happened, as JSON or as plain words.

Nothing of a request is logged: no address, no path, no body. Of an exception the kind is said, and
where it was raised: its words and its traceback may quote the data, whoever logs it. For the same
reason a message of another library is cut to its first line, and one of the event loop, which shows
calls with their arguments, is not said at all.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidegate.errors import SettingError

FORMATS = ("text", "json")
FACTS = "facts"  # in `extra`: what a line says beside its message


class LineFormatter(logging.Formatter):
    """One line for each record.

    Args:
        form: `json` or `text`.
    """

    def __init__(self, form: str) -> None:
        super().__init__()
        if form not in FORMATS:
            raise SettingError("log-format", f"must be one of {', '.join(FORMATS)}")
        self._json = form == "json"

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        facts = {**getattr(record, FACTS, {}), **_exception(record)}
        if self._json:
            said = {"level": record.levelname.lower(), "logger": record.name}
            line = {"time": time, **said, "message": _message(record), **facts}
            return json.dumps(line, ensure_ascii=False, default=str)
        more = "".join(f" {name}={value}" for name, value in facts.items())
        text = f"{time} {record.levelname.lower()} {record.name}: {_message(record)}{more}"
        return text.replace("\n", " ")


def _message(record: logging.LogRecord) -> str:
    library = record.name.partition(".")[0]
    if library == "asyncio":
        return "an error in the event loop"
    words = record.getMessage()
    return words if library == "tidegate" else words.partition("\n")[0]


def _exception(record: logging.LogRecord) -> dict[str, Any]:
    if not record.exc_info or record.exc_info[0] is None:
        return {}
    kind, _, trace = record.exc_info
    frames = traceback.extract_tb(trace)
    where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return {"exception": kind.__name__, "raised_in": where}


def begin(form: str) -> None:
    """Write all logs of this process to standard error, in this form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter(form))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("tidegate").setLevel(logging.INFO)
