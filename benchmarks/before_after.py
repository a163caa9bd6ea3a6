"""`python -m benchmarks.before_after FOLDER`: the speed of this checkout against another one.

FOLDER is a checkout with its own `.venv` (`git worktree add ../before COMMIT`, `make test` there).
Both run their own `benchmarks speed` in turns, so a machine that slows down slows down both; the
best of several rounds counts for each row. Rows that only one of the two has are listed apart.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

# Units in which less is better; in the others more is.
_COST_RATIO = "times"
_TIMES = ("s", "ms", "us", "µs", "ns", "kB", "MB", _COST_RATIO)
_SLOWER = 0.95


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="the checkout to compare with")
    parser.add_argument("--part", default="speed", help="which part of the benchmarks")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--full", action="store_true", help="full sizes instead of --quick")
    options = parser.parse_args()
    here = Path(__file__).resolve().parents[1]
    best: dict[Path, dict[str, tuple[float, str]]] = {here: {}, options.folder.resolve(): {}}
    for number in range(options.rounds):
        # Who goes first changes from round to round.
        for folder in sorted(best, reverse=number % 2 == 1):
            for name, (value, unit) in _measured(folder, options.part, options.full).items():
                before = best[folder].get(name, (value, unit))[0]
                better = min if _is_cost(unit) else max
                best[folder][name] = (better(before, value), unit)
    _show(best[options.folder.resolve()], best[here])


def _measured(folder: Path, part: str, full: bool) -> dict[str, tuple[float, str]]:
    with tempfile.TemporaryDirectory() as scratch:
        table = Path(scratch) / "rows.json"
        command = [".venv/bin/python", "-m", "benchmarks", part, "--json", str(table)]
        subprocess.run(
            command if full else [*command, "--quick"],
            cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        rows = json.loads(table.read_text(encoding="utf-8"))[part]
    # A ratio to a rival may be better if it is less or if it is more: its target says which.
    return {
        row["name"]: (row["measured"], _COST_RATIO if _is_least(row) else row["unit"])
        for row in rows
    }


def _is_least(row: dict[str, Any]) -> bool:
    return bool(row["unit"] == "x" and row["sign"] == "<=")


def _is_cost(unit: str) -> bool:
    return unit.partition(" ")[0] in _TIMES


def _show(before: dict[str, tuple[float, str]], after: dict[str, tuple[float, str]]) -> None:
    print(f"{'row':<58} {'before':>10} {'after':>10}  ratio (above 1: better now)")
    slower = []
    for name in before.keys() & after.keys():
        old, unit = before[name]
        new = after[name][0]
        if min(old, new) <= 0:
            continue
        ratio = old / new if _is_cost(unit) else new / old
        slower += [name] if ratio < _SLOWER else []
        print(f"{name:<58} {old:>10.4g} {new:>10.4g}  {ratio:.2f}  {unit}")
    for title, only in (("before", before.keys() - after.keys()), ("now", after.keys() - before)):
        print(f"only {title}: {', '.join(sorted(only)) or 'none'}")
    print(f"{len(slower)} rows below {_SLOWER}" + "".join(f"\n  {name}" for name in sorted(slower)))


if __name__ == "__main__":
    main()
