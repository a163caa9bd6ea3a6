"""Law 2: kill −9 anywhere, run the same command again, and the output is the unkilled one's."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.durable.moments import scratch

KILLS = 209
DRIVER = Path(__file__).with_name("kill_driver.py")


def test_two_hundred_kills_leave_no_trace():
    with scratch() as folder:  # a kill takes nothing from a disk: that is for the power cuts
        process = subprocess.run(
            [sys.executable, str(DRIVER), str(folder), "20261115", str(KILLS)],
            capture_output=True,
            text=True,
            timeout=900,  # far longer than it takes: on a loaded machine slowness is no failure
            check=False,
        )
    assert process.returncode == 0, process.stderr[-3000:]
    results = [json.loads(line) for line in process.stdout.splitlines()]
    kinds = sum((Counter(result["kinds"]) for result in results), Counter())
    assert sum(kinds.values()) >= 200, results
    assert len(results) == 18
    assert kinds["random moment"] >= 40
    assert len(kinds) >= 12  # all but a few ways to die were met
