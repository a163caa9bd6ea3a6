"""`docs/reproduction.md`, written from results; `--check` holds its structure against the figures.

Numbers come from a long run, which tests do not repeat; so the check is of structure: every figure
has its section with its command, every claim its row with a verdict, and
nothing is left of figures and claims that are gone.
"""

from __future__ import annotations

import json
from pathlib import Path

from experiments.cells import Wanted, cells
from experiments.claims import FAILS, HOLDS, PART, UNKNOWN, Verdict, verdicts
from experiments.claims.lookup import Lookup
from experiments.errors import ExperimentError
from experiments.figures import Figure, figures
from experiments.results import Row, Store
from experiments.summary import gathered

PAGE = Path(__file__).parent.parent / "docs" / "reproduction.md"
_HEAD = """# Reproduction

Every figure of the paper, what the paper says about it, and whether it holds. This page is written
from results by `python -m experiments page`; verdicts are computed from medians over runs, never
typed.

```sh
make experiments          # everything: run, pictures, experiments/results/report.html
make experiments-quick    # the same with few runs and few ε
python -m experiments list
python -m experiments run hie --datasets pos
```

Where the paper's data are not public or not at hand, a **synthetic twin** takes their place: made
from the quantiles that the paper prints, and from nothing else. Real streams of the same kind stand
beside the twins. Where a stream is too short it is **mirrored**, as the authors do: then records
recur, and no privacy claim describes it. `python -m experiments data fetch kosarak` and `data add`
bring real data in.

A claim holds if every number it speaks of lies in its band; *in part* says in how many cells
(stream × ε) it does. “Measured” is the geometric mean over cells, with the lowest and the highest.
Claims are the paper's unless marked: *notes* are from the project's reading of the paper and
measurements with the authors' code, *ours* are our own.
"""
_MARKS = {"paper": "", "reading notes": " *(notes)*", "ours": " *(ours)*"}


def page(wanted: Wanted, store: Store) -> str:
    """The whole page."""
    chosen = list(figures().values())
    found = gathered(chosen, wanted, store)
    if not any(found.values()):
        raise ExperimentError(f"there are no results of a full run in {store.folder}")
    judged = {figure.name: verdicts(figure, Lookup(found[figure.name])) for figure in chosen}
    parts = [_HEAD, _facts(found, wanted, store), _overview(chosen, judged)]
    parts += [_section(figure, judged[figure.name]) for figure in chosen]
    return "\n".join(parts)


def check(text: str) -> list[str]:
    """What the page lacks, or has too much of, beside the figures as they are declared now."""
    faults = []
    sections = dict(_sections(text))
    for figure in figures().values():
        body = sections.pop(figure.title, None)
        if body is None:
            faults.append(f"no section for {figure.name}")
            continue
        if f"python -m experiments run {figure.name}`" not in body:
            faults.append(f"{figure.name}: its command is missing")
        rows = [line for line in body.splitlines() if line.startswith("| ")][1:]
        claims = {
            line.split(" | ")[0].removeprefix("| "): line for line in rows if "---" not in line
        }
        for claim in figure.claims:
            line = claims.pop(_cell(claim["says"]) + _MARKS[claim.get("by", "paper")], "")
            if not any(verdict in line for verdict in (HOLDS, PART, FAILS, UNKNOWN)):
                faults.append(f"{figure.name}: no verdict on “{claim['says']}”")
        faults += [f"{figure.name}: a claim that is no longer made: “{gone}”" for gone in claims]
    faults += [f"a section without a figure: {title}" for title in sections]
    return faults


def _sections(text: str) -> list[tuple[str, str]]:
    pieces = text.split("\n## ")[1:]
    named = [(piece.partition("\n")[0].strip(), piece) for piece in pieces]
    return [(title, body) for title, body in named if title not in ("Overview", "How it was run")]


def _facts(found: dict[str, list[Row]], wanted: Wanted, store: Store) -> str:
    rows = [row for lines in found.values() for row in lines]
    runs = json.loads((store.folder / "runs.json").read_text(encoding="utf-8"))
    last = runs[-1]
    every = [cell for figure in figures().values() for cell in cells(figure, wanted)]
    minutes = store.processor_seconds(every) / 60
    sources: dict[str, str] = {}
    for row in rows:
        sources.setdefault(row.label, f"{row.source} | `{row.checksum[:16]}…`")
    lines = [
        "## How it was run\n",
        f"Tidegate {', '.join(sorted({row.version for row in rows}))} on {last['machine']}, "
        f"Python {last['python']}, numpy {last['numpy']}; "
        f"seed {_listed({row.seed for row in rows})}, "
        f"{_listed({row.ranges for row in rows})} ranges. "
        f"{minutes:.0f} processor minutes in all: half of that on two free cores.\n",
        "| stream | what it is | sha256 of its values |\n|---|---|---|",
        *(f"| {label} | {source} |" for label, source in sources.items()),
    ]
    return "\n".join(lines) + "\n"


def _overview(chosen: list[Figure], judged: dict[str, list[Verdict]]) -> str:
    lines = ["## Overview\n", "| figure | holds | in part | does not hold |\n|---|---|---|---|"]
    for figure in chosen:
        every = [verdict.verdict for verdict in judged[figure.name]]
        counts = " | ".join(str(every.count(kind)) for kind in (HOLDS, PART, FAILS))
        lines.append(f"| `{figure.name}`: {_cell(figure.title)} | {counts} |")
    return "\n".join(lines) + "\n"


def _section(figure: Figure, judged: list[Verdict]) -> str:
    where = f"`{figure.label}` of the paper" if figure.label else "Not in the paper"
    lines = [
        f"## {figure.title}\n",
        f"{where}. `python -m experiments run {figure.name}`\n",
        f"{figure.about}\n",
        "| claim | checked as | measured | verdict | not on |\n|---|---|---|---|---|",
    ]
    lines += [_row(verdict) for verdict in judged]
    return "\n".join(lines) + "\n"


def _row(verdict: Verdict) -> str:
    fails = dict.fromkeys(
        f"{check.where.label}{', ' + check.where.setting if check.where.setting else ''}"
        for check in verdict.checks
        if not check.holds
    )
    judgement = f"**{verdict.verdict}**" + (f" ({verdict.count})" if verdict.checks else "")
    cells = (
        _cell(verdict.says) + _MARKS[verdict.by],
        _cell(verdict.expected),
        verdict.spread if verdict.checks else "",
        judgement,
        _cell("; ".join(fails)) if not verdict.somewhere else "",
    )
    return f"| {' | '.join(cells)} |"


def _listed(numbers: set[int]) -> str:
    return ", ".join(str(number) for number in sorted(numbers))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
