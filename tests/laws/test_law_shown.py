"""Law 7, of everything a user holds: what is printed of it is chosen, never an address.

An address in a log tells nothing, differs from run to run, and looks like any secret by chance.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tidegate.durable import DurableRelease
from tidegate.io import open_sink, open_source
from tidegate.ledger import Ledger
from tidegate.local.client import Client
from tidegate.local.device_memory import Memory
from tidegate.local.shuffle import Shuffler

ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}")
REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def public_classes() -> dict[str, type]:
    """Every class that a module exports by name, or that the reference shows by name."""
    found = {}
    for place in pkgutil.walk_packages(tg.__path__, "tidegate."):
        if not place.name.endswith(".__main__"):
            module = importlib.import_module(place.name)
            for name in getattr(module, "__all__", ()):
                found[f"{place.name}.{name}"] = getattr(module, name)
    for page in REFERENCE.glob("*.md"):
        for name in re.findall(r"^::: (tidegate\.[\w.]+)$", page.read_text("utf-8"), re.MULTILINE):
            module, _, last = name.rpartition(".")
            found[name] = getattr(importlib.import_module(module), last)
    return {
        name: thing
        for name, thing in found.items()
        # A protocol is never made; a run is the inside of a release.
        if inspect.isclass(thing)
        and not getattr(thing, "_is_protocol", False)
        and not hasattr(thing, "STATE")
        and not inspect.isabstract(thing)
    }


def test_every_public_class_says_how_it_is_shown() -> None:
    classes = public_classes()
    assert {"tidegate.local.client.Client", "tidegate.ledger.Ledger"} <= set(classes)
    assert len(classes) > 50
    assert [name for name, one in classes.items() if one.__repr__ is object.__repr__] == []


def release(_: Path) -> list[Any]:
    run = tg.tops(epsilon=1, bound=9, horizon=64, holdout=4).start()
    run.push(np.ones(20))
    return [run, run.pipeline, run.record, run.guarantee, run.query(0, 2), run.pipeline.lattice]


def randomness(_: Path) -> list[Any]:
    epoch = tg.secure().new_epoch()
    keystream = epoch.keystream("perturb", b"")
    return [epoch, keystream, keystream.at(), tg.secure(), tg.seeded(1)]


def devices(folder: Path) -> list[Any]:
    memory, scheme = Memory.open(folder / "memory"), tg.topl(epsilon=1, bound=9, holdout=100)
    client, server = Client(epsilon=1, bound=9, memory=memory), scheme.server(folder / "server")
    report = client.answer(server.announcement(), 3)
    shuffler = Shuffler(server.round)
    held = [memory, scheme, client, server, report, shuffler, server.announcement(), *client.ledger]
    held += [shuffler.release(), server.collect_many([report]), scheme.lattice]
    held += [scheme.simulate(np.ones(300), tg.seeded(1))]
    memory.close()
    server.close()
    return held


def books(folder: Path) -> list[Any]:
    pipeline = tg.tops(epsilon=1, bound=9, horizon=64, holdout=4)
    with DurableRelease.open(folder / "state", pipeline) as durable:
        durable.push(np.ones(20))
        held = [durable, durable.record, *durable.phases]
    with Ledger.open(folder / "state" / "ledger.jsonl", read_only=True) as ledger:
        return [*held, ledger, *ledger.entries, *ledger.charges()]


def files(folder: Path) -> list[Any]:
    held: list[Any] = []
    for name in ("out.csv", "out.jsonl", "out.csv.gz", "out.parquet"):
        with open_sink(folder / name) as sink:
            sink.write(0, np.ones(3))
            held += [sink]
        with open_source(folder / name, column="value") as source:
            held += [source, *source.batches()]
    return held


@pytest.mark.parametrize("made", [release, randomness, devices, books, files])
def test_nothing_that_a_user_holds_shows_an_address(
    made: Callable[[Path], list[Any]], tmp_path: Path
) -> None:
    assert ADDRESS.search(repr(object()))  # the search would find one
    for thing in made(tmp_path):
        text = f"{thing!r} {thing}"
        assert ADDRESS.search(text.replace(str(tmp_path), "")) is None, text


def test_the_package_shows_its_public_names_and_nothing_else() -> None:
    """What a user sees by completion is the API, not the modules that happen to be imported."""
    public = [getattr(tg, name) for name in tg.__all__]
    for shown in (tg, *filter(inspect.ismodule, public)):
        assert sorted(dir(shown)) == sorted(shown.__all__), shown
        assert all(hasattr(shown, name) for name in dir(shown))
