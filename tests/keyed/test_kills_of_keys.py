"""Law 2 for keys, events and several columns: after kill −9 the output is the unkilled one.

`TIDEGATE_KILLS=240 pytest tests/keyed/test_kills_of_keys.py` is the heavy run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.durable.moments import scratch

KILLS = int(os.environ.get("TIDEGATE_KILLS", "12"))
DRIVER = Path(__file__).with_name("kill_keys_driver.py")


def test_kills_leave_no_trace() -> None:
    with scratch() as folder:
        process = subprocess.run(
            [sys.executable, str(DRIVER), str(folder), "20261117", str(KILLS)],
            capture_output=True,
            text=True,
            timeout=3000,  # far longer than it takes: on a loaded machine slowness is no failure
            check=False,
        )
    assert process.returncode == 0, process.stderr[-3000:]
    results = [json.loads(line) for line in process.stdout.splitlines()]
    kinds = sum((Counter(result["kinds"]) for result in results), Counter())
    assert len(results) == 6
    assert sum(kinds.values()) >= 0.9 * KILLS, results
    assert len(kinds) >= 3
