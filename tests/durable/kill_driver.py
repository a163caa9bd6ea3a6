"""Kills durable releases at random moments and inside writes, and compares bytes (test_kills)

    PYTHONPATH=. python tests/durable/kill_driver.py FOLDER SEED KILLS

Everything is imported once; every trial is a forked child that runs the function behind `tidegate
release` on a file. After the kills of a scenario one run goes to the end, and what it wrote must
be, byte for byte, what a run wrote that was never killed and began from a copy of the same state.
Prints one line of JSON per scenario.
"""

import gc
import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from functools import partial
from itertools import cycle
from pathlib import Path

import numpy as np
import pyarrow.parquet  # noqa: F401  # so that no child has to
import typer
import zstandard  # noqa: F401  # the same

import tidegate.io
from tests.ways_to_die import countdown, die, trial
from tidegate import _atomic_files
from tidegate.cli import release as command
from tidegate.cli.pipeline_from_options import build_pipeline
from tidegate.durable import DurableRelease
from tidegate.durable.state_stores import FolderStore
from tidegate.io import output_recovery
from tidegate.io.batches import Batch
from tidegate.io.output_file_or_pipe import OutputBytes
from tidegate.ledger import Ledger
from tidegate.ledger.ledger_file import LedgerFile

ROWS, SPLIT = 1600, 100
KEY = bytes(range(32))
BASE = {"epsilon": "1", "bound": "1000", "holdout": 240, "horizon": 410, "fanout": 4}
BASE |= {"preset": "tops", "resolution": "1"}
SCENARIOS = {
    "csv, block 1": ("csv", False, {"skipped": 0}),
    "csv, block 16, key, non-negative": ("csv", True, {"skipped": 2, "non_negative": True}),
    "jsonl, block 1, shared": (
        "jsonl", False, {"skipped": 0, "rethreshold": "every=800,share=0.2"},
    ),
    "jsonl, block 4, blocked, key": ("jsonl", True, {"skipped": 1, "rethreshold": "every=680"}),
    "parquet, block 16, shared": (
        "parquet", False, {"skipped": 2, "rethreshold": "every=960,share=1/4"},
    ),
    "parquet, block 1, key": ("parquet", True, {"skipped": 0, "non_negative": True}),
    "csv.gz, block 4, blocked": (
        "csv.gz", False, {"skipped": 1, "rethreshold": "every=560", "non_negative": True},
    ),
    "csv.gz, block 1, key": ("csv.gz", True, {"skipped": 0}),
    "csv, block 4, early, key": ("csv", True, {"skipped": 1, "start_early": 100}),
    "jsonl.zst, block 4, windows": ("jsonl.zst", False, {"skipped": 1, "unit": "window:3"}),
    "csv, block 1, users": (
        "csv", True, {"skipped": 0, "unit": "user-horizon:2", "user_column": "user"},
    ),
    "csv, adaptive, key": ("csv", True, {"preset": "adaptive", "fanout": None, "holdout": None}),
    "csv, adaptive, lower": (
        "csv", False, {"preset": "adaptive", "fanout": None, "holdout": None, "lower": "-300"},
    ),
    "jsonl.zst, adaptive, held out": ("jsonl.zst", True, {"preset": "adaptive", "fanout": None}),
    "parquet, adaptive, blocked": (
        "parquet", False,
        {"preset": "adaptive", "fanout": None, "non_negative": True, "rethreshold": "every=800"},
    ),
    "csv, adaptive, times": (
        "csv", True,
        {
            "preset": "adaptive", "fanout": None, "holdout": None, "time": "when",
            "zone": "Europe/Berlin",
        },
    ),
    "jsonl, block 4, numbers as times": ("jsonl", False, {"skipped": 1, "time": "epoch"}),
    "parquet, block 1, late times": (
        "parquet", True, {"skipped": 0, "time": "late", "late": "keep"},
    ),
}  # fmt: skip


