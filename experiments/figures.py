"""One TOML file a figure: what is run, how it is drawn, what the paper claims about it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from experiments.errors import ExperimentError
from experiments.registry import dataset

FOLDER = Path(__file__).parent / "figures"
KINDS = ("curves", "score", "course", "table")


@dataclass(frozen=True)
class Protocol:
    """How one cell is measured. A setting of a figure may change any of it."""

    holdout: int = 65_536
    horizon: int = 2**20
    ranges: int = 200
    runs: int = 12
    seed: int = 1
    stream: str = "next"  # the values after the hold-out; "same": the hold-out itself
    truth: str = "whole"  # or "truncated": compare with values truncated at the threshold
    varies: str = "both"  # which epsilon: "both", "threshold" or "stream"
    fixed_epsilon: float | None = None  # the other one
    pad: str = "never"  # "mirror": extend short streams as the authors do
    times: int = 1  # multiply values and bound: another unit
    intervals: int = 120  # of a course
    percentiles: str = "stream"  # where true percentiles are taken from; or "holdout"


@dataclass(frozen=True)
class Setting:
    """One variant of a figure's protocol, with a name for pictures; most figures have one."""

    name: str
    protocol: Protocol
    datasets: list[str]
    epsilons: list[float]


@dataclass(frozen=True)
class Method:
    """A curve: its name, and how it is built (see methods.py)."""

    name: str
    spec: dict[str, Any]
    epsilons: list[float] | None = None
    like: str | None = None  # drawn in the colour of that method, dashed


@dataclass(frozen=True)
class Figure:
    """One figure of the paper, or one of ours."""

    name: str
    title: str
    kind: str
    order: int
    label: str  # in the paper's source; empty: not in the paper
    about: str
    methods: list[Method]
    settings: list[Setting]
    metrics: list[str]
    claims: list[dict[str, Any]] = field(repr=False)
    reads: str = ""  # how to read the picture


@lru_cache(maxsize=1)
def figures() -> dict[str, Figure]:
    """All figures, in the paper's order."""
    loaded = [load(path) for path in sorted(FOLDER.glob("*.toml"))]
    return {figure.name: figure for figure in sorted(loaded, key=lambda figure: figure.order)}


def chosen(names: list[str]) -> list[Figure]:
    """The named figures, or all."""
    known = figures()
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ExperimentError(f"there is no figure {unknown[0]!r}: choose from {', '.join(known)}")
    return [known[name] for name in names] if names else list(known.values())


def load(path: Path) -> Figure:
    """One figure from its file; whatever is wrong with it is named."""
    try:
        text = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ExperimentError(f"{path.name}: {error}") from None
    try:
        return _figure(path.stem, text)
    except KeyError as error:
        raise ExperimentError(f"{path.name}: the key {error} is missing") from None
    except (TypeError, ExperimentError) as error:
        raise ExperimentError(f"{path.name}: {error}") from None


def _figure(name: str, text: dict[str, Any]) -> Figure:
    kind = text["kind"]
    if kind not in KINDS:
        raise ExperimentError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    own = {"title", "kind", "order", "label", "about", "reads", "datasets", "beside", "epsilons"}
    own |= {"metrics", "protocol", "setting", "method", "claim"}
    unknown = sorted(set(text) - own)
    if unknown:
        raise ExperimentError(f"unknown key {unknown[0]!r}")
    methods = [_method(dict(entry)) for entry in text.get("method", [])]
    names = [method.name for method in methods]
    if len(set(names)) < len(names):
        raise ExperimentError("two methods have the same name")
    figure = Figure(
        name=name,
        title=text["title"],
        kind=kind,
        order=text["order"],
        label=text.get("label", ""),
        about=text["about"],
        reads=text.get("reads", ""),
        methods=methods,
        settings=_settings(text),
        metrics=text.get("metrics", ["mse"]),
        claims=text.get("claim", []),
    )
    from experiments.claims import check_declared  # claims know figures

    check_declared(figure)
    return figure


def _method(entry: dict[str, Any]) -> Method:
    name, like, epsilons = (entry.pop(key, None) for key in ("name", "like", "epsilons"))
    if not name:
        raise ExperimentError("a method has no name")
    return Method(name, entry, epsilons, like)


def _settings(text: dict[str, Any]) -> list[Setting]:
    common = text.get("protocol", {})
    names = [*text["datasets"], *text.get("beside", [])]
    settings = []
    for entry in text.get("setting", [{"name": ""}]):
        changed = {key: value for key, value in entry.items() if key in _PROTOCOL}
        unknown = set(entry) - set(changed) - {"name", "datasets", "epsilons"}
        if unknown:
            raise ExperimentError(f"unknown key {min(unknown)!r} in a setting")
        settings.append(
            Setting(
                name=entry["name"],
                protocol=Protocol(**{**common, **changed}),
                datasets=[dataset(one).name for one in entry.get("datasets", names)],
                epsilons=entry.get("epsilons", text.get("epsilons", [])),
            )
        )
    return settings


_PROTOCOL = {part.name for part in fields(Protocol)}
