"""Targets: settings, snapshots, records, journals, ledgers and the metadata of released files.

Whoever can write such a file can compute its checksum too, so content is changed first and sealed,
or chained, after that.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import tempfile
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import tidegate as tg
from tests.entropy import beginning_with
from tests.fuzz.mutation import mutated, refused, scrambled
from tidegate.durable import journal
from tidegate.guarantee import Guarantee
from tidegate.io import open_sink, read_metadata
from tidegate.io.metadata_files import metadata_sidecar
from tidegate.ledger import Ledger
from tidegate.released import ReleasedFile
from tidegate.run import public_facts as durable_facts
from tidegate.run.snapshot import load_record
from tidegate.sealing import seal, unseal
from tidegate.units import UserHorizon, Window

_FOLDER = tempfile.TemporaryDirectory(prefix="tidegate-fuzz-")
_BASE: dict[str, Any] = {"epsilon": 1, "bound": 100, "holdout": 4, "horizon": 64}


@cache
def pipelines() -> tuple[tg.Pipeline, ...]:
    return (
        tg.tops(**_BASE),
        tg.tops(**_BASE, skipped=1, fanout=4, non_negative=True, rethreshold_every=64),
        tg.tops(**_BASE, unit=UserHorizon(most=3), skipped=0),
        tg.adaptive(**_BASE, unit=Window(length=2)),
        tg.adaptive(epsilon=8, bound=100, horizon=64),
        tg.adaptive(epsilon=8, bound=100, horizon=64, lower=-30),
        tg.tops(**_BASE, lower="-7/2", rethreshold_every=64),
        tg.pak(**_BASE, delta="1e-9"),
        tg.square_root(**_BASE, delta="1e-9"),
        tg.budget_distribution(**_BASE, unit=Window(length=5)),
        tg.fast(epsilon=50, bound=100, horizon=64),
    )


@cache
def releases() -> tuple[tuple[tg.Release, np.ndarray], ...]:
    """One of each, after the hold-out; and what it published."""
    found = []
    with beginning_with("fuzz"):
        for pipeline in pipelines():
            release = pipeline.start()
            users = np.arange(140) if release._cap is not None else None
            found.append((release, release.push(np.arange(140) % 50 - 9, users)))
    return tuple(found)


@cache
def snapshots() -> tuple[tuple[tg.Pipeline, dict[str, Any], dict[str, Any]], ...]:
    made = []
    for release, _ in releases():
        made.append((release.pipeline, *unseal(release.snapshot(), None)))
        with beginning_with("fuzz, hold-out"):
            young = release.pipeline.start()
            young.push(np.arange(2), np.arange(2) if young._cap is not None else None)
        made.append((release.pipeline, *unseal(young.snapshot(), None)))
    return tuple(made)


def settings(rng: random.Random) -> None:
    """`Pipeline.from_settings`: refused, or a pipeline that says the same settings again."""
    changed = mutated(rng, rng.choice(pipelines()).settings())
    with refused():
        pipeline = tg.Pipeline.from_settings(changed)
        again = tg.Pipeline.from_settings(json.loads(json.dumps(pipeline.settings())))
        assert again == pipeline


def sealed_again(rng: random.Random, header: dict[str, Any], body: dict[str, Any]) -> bytes | None:
    """Sealed data with changes in its header, its body or its bytes; None: it cannot be sealed."""
    kind = rng.random()
    try:
        if kind < 0.1:
            return seal(mutated(rng, header), body, None)
        if kind < 0.3:
            return scrambled(rng, seal(header, body, None))
        return seal(header, mutated(rng, body), None)
    except (TypeError, RecursionError, AttributeError, ValueError):  # not plain data any more
        return None


def snapshot(rng: random.Random) -> None:
    """A snapshot without a seal."""
    pipeline, header, body = rng.choice(snapshots())
    data = sealed_again(rng, header, body)
    if data is None:
        return
    with refused():
        pipeline.resume(data)


def record(rng: random.Random) -> None:
    """A stored record."""
    release = rng.choice(releases())[0]
    data = sealed_again(rng, *unseal(release.save_record(), None))
    if data is None:
        return
    with refused():
        load_record(data)


def journal_rows(rng: random.Random) -> None:
    """A row of the journal, before and after its bytes are understood."""
    trace = journal.JournalTrace(sums=np.arange(3), predictions=np.arange(3.0))
    piece = journal.JournalEntry(0, 12, 0, 1.0, True, trace)
    body, _ = journal.encoded_journal_entry(piece, bytes(32), bytes(32))
    data = sealed_again(rng, *unseal(body, None))
    if data is None:
        return
    with refused():
        assert len(list(journal.journal_entries([data]))) == 1


@cache
def ledger_lines() -> tuple[bytes, ...]:
    path = Path(_FOLDER.name) / "first.jsonl"
    promise = Guarantee(epsilon=Fraction(1, 10))
    with beginning_with("fuzz, ledger"), Ledger.open(path, cap="3/7") as ledger:
        at = ledger.charge(source="a", epoch="e", stage="s", start=0, guarantee=promise)
        ledger.charge(source="b", epoch="f", stage="s", start=5, end=9, guarantee=promise)
        ledger.close_charge(at, 7)
    return tuple(path.read_bytes().splitlines())


def ledger(rng: random.Random) -> None:
    """A ledger whose chain is whole, with other entries in it; or with other bytes."""
    lines = []
    previous = "0" * 64
    broken = rng.randrange(len(ledger_lines()))
    for number, line in enumerate(ledger_lines()):
        facts = json.loads(line)
        del facts["hash"]
        facts["previous"] = previous
        if number == broken:
            facts = mutated(rng, facts)
        try:
            body = json.dumps(facts, separators=(",", ":")).encode()[:-1]
        except (RecursionError, ValueError):
            body = b"{" + b'"a":[' * 5000
        previous = hashlib.sha256(body).hexdigest()
        lines.append(body + b',"hash":"%s"}\n' % previous.encode())
    data = b"".join(lines)
    path = Path(_FOLDER.name) / "ledger.jsonl"
    path.write_bytes(scrambled(rng, data) if rng.random() < 0.2 else data)
    with refused(), Ledger.open(path, read_only=True) as book:
        for source in ("a", "b"):
            str(book.total(source))


@cache
def released_files() -> tuple[tuple[Path, dict[str, Any]], ...]:
    made = []
    for number, (release, out) in enumerate(releases()):
        path = Path(_FOLDER.name) / f"released{number}.csv"
        facts = durable_facts.describe_facts(release.pipeline, release, release.phases)
        with open_sink(path, metadata=facts) as sink:
            sink.write(0, out)
        made.append((path, facts))
    return tuple(made)


def metadata(rng: random.Random) -> None:
    """A released file whose metadata is anything; queried, if it can be opened."""
    path, facts = released_files()[rng.choice([0, 0, 1, 1, 2, 2, 3, 4, 4])]  # 3 takes long
    copy = path.with_name(f"copy{path.name}")
    shutil.copyfile(path, copy)
    try:
        data = json.dumps(mutated(rng, facts)).encode()
    except (RecursionError, ValueError):
        data = b'{"settings":' + b'{"kind":' * 50_000
    metadata_sidecar(copy).write_bytes(scrambled(rng, data) if rng.random() < 0.2 else data)
    index = copy.with_name(f".{copy.name}.tidegate-index")
    if rng.random() < 0.7:
        index.unlink(missing_ok=True)  # else there is one, of another file
    elif index.exists():
        index.write_bytes(scrambled(rng, index.read_bytes()))
    with refused():
        read_metadata(copy)
        file = ReleasedFile.open(copy)
        file.record.query(0, 3)
        assert file.note is not None
        assert file.truncation


TARGETS = {
    "settings": settings,
    "snapshot": snapshot,
    "record": record,
    "journal-rows": journal_rows,
    "ledger": ledger,
    "metadata": metadata,
}
