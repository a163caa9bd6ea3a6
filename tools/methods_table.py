"""Writes the table of methods in docs/guides/choosing-methods.md: `methods_table.py [--check]`."""

from __future__ import annotations

import sys
from pathlib import Path

from tidegate.methods import Method, registered

PAGE = Path(__file__).parent.parent / "docs" / "guides" / "choosing-methods.md"
BEGIN, END = "<!-- methods: begin (tools/methods_table.py) -->", "<!-- methods: end -->"


def row(method: Method) -> str:
    """One line of the table."""
    cells = (
        f"`{method.preset.__name__}`",
        method.model,
        method.unit,
        method.promise,
        method.summary,
        method.reference,
    )
    return f"| {' | '.join(cells)} |"


def with_table() -> str:
    """The page with a current table."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    head = "| preset | model | protects | guarantee | what it does | reference |"
    table = "\n".join((head, "|---" * 6 + "|", *map(row, registered())))
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main() -> int:
    """Write the page, or say whether it is current."""
    wanted = with_table()
    if "--check" in sys.argv[1:]:
        if PAGE.read_text(encoding="utf-8") != wanted:
            print(f"{PAGE} is stale: run python tools/methods_table.py")
            return 1
        return 0
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
