"""`python -m benchmarks`: measure, print tables, say how many targets were missed."""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from pathlib import Path

from benchmarks import (
    accuracy,
    command_line,
    local,
    local_accuracy,
    local_js,
    local_server,
    memory,
    scoring,
    speed,
)
from benchmarks.table import MISSED, Row, machine, show

_PARTS = {
    "speed": speed,
    "accuracy": accuracy,
    "memory": memory,
    "command-line": command_line,
    "scoring": scoring,
    "local": local,
    "local-server": local_server,
    "local-js": local_js,
    "local-accuracy": local_accuracy,
}
_ONLY_WHEN_NAMED = {"local-accuracy"}  # takes a quarter of an hour
_HELP = """\
parts (all but the last by default):
  speed     bulk and single pushes, sampler, forest against opendp, queries, thresholds, import
  accuracy  the authors' results on POS, reproduced; TIDEGATE_DATA names the folder with the data
  memory    peak memory of a long stream against a short one
  command-line  start-up, throughput and latency of `tidegate release`, with and without state
  scoring   200 ranges over 2^20 values, as the experiments score
  local     the local model: rates of reports, densities against a dense matrix, variances
  local-server  devices and server of the local model over arrays: rates, peak memory
  local-js  reports per second of the JavaScript client in Node
  local-accuracy  the local model on eight streams, against published ToPL and the research note
"""


def main() -> None:
    options = _parse()
    facts = machine()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # in step with progress, in a pipe too
    print("Machine: " + ", ".join(f"{name} {fact}" for name, fact in facts.items()))
    if options.quick:
        print("Quick: smaller sizes and fewer repeats; the full run decides.")
    measured: dict[str, list[Row]] = {}
    for part in options.parts:
        start = time.perf_counter()
        measured[part] = _PARTS[part].measure(options.quick)
        show(f"{part} ({time.perf_counter() - start:.0f} s)", measured[part])
    rows = [row for part in measured.values() for row in part]
    missed = [row for row in rows if row.verdict == MISSED]
    targets = sum(row.target is not None for row in rows)
    print(f"\n{len(missed)} of {targets} targets missed" + (":" if missed else "."))
    for row in missed:
        print(f"  {row.name}")
    if options.json:
        tables = {part: [row.plain() for row in rows] for part, rows in measured.items()}
        options.json.write_text(
            json.dumps({"machine": facts, "quick": options.quick, **tables}, indent=1) + "\n"
        )


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure Tidegate here and now. A missed target is information, not failure.",
        epilog=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(_PARTS)}")
    parser.add_argument("--quick", action="store_true", help="smaller sizes: a minute in all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")
    options = parser.parse_args()
    unknown = [part for part in options.parts if part not in _PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}: choose from {', '.join(_PARTS)}")
    options.parts = options.parts or [part for part in _PARTS if part not in _ONLY_WHEN_NAMED]
    return options


if __name__ == "__main__":
    main()
