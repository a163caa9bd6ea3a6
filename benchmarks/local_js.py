"""The JavaScript client in Node: `clients/js/benchmark.mjs`, run as it is."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from benchmarks.table import Row, at_least
from benchmarks.timing import progress

_CLIENT = Path(__file__).parent.parent / "clients" / "js"
# A device makes a report now and then; who simulates many devices needs many.
_TARGET = 200.0
_NAMES = {
    "value": "reports by a table of 17 x 15",
    "tail": "reports of one bit",
    "wave": "reports by the square wave",
}


def measure(quick: bool) -> list[Row]:
    node = shutil.which("node")
    if node is None:
        progress("there is no node here: nothing measured")
        return []
    progress("reports in Node")
    command = [node, "benchmark.mjs", "--json", *(["--quick"] if quick else [])]
    rates = json.loads(subprocess.check_output(command, cwd=_CLIENT))
    rows = [
        at_least(name, rates[kind] / 1e3, _TARGET, "k reports/s", "Node, one core, Web Crypto")
        for kind, name in _NAMES.items()
    ]
    note = "reading, checking and pinning a round, in memory: SHA-256 and HMAC of Web Crypto"
    rows.append(Row("whole rounds of a client", rates["client"] / 1e3, "k reports/s", note=note))
    return rows
