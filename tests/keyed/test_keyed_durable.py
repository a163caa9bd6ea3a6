"""A keyed release on the disk: whatever the moment of a kill, every row is written once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.cli.invoking import run
from tests.depth import depth
from tidegate.durable.folder_lock import StateError
from tidegate.errors import RefusedError
from tidegate.io import Batch, SinkError
from tidegate.io.batches import object_array
from tidegate.io.output_file_or_pipe import OutputBytes
from tidegate.keyed import recorded_columns
from tidegate.keyed.durable_folder import DurableKeyed
from tidegate.keyed.keyed_release import KeyedRelease
from tidegate.keyed.keyed_row_text import KeyedRowText
from tidegate.keyed.keyed_store import KeyedStore
from tidegate.keyed.transfer import transfer_durably
from tidegate.ledger import CapExceeded, Ledger
from tidegate.ownership import Ownership

MOMENTS = int(os.environ.get("TIDEGATE_KILLS", depth("15", "40")))
MOST = max(1000, 30 * MOMENTS)  # rows
KEY = bytes(range(32))
KINDS = {
    "columns": (tg.tops(epsilon=1, bound=40, holdout=60, horizon=64, fanout=4), "shared"),
    "objects": (tg.tops(epsilon=1, bound=40, holdout=20, horizon=64, fanout=4), "per key"),
    "objects and columns": (tg.adaptive(epsilon=3, bound=40, horizon=200), "per key"),
}


def specification(kind: str, keys: str = "abc") -> Any:
    pipeline, threshold = KINDS[kind]
    return tg.keyed(pipeline, keys=list(keys), threshold=threshold)


class Pieces:
    """Rows in batches of any sizes; the last key is not declared."""

    rows = None

    def __init__(self, count: int, seed: int = 0, value: int | None = None) -> None:
        random = np.random.default_rng(5)
        self.keys = random.choice(list("abcx"), MOST)[:count]
        self.values = random.integers(0, 40, MOST)[:count].astype(float)
        if value is not None:
            self.values[value] += 1
        self._sizes = np.random.default_rng(seed)

    def batches(self) -> Iterator[Batch]:
        at = 0
        while at < self.values.size:
            end = at + int(self._sizes.integers(1, 90))
            yield Batch(self.values[at:end], object_array(self.keys[at:end].tolist()))
            at = end

    def fraction(self) -> float | None:
        return None

    def close(self) -> None:
        pass


class Killed(BaseException):
    """The process is gone: nothing that follows may matter."""


class Fuse:
    """Kills at the n-th write or commit: before it, in the middle of it, or after it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left, self.how = 1 << 60, "before"
        write, commit = OutputBytes.write, KeyedStore.commit

        def cut_write(out: OutputBytes, data: Any) -> None:
            if self._burns():
                if self.how != "before":
                    write(out, data if self.how == "after" else bytes(data)[: len(data) // 2])
                raise Killed
            write(out, data)

        def cut_commit(store: KeyedStore, *parts: Any) -> None:
            if self._burns():
                if self.how == "after":
                    commit(store, *parts)
                raise Killed
            commit(store, *parts)

        monkeypatch.setattr(OutputBytes, "write", cut_write)
        monkeypatch.setattr(KeyedStore, "commit", cut_commit)

    def _burns(self) -> bool:
        self.left -= 1
        return self.left == 0


@pytest.mark.parametrize("mark", [",", "\t"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_row_is_written_once_whenever_it_is_killed(
    kind: str, mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded_columns, "_MANY", 8)  # some pushes of this test have as many
    fuse, random = Fuse(monkeypatch), np.random.default_rng(1)
    out = tmp_path / ("out.tsv" if mark == "\t" else "out.csv")
    killed = length = 0
    while True:
        fuse.left = int(random.integers(1, 8)) if killed < MOMENTS else 1 << 60
        fuse.how = ("before", "within", "after")[killed % 3]
        length = min(length + 30, MOST)
        try:
            with DurableKeyed.open(tmp_path / "state", specification(kind), key=KEY) as state:
                source = Pieces(length, seed=length)
                transfer_durably(source, state, out)  # type: ignore[arg-type]
                epoch = state.release._epoch
            if length == MOST:
                break
        except Killed:
            killed += 1
    assert killed > MOMENTS // 2
    expected = KeyedRelease(specification(kind), epoch, ownership=Ownership(), record=False)
    rows = expected.push(Pieces(MOST).keys.tolist(), Pieces(MOST).values)
    lines = b"".join(KeyedRowText(json_lines=False, clock=None, delimiter=mark).lines(rows))
    assert out.read_bytes() == mark.join(["key", "position", "value", "level\n"]).encode() + lines
    file = tg.open(out)
    assert len(file) == len(rows)
    assert file.query(key="a").end == np.count_nonzero(rows.codes == 0)  # type: ignore[call-arg]


def written(folder: Path, count: int, kind: str = "columns", **chosen: Any) -> None:
    names = {"key", "cap", "new_epoch"} & chosen.keys()
    given = {"key": KEY, **{name: chosen.pop(name) for name in names}}
    with DurableKeyed.open(folder / "state", specification(kind), **given) as state:
        transfer_durably(Pieces(count, **chosen), state, folder / "out.csv")  # type: ignore[arg-type]


def test_another_input_output_key_or_an_older_state_is_refused(tmp_path: Path) -> None:
    written(tmp_path, 500)
    copy = (tmp_path / "state" / "keys.sqlite").read_bytes()
    text = (tmp_path / "out.csv").read_text()
    with pytest.raises(StateError, match="the input differs"):
        written(tmp_path, 600, value=77)
    with pytest.raises(StateError, match="ends before the place"):
        written(tmp_path, 400)
    assert (tmp_path / "out.csv").read_text() == text
    with pytest.raises(StateError, match="the key is another one"):
        written(tmp_path, 600, key=bytes(32))
    with pytest.raises(StateError, match="is sealed"):
        written(tmp_path, 600, key=None)
    (tmp_path / "out.csv").write_text(text[:40])
    with pytest.raises(StateError, match="put it back"):
        written(tmp_path, 600)
    (tmp_path / "out.csv").write_text(text.replace("a,", "b,"))
    with pytest.raises(StateError, match="is not what this state has written"):
        written(tmp_path, 600)
    (tmp_path / "out.csv").write_text(text[:-5])  # a row of the last commit, cut: written again
    written(tmp_path, 600)
    assert (tmp_path / "out.csv").read_text().startswith(text)
    (tmp_path / "state" / "keys.sqlite").write_bytes(copy)
    with pytest.raises(StateError, match="put back from a copy"):
        written(tmp_path, 700)


def test_the_state_is_sealed_and_charged_before_rows_are_read(tmp_path: Path) -> None:
    written(tmp_path, 500, cap="1.5")
    data = b"".join(path.read_bytes() for path in (tmp_path / "state").iterdir())
    assert b"tops" not in data
    assert (tmp_path / "state" / "ledger.jsonl").read_text().count("of any key") == 1
    (tmp_path / "state" / "keys.sqlite").unlink()  # lost: a new epoch would be charged on top
    (tmp_path / "out.csv").unlink()
    with pytest.raises(StateError, match=r"\(--new-epoch\), which is charged"):
        written(tmp_path, 500, cap="1.5")
    with pytest.raises(CapExceeded):
        written(tmp_path, 500, cap="1.5", new_epoch=True)
    assert not (tmp_path / "out.csv").exists()


def test_a_known_source_keeps_its_name_and_its_cap(tmp_path: Path) -> None:
    """Caught: another name, or the folder's own after it was renamed, was charged anew, beside the
    cap: nothing limited how often the same rows were released."""
    given, folder = specification("columns"), tmp_path / "state"
    with DurableKeyed.open(folder, given, source="meters", cap=1) as state:
        state.push_rows(["a"], [1])
    for more in ({}, {"new_epoch": True}):
        with pytest.raises(StateError, match="belongs to the source 'meters'"):
            DurableKeyed.open(folder, given, source="others", **more)  # type: ignore[arg-type]
    folder = folder.rename(tmp_path / "renamed")
    with DurableKeyed.open(folder, given) as state:
        state.push_rows(["a"], [1])
        assert state.source == "meters"
        assert len(state._ledger.charges()) == 1
    with pytest.raises(CapExceeded):
        DurableKeyed.open(folder, given, new_epoch=True)
    (folder / "keys.sqlite").write_bytes(b"damaged")
    with pytest.raises(CapExceeded):
        DurableKeyed.open(folder, given, new_epoch=True)
    with pytest.raises(StateError, match="belongs to the source 'meters'"):
        DurableKeyed.open(folder, given, new_epoch=True, source="others")


@pytest.mark.parametrize("lost", ["all of it", "what came last"])
@pytest.mark.parametrize("anew", [False, True])
def test_a_ledger_that_is_older_than_the_state_is_noticed_without_its_lock_file(
    tmp_path: Path, lost: str, anew: bool
) -> None:
    """Caught: the lock file alone knew of it, so without both a cap began again from 0."""
    given, folder = specification("columns"), tmp_path / "state"
    early = b""
    for new_epoch in (False, True):
        with DurableKeyed.open(folder, given, key=KEY, new_epoch=new_epoch) as state:
            state.push_rows(["a"], [1])
        early = early or (folder / "ledger.jsonl").read_bytes()
    (folder / "lock").unlink()  # as whoever takes it for a stale one does
    DurableKeyed.open(folder, given, key=KEY).close()
    (folder / "lock").unlink()
    (folder / "ledger.jsonl").unlink()
    if lost == "what came last":
        (folder / "ledger.jsonl").write_bytes(early)
    with pytest.raises(RefusedError, match=r"put it back|put the newer one in place"):
        DurableKeyed.open(folder, given, key=KEY, new_epoch=anew)


@pytest.mark.parametrize("rows", [510, 600])
def test_a_folder_that_is_older_than_its_output_is_refused(tmp_path: Path, rows: int) -> None:
    """Caught: the newer rows were cut off, and others got their noise."""
    written(tmp_path, 500)
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    written(tmp_path, rows)
    text = (tmp_path / "out.csv").read_bytes()
    shutil.rmtree(tmp_path / "state")
    shutil.copytree(tmp_path / "copy", tmp_path / "state")
    with pytest.raises(StateError, match="older than its output"):
        written(tmp_path, rows, value=rows - 1)
    assert (tmp_path / "out.csv").read_bytes() == text


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_an_output_that_the_state_knows_nothing_of_is_refused(tmp_path: Path, kind: str) -> None:
    """The same before the first row: the copy of the folder is that of an empty state."""
    given, output = specification("objects"), tmp_path / f"out.{kind}"
    with DurableKeyed.open(tmp_path / "state", given) as state:
        transfer_durably(Pieces(10), state, output)  # type: ignore[arg-type]
        assert not output.exists()  # all are held out, and the path is known
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    for folder in ("state", "copy"):
        with DurableKeyed.open(tmp_path / folder, given, source="state") as state:
            if folder == "state":
                transfer_durably(Pieces(300), state, output)  # type: ignore[arg-type]
                continue
            with pytest.raises(StateError, match="older than its output"):
                transfer_durably(Pieces(300), state, output)  # type: ignore[arg-type]


def test_no_row_goes_another_way_than_the_output(tmp_path: Path) -> None:
    """Caught: after `finish` the last rows were cut off the output, and rows of `push_rows` were
    never in it; both without a word."""
    written(tmp_path, 500, "objects and columns")
    text = (tmp_path / "out.csv").read_bytes()
    given = specification("objects and columns")
    with DurableKeyed.open(tmp_path / "state", given, key=KEY) as state:
        state.finish()
        with pytest.raises(StateError, match="use `transfer_durably`"):
            state.push_rows(["a"], [1])
    written(tmp_path, 500, "objects and columns")
    assert (tmp_path / "out.csv").read_bytes() == text
    with DurableKeyed.open(tmp_path / "other", given) as state:
        state.push_rows(["a"], [1])
        with pytest.raises(StateError, match="released without an output"):
            transfer_durably(Pieces(500), state, tmp_path / "other.csv")  # type: ignore[arg-type]
    assert not (tmp_path / "other.csv").exists()


@pytest.mark.parametrize(("name", "kinds"), [("o.tsv", ("csv", None)), ("o.csv", (None, "jsonl"))])
def test_an_output_keeps_its_format(tmp_path: Path, name: str, kinds: tuple[Any, ...]) -> None:
    """Caught: rows with tabs went on below rows with commas, and nothing could be read."""
    for kind, count in zip((*kinds, kinds[0]), (300, 600, 900), strict=True):
        with DurableKeyed.open(tmp_path / "state", specification("columns")) as state:
            arguments: Any = (Pieces(count), state, tmp_path / name)
            if count != 600:
                transfer_durably(*arguments, format=kind)
                continue
            with pytest.raises(StateError, match="begun in another format"):
                transfer_durably(*arguments, format=kind)
    assert len(tg.open(tmp_path / name, format=kinds[0])) == state.release.position


def test_an_output_that_is_moved_away_meanwhile_is_an_error_of_ours(tmp_path: Path) -> None:
    class Moved(Pieces):
        def batches(self) -> Iterator[Batch]:
            for number, batch in enumerate(super().batches()):
                if number == 8:
                    (tmp_path / "out.csv").rename(tmp_path / "away.csv")
                yield batch

        def fraction(self) -> None:
            return None

    with (
        DurableKeyed.open(tmp_path / "state", specification("columns")) as state,
        pytest.raises(SinkError, match=r"out\.csv"),
    ):
        transfer_durably(Moved(900), state, tmp_path / "out.csv")  # type: ignore[arg-type]


def test_more_keys_may_be_declared_later(tmp_path: Path) -> None:
    written(tmp_path, 300)
    given = specification("columns", "xcba"), KEY
    with DurableKeyed.open(tmp_path / "state", given[0], key=given[1]) as state:
        result = transfer_durably(Pieces(600), state, tmp_path / "out.csv")  # type: ignore[arg-type]
    file = tg.open(tmp_path / "out.csv")
    assert sorted(file.keys) == list("abcx")  # type: ignore[union-attr]
    assert result.dropped == np.count_nonzero(Pieces(600).keys[:300] == "x")
    assert len(file) == 600 - 60 - result.dropped


def test_the_command_line_goes_on(tmp_path: Path) -> None:
    source = Pieces(900)
    lines = [f"{key},{value:g}" for key, value in zip(source.keys, source.values, strict=True)]
    words = ["release", tmp_path / "in.csv", "--by", "k", "--keys-are-public", "--column", "v"]
    words += ["-o", tmp_path / "out.csv", "--epsilon", 1, "--bound", 40, "--state", tmp_path / "s"]
    words += ["--preset", "tops", "--holdout", 50, "--horizon", 64, "--shared-threshold"]
    for count in (400, 900):
        (tmp_path / "in.csv").write_text("k,v\n" + "\n".join(lines[:count]) + "\n")
        result = run(*words)
        assert result.exit_code == 0, result.stderr
        assert f"released {count - 50:,} of {count:,} rows" in result.stderr
    assert (
        "must be a file"
        in run(*[word for word in words if word not in ("-o", tmp_path / "out.csv")]).stderr
    )
    assert "has the state of a release without keys" not in result.stderr


def test_how_often_warm_ups_were_ended_is_kept(tmp_path: Path) -> None:
    """The service tells answers apart by it: they change without a row."""
    for expected in range(3):
        with DurableKeyed.open(
            tmp_path / "s", specification("objects and columns"), key=KEY
        ) as state:
            assert state.finishes == expected
            state.push_rows(["a"], [1.0])
            state.finish()


def test_a_damaged_state_is_not_removed_for_a_new_epoch_that_the_cap_refuses(
    tmp_path: Path,
) -> None:
    specification = tg.keyed(tg.adaptive(epsilon=1, bound=9, horizon=64), keys=["a"])
    with DurableKeyed.open(tmp_path / "s", specification, cap=1) as state:
        state.push(Batch(np.full(3, 3.0), object_array(["a"] * 3)), "keep", None)
    path = tmp_path / "s" / "keys.sqlite"
    damaged = b"no database" * 100
    path.write_bytes(damaged)
    with pytest.raises(CapExceeded):
        DurableKeyed.open(tmp_path / "s", specification, cap=1, new_epoch=True)
    assert path.read_bytes() == damaged  # somebody may have a copy of what was there
    with Ledger.open(tmp_path / "s" / "ledger.jsonl") as ledger:
        ledger.set_cap(2)
    with DurableKeyed.open(tmp_path / "s", specification, new_epoch=True) as state:
        assert state.seen == 0
