"""Kills releases with keys, with events and of several columns, and compares bytes.

    PYTHONPATH=. python tests/keyed/kill_keys_driver.py FOLDER SEED KILLS

As `tests/durable/kill_driver.py`, whose children and ways to die it uses: after the kills of a
scenario one run goes to the end, and what it wrote must be, byte for byte, what a run wrote that
was never killed and began from a copy of the same state. Prints one line of JSON per scenario.
"""

import os
import random
import shutil
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np

from tests.durable import kill_driver as driver
from tests.ways_to_die import countdown, die, trial
from tidegate.cli import release as command
from tidegate.cli import release_events
from tidegate.cli.release_by_key import _keyed_specification
from tidegate.cli.release_columns import pipelines_of_columns
from tidegate.cli.release_columns_by_key import keyed_columns
from tidegate.durable import DurableRelease
from tidegate.durable.durable_columns import DurableColumns
from tidegate.durable.state_stores import FolderStore
from tidegate.io.output_file_or_pipe import OutputBytes
from tidegate.keyed.durable_columns_by_key import DurableKeyedColumns
from tidegate.keyed.durable_folder import DurableKeyed
from tidegate.keyed.keyed_store import KeyedStore
from tidegate.ledger import Ledger
from tidegate.released.released_columns import column_file
from tidegate.run.column_budgets import COUNT

ROWS = 3000
TOPS = {"preset": "tops", "holdout": 300, "horizon": 256, "fanout": 4, "skipped": 1}
EVENTS = {"time": "when", "every": "1h", "start": "2024-01-01", "until": "2024-01-20"}
SCENARIOS = {
    "keys in columns": {"by": "zone", "keys": "zones.txt", "shared_threshold": True, **TOPS},
    "keys in columns, times": {
        "by": "zone", "keys_are_public": True, "shared_threshold": True, "time": "when", **TOPS
    },
    "keys, adaptive": {"by": "zone", "keys": "zones.txt", "time": "when", "horizon": 1000},
    "keys, adaptive, tabs": {"by": "zone", "keys": "zones.txt", "horizon": 1000, "out": "out.tsv"},
    "events": EVENTS,
    "events by key": {"by": "zone", "keys": "zones.txt", **EVENTS},
    "means by key": {"by": "zone", "keys": "zones.txt", "mean": True, **EVENTS},
    "columns by key": {
        "by": "zone", "keys": "zones.txt", "columns": ["value", "tip"], "time": "when", **TOPS
    },
    "several columns": {"columns": ["value", "tip"], "time": "when", **TOPS},
}  # fmt: skip


def both_commits(number, **how):
    """Of whichever store is used."""
    for owner in (FolderStore, KeyedStore):
        countdown(owner, "commit", number, **how)


FAULTS = {
    "output write torn": lambda n: countdown(OutputBytes, "write", n, before=driver.half_of_output),
    "after output write": lambda n: countdown(OutputBytes, "write", n, after=die),
    "before commit": lambda n: both_commits(n, before=die),
    "after commit": lambda n: both_commits(n, after=die),
    "charged, not committed": lambda n: countdown(Ledger, "charge", 1, after=die),
}


def options_of(folder, extra):
    """As the command line gives them."""
    extra = dict(extra)
    columns, out = extra.pop("columns", ["value"]), extra.pop("out", "out.csv")
    options = {"epsilon": "1", "bound": ["400"], "output": str(folder / out), **extra}
    if "keys" in options:
        options["keys"] = folder.parent.parent / options["keys"]
    return {**options, "column": columns, "state": folder / "state", "key_file": folder / "key"}


