"""`Method`: the registration of a published method; and the list of schemes for series of users."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from inspect import signature
from typing import Any

from tidegate.guarantee import Guarantee
from tidegate.settings import Spec

# What an argument means in every preset that takes it; a docstring says where it means more.
SHARED: dict[str, str] = {
    "epsilon": "the budget ε of one unit of privacy",
    "bound": "public upper bound of a value; larger values count as this",
    "lower": "public lower bound of a value, 0 or below; smaller values count as this",
    "delta": "the δ of an (ε, δ) guarantee; None: 1/horizon²",
    "horizon": "the longest range that should be answered well, in values",
    "holdout": "how many values are spent on the threshold and not released",
    "resolution": "values are rounded to multiples of this; None: a small fraction of the bound",
    "fanout": "children per node of the hierarchy",
    "estimator": "how values inside a block are predicted; None: the last block's mean",
    "non_negative": "publish no negative values",
    "history": "how many released values queries can look back on; None: 16 horizons",
    "unit": "what ε protects; None: one event",
}
_HEADINGS = ("When: ", "Reference: ", "Args:")
_ARGUMENT_DEPTH = 8  # spaces before the name of an argument, in a docstring
# Settings for every preset that takes them, small enough for a short stream to cross horizons.
EXAMPLE = {"epsilon": "1/2", "bound": 40, "horizon": 60, "holdout": 37, "resolution": 1}


@dataclass(frozen=True)
class Method:
    """A published method: its preset, and what lists and tables show about it.

    What can be derived is derived: the name from the function; what it does, when to choose it and
    where it was published from its docstring (the first line, `When:` and `Reference:`); the unit
    and the kind of guarantee from a pipeline that the preset makes.

    Attributes:
        preset: makes the pipeline; public as `tidegate.<its name>`.
        stages: the classes of this file that stored settings may name, by their KIND.
        example: settings for an example with a horizon of 60 values, where the shared ones
            (`EXAMPLE`) do not do. The laws put this pipeline through everything.
        model: who is trusted: "central" or "local". (Said and not derived: listing the choices of
            a command must not load the local model. A test compares the two.)
    """

    preset: Callable[..., Any]
    stages: tuple[type[Spec], ...] = ()
    example: Mapping[str, Any] = field(default_factory=dict)
    model: str = "central"

    @property
    def name(self) -> str:
        """The name on the command line, with hyphens."""
        return self.preset.__name__.replace("_", "-")

    @property
    def summary(self) -> str:
        """What it does, in one line."""
        return (self.preset.__doc__ or "").partition("\n")[0].strip().removesuffix(".")

    @property
    def when(self) -> str:
        """The situation to choose it in, and its assumptions."""
        return _registered_paragraph(self.preset.__doc__ or "", "When:")

    @property
    def reference(self) -> str:
        """Where it was published."""
        return _registered_paragraph(self.preset.__doc__ or "", "Reference:")

    def made(self, **more: Any) -> Any:
        """The example's pipeline (its specification, for the local model)."""
        taken = signature(self.preset).parameters
        shared = {name: value for name, value in EXAMPLE.items() if name in taken}
        return self.preset(**{**shared, **self.example, **more})

    @property
    def guarantee(self) -> Guarantee:
        """The example's guarantee."""
        promised: Guarantee = self.made().guarantee
        return promised

    @property
    def promise(self) -> str:
        """The kind of guarantee, in short: what is bounded, and in which arithmetic."""
        return promise_of(self.guarantee)

    @property
    def unit(self) -> str:
        """What the noise is made for: "event", or "window" where ε protects one natively; "series":
        all that a user ever reports.

        (A larger unit than an event can be had of every method that takes `unit`, by group
        privacy.)
        """
        first = self.guarantee.unit.split()[0]
        return "series" if first == "user's" else first

    def arguments(self) -> dict[str, str]:
        """The meaning of each argument of the preset: from its docstring, or the shared one."""
        shared = {**SHARED, **getattr(self.preset, "meanings", {})}
        said = {**shared, **described_registration(self.preset.__doc__ or "", "Args:")}
        return {
            name: said.get(name, "").removesuffix(".") for name in signature(self.preset).parameters
        }


def promise_of(guarantee: Guarantee) -> str:
    """The kind of a guarantee, in short.

    >>> promise_of(Guarantee(epsilon=1, delta="1e-6", arithmetic="float"))
    '(ε, δ), float'
    """
    kind = "ρ (zCDP)" if guarantee.rho is not None else "(ε, δ)" if guarantee.delta else "ε"
    return kind if guarantee.arithmetic == "exact" else f"{kind}, {guarantee.arithmetic}"


def _registered_paragraph(docstring: str, heading: str) -> str:
    """The text after a heading, up to an empty line or the next heading, without its full stop."""
    _, _, rest = docstring.partition(f"\n    {heading} ")
    lines: list[str] = []
    for line in rest.splitlines():
        text = line.strip()
        if not text or (lines and text.startswith(_HEADINGS)):
            break
        lines.append(text)
    return " ".join(lines).removesuffix(".")


def described_registration(docstring: str, heading: str) -> dict[str, str]:
    """The names in a section such as "Args:", each with its description."""
    found: dict[str, str] = {}
    name, inside = "", False
    for line in docstring.expandtabs().splitlines():
        text = line.strip()
        depth = len(line) - len(line.lstrip())
        if text == heading:
            inside = True
        elif inside and depth == _ARGUMENT_DEPTH and ": " in text:
            name, _, meaning = text.partition(": ")
            found[name] = meaning
        elif inside and depth > _ARGUMENT_DEPTH and name:
            found[name] += f" {text}"
        elif text:
            inside = False
    return found


_EXAMPLES = {"Patterns": {"window": 8}, "PopulationDivision": {"window": 8}}


@cache
def series_schemes() -> tuple[Method, ...]:
    """The schemes that `tidegate.local.series` exports, by name."""
    room = import_module("tidegate.local.series")  # on demand: the central model needs none of it
    found = [getattr(room, name) for name in sorted(room.__all__)]
    return tuple(
        Method(scheme, model="local", example=_EXAMPLES.get(scheme.__name__, {}))
        for scheme in found
        if isinstance(scheme, type)
    )
