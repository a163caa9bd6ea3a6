"""What a file of `tidegate.methods` says about its method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

from tidegate.guarantee import Guarantee
from tidegate.settings import Spec

# Settings for every preset that takes them, small enough for a short stream to cross horizons.
EXAMPLE = {"epsilon": "1/2", "bound": 40, "horizon": 60, "holdout": 37}


@dataclass(frozen=True, kw_only=True)
class Method:
    """One published method: its preset, and what lists and tables say about it.

    What can be derived is derived: the name from the function, the unit and the kind of guarantee
    from a pipeline that the preset makes.

    Attributes:
        preset: makes the pipeline; public as `tidegate.<its name>`.
        summary: one line: what it does.
        reference: where it was published.
        model: who is trusted: "central" or "local". (Said and not derived: listing the choices of
            a command must not load the local model. A test compares the two.)
        stages: the classes of this file that stored settings may name, by their KIND.
        example: settings for an example with a horizon of 60 values, where the shared ones
            (`EXAMPLE`) do not do. The laws put this pipeline through everything.
    """

    preset: Callable[..., Any]
    summary: str
    reference: str
    model: str = "central"
    stages: tuple[type[Spec], ...] = ()
    example: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As on the command line, with hyphens."""
        return self.preset.__name__.replace("_", "-")

    def made(self) -> Any:
        """The pipeline of the example (for the local model, its specification)."""
        taken = signature(self.preset).parameters
        shared = {name: value for name, value in EXAMPLE.items() if name in taken}
        return self.preset(**{**shared, **self.example})

    @property
    def guarantee(self) -> Guarantee:
        """What the example promises."""
        promised: Guarantee = self.made().guarantee
        return promised