def begin(source, options):
    """Store the id of the noise, and read nothing: both runs go on from there."""
    named = {name.replace("_", "-"): value for name, value in options.items()}
    one = {**named, "bound": "400", "column": named["column"][0]}
    if "mean" in named or ("by" in named and len(named["column"]) > 1):
        names = [*named["column"], *([COUNT] if "mean" in named else [])]
        columns, _ = keyed_columns(source, names, named, {})  # state: none is held
        opened = DurableKeyedColumns.open(named["state"], columns, key=driver.KEY)
    elif "by" in named:
        specification, _ = _keyed_specification(source, one, opening={})  # state: none is held
        opened = DurableKeyed.open(named["state"], specification, key=driver.KEY)
    elif "every" in named:
        opened = DurableRelease.open(
            named["state"], release_events.build_event_pipeline(one), key=driver.KEY
        )
    else:
        pipelines = pipelines_of_columns(named["column"], named)
        opened = DurableColumns.open(named["state"], pipelines, key=driver.KEY)
    opened.close()


def outputs(options):
    """All files with rows."""
    columns = [*options["column"], *([COUNT] if "mean" in options else [])]
    if len(columns) == 1:
        return [Path(options["output"])]
    return [Path(column_file(options["output"], name)) for name in columns]


def scenario(folder, name, kills, rng, faults):
    folder.mkdir(parents=True)
    source = str(folder.parent / "in.csv")
    work, reference, pristine = folder / "work", folder / "reference", folder / "pristine"
    work.mkdir()
    (work / "key").write_bytes(driver.KEY)
    begin(source, options_of(work, SCENARIOS[name]))
    shutil.copytree(work, reference)
    shutil.copytree(work, pristine)
    options, unkilled = (options_of(place, SCENARIOS[name]) for place in (work, reference))
    started = time.perf_counter()
    command.release(source=source, **unkilled, quiet=True)
    seconds = time.perf_counter() - started
    wanted = [path.read_bytes() for path in outputs(unkilled)]
    begun = partial(driver.child, source, options)
    kinds, attempts = Counter(), 0
    while sum(kinds.values()) < kills and attempts < 8 * kills:
        attempts += 1
        kind = trial(begun, FAULTS, rng, faults, seconds=(0.0, seconds), calls=14)
        kinds.update([kind] if kind else [])
        for path, text in zip(outputs(options), wanted, strict=True):
            if path.exists():  # whatever was written is the beginning of what will be
                assert text.startswith(path.read_bytes()), f"{name}: rows changed after {kind}"
        if kind is None:
            shutil.rmtree(work)
            shutil.copytree(pristine, work)
    _, status = os.waitpid(driver.child(source, options), 0)
    assert status == 0, f"{name}: a run that was left alone failed"
    for ours, theirs in zip(outputs(options), outputs(unkilled), strict=True):
        assert ours.read_bytes() == theirs.read_bytes(), f"{name}: other bytes"
        facts = [path.with_name(path.name + ".meta.json").read_bytes() for path in (ours, theirs)]
        assert facts[0] == facts[1], f"{name}: other facts"
    assert driver.facts_of(work, options, True) == driver.facts_of(reference, unkilled, True)
    return {"scenario": name, "kills": sum(kinds.values()), "attempts": attempts, "kinds": kinds}


def main():
    folder, seed, kills = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng, draws = random.Random(seed), np.random.default_rng(seed)
    ticks = np.cumsum(draws.integers(0, 900, ROWS))
    moments = np.datetime64("2024-01-01T00:00:00") + ticks.astype("timedelta64[s]")
    zones = draws.choice(["a", "b", "c", "undeclared"], ROWS, p=[0.5, 0.3, 0.1, 0.1])
    columns = draws.integers(0, 400, ROWS), draws.integers(0, 60, ROWS), zones, moments
    rows = "".join(",".join(map(str, row)) + "\n" for row in zip(*columns, strict=True))
    (folder / "in.csv").write_text("value,tip,zone,when\n" + rows)
    (folder / "zones.txt").write_text("a\nb\nc\nnever\n")
    wanted = sys.argv[4:] or list(SCENARIOS)
    driver.run_scenarios(scenario, wanted, sorted(FAULTS), folder, kills, rng)


if __name__ == "__main__":
    main()
