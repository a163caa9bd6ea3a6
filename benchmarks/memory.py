"""How much memory: a stream a hundred times as long must not need more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.memory_worker import pipelines
from benchmarks.table import Row, at_most
from benchmarks.timing import progress

_SHORT = 10**6
_MEGABYTE = 1e6


def measure(quick: bool) -> list[Row]:
    long = 10**7 if quick else 10**8
    rows = []
    for name, pipeline in pipelines().items():
        progress(f"peak memory, {name}")
        # The strictest reading: the least that the short stream needed, the most of the long one.
        short_peak = min(_peak(name, _SHORT) for _ in range(3))
        long_peak = max(_peak(name, long) for _ in range(2))
        blocks = pipeline.kept_history // pipeline.perturber.block
        note = (
            f"peak {short_peak:.1f} MB for 10^6, {long_peak:.1f} MB for {long:.0e} values in "
            f"batches of 65,536; the record for queries keeps {blocks:,} blocks"
        )
        more = long_peak - short_peak
        rows.append(at_most(f"more memory for {long:.0e} values, {name}", more, 5.0, "MB", note))
    return rows


def _peak(name: str, count: int) -> float:
    """Megabytes, of a process of its own."""
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory_worker", name, str(count)],
        check=True, capture_output=True, text=True, cwd=Path(__file__).parent.parent,
    )  # fmt: skip
    return float(json.loads(ran.stdout)["peak"] / _MEGABYTE)
