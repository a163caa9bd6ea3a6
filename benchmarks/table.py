"""One measured number a row, its target and the verdict; and how a table of them is printed."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import progress

MET, BETTER, MISSED, INFORMATION = "met", "better", "MISSED", "-"


@dataclass(frozen=True)
class Row:
    """What was measured. Without a verdict of its own, a row is information and has no target."""

    name: str
    measured: float
    unit: str = ""
    target: float | None = None
    sign: str = ""  # how the target is meant, for the reader
    verdict: str = INFORMATION
    note: str = ""

    def cells(self) -> tuple[str, str, str, str, str]:
        wanted = "" if self.target is None else f"{self.sign} {number(self.target)} {self.unit}"
        return (
            self.name,
            f"{number(self.measured)} {self.unit}".strip(),
            wanted.strip(),
            self.verdict,
            self.note,
        )

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def measured(parts: Mapping[str, Callable[[bool], list[Row]]], quick: bool) -> list[Row]:
    """The rows of all parts, one part after the other."""
    rows = []
    for name, part in parts.items():
        progress(name)
        rows += part(quick)
    return rows


def at_most(name: str, measured: float, target: float, unit: str = "", note: str = "") -> Row:
    """A target that is met from below: time, memory, a ratio of times."""
    return Row(name, measured, unit, target, "<=", MET if measured <= target else MISSED, note)


def at_least(name: str, measured: float, target: float, unit: str = "", note: str = "") -> Row:
    """A target that is met from above: throughput, a speed-up."""
    return Row(name, measured, unit, target, ">=", MET if measured >= target else MISSED, note)


def within_factor_two(name: str, measured: float, target: float, note: str = "") -> Row:
    """A number to reproduce. Less than half of it is better, more than twice is a miss."""
    verdict = MISSED if measured > 2 * target else BETTER if measured < target / 2 else MET
    return Row(name, measured, "", target, "2x of", verdict, note)


def within(name: str, measured: float, target: float, tolerance: float, note: str = "") -> Row:
    """A published number to meet, up to a share of it."""
    met = abs(measured - target) <= tolerance * target + 1e-12
    return Row(
        name, measured, "", target, f"±{100 * tolerance:g} % of", MET if met else MISSED, note
    )


def number(value: float) -> str:
    """Short for people: three digits, an exponent only where it saves counting zeros."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:.3g}" if abs(value) < 1e3 else f"{value:,.0f}"
    return f"{value:.2e}"


def show(title: str, rows: Sequence[Row]) -> None:
    header = ("name", "measured", "target", "verdict", "note")
    lines = [header, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    print(f"\n{title}")
    for index, (name, measured, target, verdict, note) in enumerate(lines):
        print(
            f"  {name:<{widths[0]}}  {measured:>{widths[1]}}  {target:>{widths[2]}}  "
            f"{verdict:<{widths[3]}}  {note}".rstrip()
        )
        if index == 0:
            print("  " + "-" * (sum(widths) + 10))


def machine() -> dict[str, str]:
    """Facts without which the numbers mean little."""
    load = f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "unknown"
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "load average": load,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
