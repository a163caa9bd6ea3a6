"""Run a driver that kills releases, in a process of its own, and read what it prints."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.durable.moments import scratch


def driven(
    driver: Path, seed: int, kills: int, *, seconds: int
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """The result of each scenario, and how often each kind of kill was met.

    `seconds` is far longer than it takes: on a loaded machine slowness is no failure.
    """
    with scratch() as folder:  # a kill takes nothing from a disk: that is for the power cuts
        process = subprocess.run(
            [sys.executable, str(driver), str(folder), str(seed), str(kills)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    assert process.returncode == 0, process.stderr[-3000:]
    results = [json.loads(line) for line in process.stdout.splitlines()]
    return results, sum((Counter(result["kinds"]) for result in results), Counter())
