"""Run as a process of its own by `memory.py`: push values in batches, print the peak memory."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import tidegate as tg

_BATCH = 65_536


def pipelines() -> dict[str, tg.Pipeline]:
    return {
        "tops e=0.1": tg.tops(epsilon=0.1, bound=1657),
        "tops e=1": tg.tops(epsilon=1, bound=1657),
        "tops e=1, history 2^20": tg.tops(epsilon=1, bound=1657, history=1 << 20),
        "adaptive e=0.1": tg.adaptive(epsilon=0.1, bound=1657),
        "adaptive, finest tree": tg.adaptive(
            epsilon=0.1, bound=1657, nodes=(1, 16, 128), history=1 << 20
        ),
        "pak": tg.pak(epsilon=0.1, bound=1657),
        "pak, history 2^16": tg.pak(epsilon=0.1, bound=1657, history=1 << 16),
    }


def push_in_batches(name: str, count: int) -> int:
    """Values released. One batch is used over and over: input takes no memory worth mentioning."""
    release = pipelines()[name].start()
    batch = tg.synthetic.baskets(_BATCH)
    for start in range(0, count, _BATCH):
        release.push(batch[: min(_BATCH, count - start)])
    return release.position


def peak_bytes() -> int:
    """The highest resident size of this process image.

    Under Linux `ru_maxrss` survives exec, so it can be that of the process that started this one;
    VmHWM belongs to this image alone.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    released = push_in_batches(sys.argv[1], int(sys.argv[2]))
    print(json.dumps({"released": released, "peak": peak_bytes()}))
