"""Targets: snapshots and released files of many streams."""

from __future__ import annotations

import json
import random
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import tidegate as tg
from tests.entropy import beginning_with
from tests.fuzz.mutation import mutated, refused, scrambled
from tests.fuzz.state_parsers import sealed_again
from tidegate.io.metadata_files import metadata_sidecar
from tidegate.keyed.keyed_facts import keyed_facts
from tidegate.keyed.keyed_file import KeyedFile
from tidegate.keyed.keyed_sink import open_keyed_sink
from tidegate.sealing import unseal

_FOLDER = tempfile.TemporaryDirectory(prefix="tidegate-fuzz-")
_NAMES = ("north", 'a "b", c', "7")


@cache
def keyed_pipelines() -> tuple[Any, ...]:
    tops = tg.tops(epsilon=1, bound=50, holdout=4, horizon=64, fanout=4)
    return (
        tg.keyed(tops, keys=_NAMES),
        tg.keyed(tg.adaptive(epsilon=8, bound=50, horizon=64), keys=_NAMES),
        tg.keyed(tops, keys_are_public=True, threshold="shared"),
    )


@cache
def keyed_releases() -> tuple[Any, ...]:
    made = []
    with beginning_with("fuzz, keys"):
        for specification in keyed_pipelines():
            release = specification.start()
            out = release.push([_NAMES[at % 3] for at in range(150)], np.arange(150) % 40)
            made.append((specification, release, out))
    return tuple(made)


def keyed_snapshot(rng: random.Random) -> None:
    """A snapshot of many streams."""
    specification, release, _ = rng.choice(keyed_releases())
    data = sealed_again(rng, *unseal(release.snapshot(), None))
    if data is not None:
        with refused():
            specification.resume(data)


@cache
def keyed_files() -> tuple[tuple[Path, bytes, dict[str, Any]], ...]:
    made = []
    for number, (_, release, out) in enumerate(keyed_releases()):
        path = Path(_FOLDER.name) / f"keyed{number}.csv"
        sink = open_keyed_sink(path, clock=None)
        sink.write(out)
        sink.complete(keyed_facts(release, complete=True))
        made.append((path, path.read_bytes(), json.loads(metadata_sidecar(path).read_text())))
    return tuple(made)


def keyed_file(rng: random.Random) -> None:
    """A file with keys whose rows or metadata are anything."""
    path, data, facts = rng.choice(keyed_files())
    copy = path.with_name(f"copy{path.name}")
    copy.write_bytes(scrambled(rng, data) if rng.random() < 0.4 else data)
    try:
        text = json.dumps(mutated(rng, facts)).encode()
    except (RecursionError, ValueError):
        text = b'{"keys":' + b'{"names":' * 50_000
    metadata_sidecar(copy).write_bytes(scrambled(rng, text) if rng.random() < 0.2 else text)
    for index in copy.parent.glob(f".{copy.name}.tidegate-*"):
        if rng.random() < 0.5:
            index.unlink()
    with refused():
        file = tg.open(copy)
        if isinstance(file, KeyedFile):
            for key in file.keys[:3]:
                file.record(key).query(0, 3)
            assert file.note is not None


TARGETS = {"keyed-snapshot": keyed_snapshot, "keyed-file": keyed_file}