class Split:
    """A source in batches of about a hundred rows."""

    def __init__(self, source):
        self._source = source

    def batches(self):
        for batch in self._source.batches():
            step = random.randint(SPLIT // 2, 2 * SPLIT)  # a restart falls inside a batch
            for start in range(0, len(batch), step):
                yield batch.part(start, start + step)

    def fraction(self):
        return None

    def __enter__(self):
        self._source.__enter__()
        return self

    def __exit__(self, *reason):
        self._source.__exit__(*reason)


# -- the ways to die -------------------------------------------------------------------------------


def half_of_output(outgoing, data):
    view = memoryview(data)
    os.write(outgoing._descriptor, view[: len(view) // 2])
    die()


def half_of_ledger(chain, data):
    os.write(chain._file.fileno(), data[: len(data) // 2])
    die()


def replay_dies(number):
    original = DurableRelease.replay_rows

    def replay_rows(self, start=0):
        for index, piece in enumerate(original(self, start)):
            yield piece
            if index + 1 == number:
                die()

    DurableRelease.replay_rows = replay_rows


def commit_sees_kill(number):
    """SIGKILL from a thread while SQLite is writing."""
    import threading

    def arm(*_):
        def shoot():
            time.sleep(random.random() * 2e-3)
            os.kill(os.getpid(), signal.SIGKILL)

        threading.Thread(target=shoot, daemon=True).start()

    countdown(FolderStore, "commit", number, before=arm)


FAULTS = {
    "output write torn": lambda n: countdown(OutputBytes, "write", n, before=half_of_output),
    "after output write": lambda n: countdown(OutputBytes, "write", n, after=die),
    "before commit": lambda n: countdown(FolderStore, "commit", n, before=die),
    "after commit": lambda n: countdown(FolderStore, "commit", n, after=die),
    "inside commit": commit_sees_kill,
    "before charge": lambda n: countdown(Ledger, "charge", 1 + n % 2, before=die),
    "charged, not committed": lambda n: countdown(Ledger, "charge", 1 + n % 2, after=die),
    "ledger entry torn": lambda n: countdown(
        LedgerFile, "_write", 1 + n % 2, before=half_of_ledger
    ),
    "in replay": lambda n: replay_dies(1 + n % 3),
    "after mending": lambda n: countdown(output_recovery, "_mend_output", 1 + n % 2, after=die),
    "before rename": lambda n: countdown(_atomic_files, "rename", 1 + n % 3, before=die),
    "after rename": lambda n: countdown(_atomic_files, "rename", 1 + n % 3, after=die),
    "recognising": lambda n: countdown(Batch, "__init__", 4 * n, before=die),
}


# -- runs ------------------------------------------------------------------------------------------


def options_of(folder, extension, key, extra):
    options = {**BASE, **extra, "output": str(folder / f"out.{extension}"), "column": "value"}
    for name in {"column", "bound", "lower", "resolution"} & options.keys():
        options[name] = [options[name]]  # these may be given for each column
    options["state"] = folder / "state"
    if key:
        options["key_file"] = folder / "key"
    return options


def child(source, options, arm=None):
    """Run a release in a forked child; gives its process id."""
    process = os.fork()
    if process:
        return process
    try:
        null = os.open(os.devnull, os.O_RDWR)
        if not os.environ.get("KILL_DRIVER_LOUD"):
            os.dup2(null, 2)
        random.seed(os.getpid())
        original = tidegate.io.open_source
        tidegate.io.open_source = lambda *given, **named: Split(original(*given, **named))
        if arm is not None:
            arm()
        command.release(source=source, **options, quiet=True)
    except typer.Exit as result:
        os._exit(result.exit_code)
    except BaseException:  # noqa: BLE001  # whatever it is, it must not return to the parent's code
        import traceback

        traceback.print_exc()
        os._exit(99)
    os._exit(0)


def finish(source, options):
    _, status = os.waitpid(child(source, options), 0)
    if status:
        raise SystemExit(
            f"a run that was left alone ended with {os.waitstatus_to_exitcode(status)}"
        )


def facts_of(folder, options, key):
    """What must agree besides the output: the ledger, but for its times and the hashes of these."""
    ledger = Ledger.open(folder / "state" / "ledger.jsonl", read_only=True)
    charges = [
        (item.source, item.epoch, item.stage, item.start, item.end, str(item.guarantee))
        for item in ledger.charges()
    ]
    total = str(ledger.total())
    ledger.close()
    return charges, total


def scenario(folder, name, kills, rng, faults):
    extension, key, extra = SCENARIOS[name]
    folder.mkdir(parents=True)
    source = str(folder.parent / "in.csv")
    names = {
        option.replace("_", "-"): value
        for option, value in {**BASE, **extra}.items()
        if value is not None
    }
    work, reference, pristine = folder / "work", folder / "reference", folder / "pristine"
    work.mkdir()
    (work / "key").write_bytes(KEY)
    DurableRelease.open(work / "state", build_pipeline(names), key=KEY if key else None).close()
    shutil.copytree(work, reference)
    shutil.copytree(work, pristine)
    options = options_of(work, extension, key, extra)
    unkilled = options_of(reference, extension, key, extra)
    # Here: no child has to import or plan anything.
    command.release(source=source, **unkilled, quiet=True)
    wanted = Path(unkilled["output"]).read_bytes()
    kinds = Counter()
    attempts = 0
    while sum(kinds.values()) < kills and attempts < 6 * kills:
        attempts += 1
        kind = trial(
            partial(child, source, options), FAULTS, rng, faults, seconds=(0.001, 0.030), calls=12
        )
        kinds.update([kind] if kind else [])
        output = Path(options["output"])
        if extension in ("csv", "jsonl") and output.exists():
            # Whatever was written is the beginning of what will be: nothing re-noised ever left.
            assert wanted.startswith(output.read_bytes()), f"{name}: rows changed after {kind}"
        if kind is None:  # all is done: write it anew from the journal, or begin all over
            output.unlink()
            if rng.random() < 0.5:
                shutil.rmtree(work)
                shutil.copytree(pristine, work)
    finish(source, options)
    assert Path(options["output"]).read_bytes() == wanted, f"{name}: other bytes"
    sidecar = Path(options["output"] + ".meta.json")
    if extension != "parquet":
        facts = Path(unkilled["output"] + ".meta.json").read_bytes()
        assert sidecar.read_bytes() == facts, f"{name}: other facts"
    left = [path.name for path in work.iterdir() if path.name.endswith(".partial")]
    assert not left, f"{name}: left behind {left}"
    assert facts_of(work, options, key) == facts_of(reference, unkilled, key), f"{name}: charges"
    return {"scenario": name, "kills": sum(kinds.values()), "attempts": attempts, "kinds": kinds}


def run_scenarios(scenario, wanted, faults, folder, kills, rng):
    """Divide the kills among the scenarios; print a line of JSON for each."""
    ways = cycle(rng.sample(faults, len(faults)))
    gc.disable()  # it would touch, and so copy, the parent's pages in every child
    for number, name in enumerate(wanted):
        share = kills // len(wanted) + (number < kills % len(wanted))
        result = scenario(folder / f"scenario-{number}", name, share, rng, ways)
        print(json.dumps(result), flush=True)  # noqa: T201  # what the test reads


def main():
    folder, seed, kills = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(seed)
    values = np.random.default_rng(seed).integers(-90, 400, ROWS)
    users = np.random.default_rng(seed + 1).integers(0, 900, ROWS)
    # Irregular, with equal ones: naive times with fractions, milliseconds, and some that go back.
    ticks = np.cumsum(np.random.default_rng(seed + 2).choice([0, 1, 900_000, 900_000], ROWS))
    moments = np.datetime64("2024-01-01T00:00:00.000", "ms") + ticks.astype("timedelta64[ms]")
    late = moments - np.random.default_rng(seed + 3).integers(0, 2, ROWS).astype("timedelta64[s]")
    columns = (values, users, moments, moments.astype(np.int64), late)
    rows = "".join(",".join(map(str, row)) + "\n" for row in zip(*columns, strict=True))
    (folder / "in.csv").write_text("value,user,when,epoch,late\n" + rows)
    run_scenarios(scenario, sys.argv[4:] or list(SCENARIOS), sorted(FAULTS), folder, kills, rng)


if __name__ == "__main__":
    main()
