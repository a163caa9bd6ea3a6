"""A small durable run, to be recorded by `power.recorded`: python power_driver.py FOLDER SCENARIO

Whatever leaves the process is written to /dev/null, after `MARK`, at the moment when it leaves.
"""

import os
import sys
from pathlib import Path

import numpy as np

import tidegate as tg
from tidegate.cli import release as command
from tidegate.durable import DurableRelease

MARK = b"left: "
SETTINGS = {"epsilon": "1", "bound": "100", "holdout": 6, "horizon": 32, "fanout": 4, "skipped": 1}
PIPELINE = tg.tops(**SETTINGS, resolution="1")
REFINED = tg.adaptive(epsilon=1, bound=100, resolution=1, horizon=32)
SETTINGS |= {"preset": "tops", "bound": ["100"], "resolution": ["1"]}  # lists: for each column
VALUES = np.random.default_rng(5).integers(0, 100, 40)
OLD, NEW = bytes(range(32)), bytes(range(1, 33))


def push(run, end, null):
    _, values = run.push(VALUES[run.seen : end])
    os.write(null, MARK + values.tobytes())


def two_runs(folder, null):
    with DurableRelease.open(folder / "state", PIPELINE, key=OLD) as run:
        push(run, 4, null)
        push(run, 15, null)
        push(run, 22, null)
    with DurableRelease.open(folder / "state", PIPELINE, key=OLD) as run:
        push(run, 30, null)
        run.change_key(NEW)
        push(run, 34, null)


def first_run(folder, null):
    with DurableRelease.open(folder / "deep" / "state", PIPELINE, cap=1, source="s") as run:
        push(run, 12, null)


def warm_up(folder, null):
    """The warm-up is released, from its first value on; its end lies within the second push."""
    with DurableRelease.open(folder / "state", REFINED) as run:
        push(run, 4, null)
        push(run, 15, null)


def new_epoch(folder, null):
    with DurableRelease.open(folder / "state", PIPELINE, new_epoch=True) as run:
        push(run, 12, null)


def output(folder, extension):
    """What leaves is the file itself: the test looks at it."""
    command.release(
        source=str(folder.with_name("in.csv")),
        **SETTINGS,
        output=str(folder / f"out.{extension}"),
        state=folder / "state",
        quiet=True,
    )


SCENARIOS = {
    "two runs": two_runs,
    "first run": first_run,
    "new epoch": new_epoch,
    "warm-up": warm_up,
}

if __name__ == "__main__":
    place, name, null = Path(sys.argv[1]), sys.argv[2], os.open(os.devnull, os.O_WRONLY)
    if name in SCENARIOS:
        SCENARIOS[name](place, null)
    else:
        output(place, name)
