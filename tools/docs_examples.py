"""For mkdocstrings: the `>>>` examples of docstrings become code blocks.

Markdown would take `>>>` for three nested quotations. An example starts at a line with `>>>` and
ends before the next empty line, as for doctest.
"""

from importlib import import_module
from typing import Any

# Not an import statement: where types are checked, the docs extra is not installed.
griffe: Any = import_module("griffe")


class FencedExamples(griffe.Extension):  # type: ignore[misc]  # of type Any, see above
    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring and ">>> " in obj.docstring.value:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if not inside and line.lstrip().startswith(">>> "):
            lines += ["", "```pycon"]
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line)
    return "\n".join([*lines, "```"] if inside else lines)
