"""Writes what the docs say about all methods: `methods_table.py [--check]`.

The tables in docs/reference/methods.md, and the page docs/reference/presets.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # when a test imports it
sys.path.insert(1, str(Path(__file__).parents[1]))  # benchmarks

from generated import write_or_check

from benchmarks import noise_variances
from tidegate.methods import Method, names, registered, series_schemes
from tidegate.methods._registration import SHARED

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "reference" / "methods.md"
REFERENCE = DOCS / "reference" / "presets.md"
BEGIN, END = "<!-- methods: begin (tools/methods_table.py) -->", "<!-- methods: end -->"
BEGIN_NOISE = "<!-- noise: begin (tools/methods_table.py) -->"
END_NOISE = "<!-- noise: end -->"

_UNITS = {
    "event": "one event",
    "window": "a window of values, natively",
    "series": "all that a user ever reports",
}


def row(method: Method) -> str:
    """One line of the table."""
    cells = (
        f"`{method.preset.__name__}`"
        if method in registered()
        else f"`local.series.{method.name}`",
        method.promise,
        method.summary,
        method.when,
        method.reference,
    )
    return f"| {' | '.join(cells)} |"


def tables() -> str:
    """One for each unit and model: methods of different ones are no rivals."""
    head = "| preset | guarantee | what it does | choose it when | reference |"
    groups: dict[str, list[Method]] = {}
    for method in (*registered(), *series_schemes()):
        model = "Local model" if method.model == "local" else "Central model"
        unit = _UNITS[method.unit]
        groups.setdefault(f"{model}, ε protects {unit}", []).append(method)
    return "\n\n".join(
        "\n".join((f"**{title}**", "", head, "|---" * 5 + "|", *map(row, group)))
        for title, group in sorted(
            groups.items(),
            key=lambda item: (item[0][0], "window" in item[0], "ever" in item[0]),
        )
    )


def variances() -> str:
    """What the noise of hierarchies and running sums amounts to."""
    rows = [
        f"| {row.noise} | {row.guarantee} | {row.ranges:,.0f}"
        + (f" ({row.published:,})" if row.published else "")
        + f" | {row.running_sums:,.0f} |"
        for row in noise_variances.table()
    ]
    return "\n".join(
        ("| noise | guarantee | random ranges | running sums |", "|---" * 4 + "|", *rows)
    )


def with_tables() -> str:
    """The page with current tables."""
    text = PAGE.read_text(encoding="utf-8")
    for (begin, end), made in {(BEGIN, END): tables, (BEGIN_NOISE, END_NOISE): variances}.items():
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n{made()}\n{end}{after}"
    return text


def reference() -> str:
    """The page of the reference: shared arguments, then every file."""
    shared = "\n".join(f"| `{name}` | {meaning} |" for name, meaning in SHARED.items())
    files = "\n\n".join(f"::: tidegate.methods.{name}" for name in names())
    return f"""# Presets

One file a method: a function that makes a `Pipeline` (`topl`: a specification of the local model),
and the stages that only this method has. Arguments with these names mean the same in each:

| argument | meaning |
|---|---|
{shared}

{files}
"""


def main() -> int:
    """Write the pages, or say whether they are current."""
    wanted = {PAGE: with_tables(), REFERENCE: reference()}
    return write_or_check(wanted, "methods_table.py")


if __name__ == "__main__":
    sys.exit(main())
