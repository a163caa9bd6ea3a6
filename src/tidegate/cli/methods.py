"""`tidegate methods`: list the methods in `tidegate.methods`."""

from __future__ import annotations

import json
from inspect import Parameter, signature
from typing import Annotated, Any

import typer

from tidegate.cli.exit_codes_and_signals import errors_as_exit_codes
from tidegate.errors import SettingError
from tidegate.exact_numbers import said
from tidegate.methods import Method, registered, series_schemes
from tidegate.methods._parts import Part, parts
from tidegate.tables.plain_text import table


def methods(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Show the arguments of this method.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the methods for --preset, or the arguments of one.

    "Protects" is the unit that the noise is made for. Most methods can protect larger units
    (--unit), by group privacy. Methods of the local model have their own commands (`tidegate
    local`); schemes for series of users are in the library (`tidegate.local.series`). Below the
    methods come their parts: rules for thresholds, reports of devices, and sums that can be made of
    what was released.

    Examples:

    \b
      tidegate methods
      tidegate methods fast
      tidegate methods --json
    """  # noqa: D301  # \b keeps the lines of the examples
    with errors_as_exit_codes():
        known = {method.name: method for method in (*registered(), *series_schemes())}
        if name is None:
            rows = [_method_facts(method) for method in known.values()]
            more = [_method_part_facts(part) for part in parts()]
            typer.echo(
                _methods_as_json([*rows, *more])
                if as_json
                else f"{_list_methods(rows)}\n\n{_list_method_parts(more)}"
            )
            return
        if name not in known:
            raise SettingError("name", f"must be one of {', '.join(known)}, not {said(name)}")
        facts = {**_method_facts(known[name]), "arguments": _method_arguments(known[name])}
        typer.echo(_methods_as_json(facts) if as_json else _one_method(facts))


def _method_facts(method: Method) -> dict[str, Any]:
    return {
        "name": method.name,
        "kind": "method",
        "model": method.model,
        "protects": method.unit,
        "guarantee": method.promise,
        "summary": method.summary,
        "when": method.when,
        "reference": method.reference,
    }


def _method_part_facts(part: Part) -> dict[str, Any]:
    return {
        "name": part.name,
        "kind": part.kind,
        "guarantee": part.promise,
        "summary": part.summary,
        "when": part.when,
        "reference": part.reference,
    }


def _method_arguments(method: Method) -> list[dict[str, Any]]:
    taken = signature(method.preset).parameters
    return [
        {
            "name": name,
            "default": None if taken[name].default is Parameter.empty else str(taken[name].default),
            "meaning": meaning,
        }
        for name, meaning in method.arguments().items()
    ]


def _methods_as_json(data: Any) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False)


def _list_methods(rows: list[dict[str, Any]]) -> str:
    head = ("method", "model", "protects", "guarantee", "what it does")
    columns = ("name", "model", "protects", "guarantee", "summary")
    listed = table(head, [[row[column] for column in columns] for row in rows], left=len(head))
    advice = [f"{row['name']}: {row['when']}\n    {row['reference']}" for row in rows]
    return "\n".join((listed, "", "Choose it when, and where it was published:", "", *advice))


def _list_method_parts(rows: list[dict[str, Any]]) -> str:
    head = ("part", "kind", "guarantee", "what it does", "choose it when", "where it was published")
    columns = ("name", "kind", "guarantee", "summary", "when", "reference")
    listed = table(head, [[row[column] for column in columns] for row in rows], left=len(head))
    return f"Parts, for programs (`import tidegate`):\n\n{listed}"


def _one_method(facts: dict[str, Any]) -> str:
    rows = [
        (item["name"], item["default"] or "required", item["meaning"])
        for item in facts["arguments"]
    ]
    return "\n".join(
        (
            f"{facts['name']}: {facts['summary']}",
            f"guarantee: {facts['guarantee']} per {facts['protects']}, {facts['model']} model",
            f"choose it when: {facts['when']}",
            f"reference: {facts['reference']}",
            "",
            table(("argument", "default", "meaning"), rows, left=3),
        )
    )
