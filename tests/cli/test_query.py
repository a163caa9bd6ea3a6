"""`tidegate query` and `ReleasedFile`: the same answers as the release itself gives."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

import tidegate as tg
from tidegate.cli import query
from tidegate.errors import QueryError
from tidegate.io import KINDS, SourceError, open_sink, read_released
from tidegate.released import ReleasedFile, sums_index_file
from tidegate.released import scan_into_block_sums as scan
from tidegate.run.public_facts import describe_facts

app = typer.Typer()
app.command("query")(query.query)

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "fine resolution": {"resolution": "0.1"},
    "blocks of one": {"skipped": 0},
    "large blocks": {"skipped": 3},
    "blocked windows": {"rethreshold_every": 8000},
    "shared windows": {"rethreshold_every": 8000, "rethreshold_share": "0.2"},
    "windows back to back": {"rethreshold_every": 1024},
    "started early": {"start_early": 300},
}
Written = tuple[Path, tg.Release]


def write(path: Path, count: int = 30_123, **settings: Any) -> Written:
    """A release in uneven pieces, with a last block that is open."""
    usual = {"horizon": 2**13, "holdout": 1024, "history": 10**6, "resolution": 1}
    pipeline = tg.tops(epsilon=0.5, bound=500, **{**usual, **settings})
    release = pipeline.start(tg.seeded(5))
    values = np.random.default_rng(1).poisson(20, count)
    with open_sink(path) as sink:
        for at in range(0, count, 4321):
            first = release.position
            sink.write(first, release.push(values[at : at + 4321]))
        sink.set_metadata(describe_facts(pipeline, release, release.phases))
    return path, release


@pytest.fixture
def csv_file(tmp_path: Path) -> Written:
    return write(tmp_path / "private.csv")


@pytest.fixture
def ask() -> Callable[..., Result]:
    return lambda *words, **options: CliRunner().invoke(
        app, [str(word) for word in words], **options
    )


def ranges(end: int) -> tuple[Any, Any]:
    pairs = np.sort(np.random.default_rng(2).integers(0, end + 1, (2, 400)), axis=0)
    pairs[:, 0] = 0, end
    return pairs[0], pairs[1]


def index_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.tidegate-index")


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# -- the file as a record ------------------------------------------------------------------------


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_file_answers_as_its_release_does(tmp_path: Path, settings: dict[str, Any]) -> None:
    path, release = write(tmp_path / "private.parquet", **settings)
    for _ in range(2):  # scanned, then from the index
        file = ReleasedFile.open(path)
        assert (file.record.start, file.record.end) == (0, release.position)
        assert file.pipeline == release.pipeline
        assert file.thresholds == release.phases
        ours, theirs = (one.queries(*ranges(release.position)) for one in (file.record, release))
        for name in ("estimate", "noise_error", "prediction_error", "low", "high"):
            np.testing.assert_allclose(
                getattr(ours, name), getattr(theirs, name), rtol=1e-9, atol=1e-6
            )
        assert ours.threshold == theirs.threshold


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_file_is_understood(tmp_path: Path, kind: str) -> None:
    path, release = write(tmp_path / f"private.{kind}", count=3_000)
    assert ReleasedFile.open(path).record.query(10, 1900) == release.query(10, 1900)


def test_a_non_negative_file_says_that_debts_are_in_its_sums(tmp_path: Path) -> None:
    path, release = write(tmp_path / "private.csv", non_negative=True)
    file = ReleasedFile.open(path)
    assert "debt" in file.note
    values = np.loadtxt(path, delimiter=",", skiprows=1)[:, 1]
    block = release.pipeline.perturber.block
    end = release.position // block * block
    # Whole units, though debts are not: off by one rounding, however many blocks there are.
    assert file.record.query(0, end).estimate == pytest.approx(values[:end].sum(), abs=1)


def test_a_block_longer_than_a_piece_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, release = write(tmp_path / "private.csv", count=20_000, skipped=3)
    values = np.concatenate([values for _, values in read_released(path)])
    pieces = [(at, values[at : at + 77]) for at in range(0, values.size, 77)]
    monkeypatch.setattr(scan, "read_released", lambda *_, **__: iter(pieces))
    starts, ends = ranges(release.position)
    ours = ReleasedFile.open(path).record.queries(starts, ends)
    np.testing.assert_allclose(ours.estimate, release.queries(starts, ends).estimate)


# -- the index -----------------------------------------------------------------------------------


def test_the_file_is_scanned_once(csv_file: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = csv_file
    before = ReleasedFile.open(path).record.query(5, 20_000)
    monkeypatch.setattr(scan, "read_released", lambda *_, **__: pytest.fail("read again"))
    assert ReleasedFile.open(path).record.query(5, 20_000) == before


def test_the_index_is_made_anew_when_the_file_or_its_metadata_changed(csv_file: Written) -> None:
    path, release = csv_file
    ReleasedFile.open(path)
    values = release.push(np.full(1000, 7))
    with open_sink(path, append_at=release.position - 1000) as sink:
        sink.write(release.position - 1000, values)
        sink.set_metadata(describe_facts(release.pipeline, release, release.phases))
    file = ReleasedFile.open(path)
    assert file.record.query(0, release.position) == release.query(0, release.position)
    facts = path.with_name("private.csv.meta.json")
    facts.write_text(facts.read_text().replace("simulation", "pretence"))
    assert "pretence" in ReleasedFile.open(path).guarantee


@pytest.mark.parametrize("damage", [b"", b"x", b"\0" * 1000], ids=["empty", "short", "zeros"])
def test_a_damaged_index_is_replaced(csv_file: Written, damage: bytes) -> None:
    path, release = csv_file
    index_of(path).write_bytes(damage)
    assert ReleasedFile.open(path).record.end == release.position
    assert index_of(path).stat().st_size > 1000
    index_of(path).write_bytes(index_of(path).read_bytes()[:-5])
    assert ReleasedFile.open(path).record.end == release.position


def test_where_no_index_can_be_written_it_goes_without(
    csv_file: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, release = csv_file
    make, folder = sums_index_file.tempfile.mkstemp, path.parent

    def forbidden(**options: Any) -> tuple[int, str]:
        if options["dir"] == folder:
            raise PermissionError(13, "Permission denied")
        return make(**options)

    monkeypatch.setattr(sums_index_file.tempfile, "mkstemp", forbidden)
    assert ReleasedFile.open(path).record.end == release.position
    assert names_in(folder) == ["private.csv", "private.csv.meta.json"]


def test_a_scan_that_fails_leaves_nothing_behind(csv_file: Written) -> None:
    path, _ = csv_file
    path.write_text(path.read_text() + "not,rows\n")
    with pytest.raises(tg.TidegateError):
        ReleasedFile.open(path)
    assert names_in(path.parent) == ["private.csv", "private.csv.meta.json"]


def test_the_index_can_be_read_by_those_who_can_read_the_file(csv_file: Written) -> None:
    path, _ = csv_file
    path.chmod(0o640)
    ReleasedFile.open(path)
    assert index_of(path).stat().st_mode & 0o777 == 0o640


# -- files that are refused ----------------------------------------------------------------------


def test_a_file_without_metadata_is_refused(csv_file: Written) -> None:
    path, _ = csv_file
    path.with_name("private.csv.meta.json").unlink()
    with pytest.raises(SourceError, match=r"private\.csv\.meta\.json beside it is missing"):
        ReleasedFile.open(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda facts: facts.pop("phases"), "metadata is damaged"),
        (lambda facts: facts.update(phases=[{"start": "x"}]), "metadata is damaged"),
        (lambda facts: facts.update(settings=7), "metadata is damaged"),
        (lambda facts: facts.update(guarantee=None), "metadata is damaged"),
        (lambda facts: facts.update(block=7), "this Tidegate makes"),
        (lambda facts: facts["phases"].append(facts["phases"][0]), "metadata is damaged"),
    ],
)
def test_metadata_that_makes_no_sense_is_refused(
    csv_file: Written, change: Callable[[Any], Any], message: str
) -> None:
    facts = csv_file[0].with_name("private.csv.meta.json")
    stored = json.loads(facts.read_text())
    change(stored)
    facts.write_text(json.dumps(stored))
    with pytest.raises(SourceError, match=message):
        ReleasedFile.open(csv_file[0])


def test_rows_must_count_from_0(csv_file: Written) -> None:
    path, _ = csv_file
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], *lines[5:]]))
    with pytest.raises(SourceError, match="begin at position 4, not 0"):
        ReleasedFile.open(path)
    path.write_text("".join(lines[:100] + lines[101:]))
    with pytest.raises(SourceError, match="do not count up"):
        ReleasedFile.open(path)
    path.write_text("".join([*lines[:8], "7,\n", *lines[9:]]))
    with pytest.raises(SourceError, match="position 7 is missing"):
        ReleasedFile.open(path)


def test_a_threshold_that_the_metadata_does_not_know_yet(tmp_path: Path) -> None:
    path, release = write(tmp_path / "private.csv", rethreshold_every=8000)
    facts = path.with_name("private.csv.meta.json")
    stored = json.loads(facts.read_text())
    stored["phases"].pop()
    facts.write_text(json.dumps(stored))
    with pytest.raises(QueryError, match=f"at position {release.phases[-1].start}"):
        ReleasedFile.open(path)


def test_nothing_released_yet(tmp_path: Path) -> None:
    path, _ = write(tmp_path / "private.csv", count=100)
    with pytest.raises(QueryError, match="nothing was released yet"):
        ReleasedFile.open(path)


# -- the command ---------------------------------------------------------------------------------


def test_a_table_for_people(csv_file: Written, ask: Callable[..., Result]) -> None:
    path, release = csv_file
    result = ask(path, 100, 20_000)
    answer = release.query(100, 20_000)
    assert result.exit_code == 0
    assert "[100, 20000)" in result.stdout
    assert f"{answer.estimate:,.0f}" in result.stdout
    assert "95 % interval" in result.stdout
    assert "These are sums of capped values." in result.stdout
    assert f"capped at {release.threshold:g}" in result.stdout
    assert str(release.guarantee) in result.stdout


def test_json_for_programs(csv_file: Written, ask: Callable[..., Result]) -> None:
    path, release = csv_file
    result = ask(path, 100, 20_000, "--confidence", 0.99, "--json")
    facts = json.loads(result.stdout)
    answer = release.query(100, 20_000, 0.99)
    assert facts["guarantee"] == str(release.guarantee)
    assert facts["threshold"] == release.threshold
    (found,) = facts["answers"]
    for name in ("start", "end", "estimate", "low", "high", "standard_error"):
        assert found[name] == getattr(answer, name)


def test_many_ranges(csv_file: Written, ask: Callable[..., Result], tmp_path: Path) -> None:
    path, release = csv_file
    text = "name, End,START\na,60,0\n\nb,20000,60\n"
    (tmp_path / "days.csv").write_text(text)
    from_file = ask(path, "--ranges", tmp_path / "days.csv", "--json")
    from_pipe = ask(path, "--ranges", "-", "--json", input=text)
    answers = json.loads(from_file.stdout)["answers"]
    assert json.loads(from_pipe.stdout)["answers"] == answers
    assert [(answer["start"], answer["end"]) for answer in answers] == [(0, 60), (60, 20_000)]
    assert answers[1]["estimate"] == release.query(60, 20_000).estimate
    assert "[60, 20000)" in ask(path, "--ranges", tmp_path / "days.csv").stdout


def test_several_thresholds_are_named(tmp_path: Path, ask: Callable[..., Result]) -> None:
    path, _ = write(tmp_path / "private.csv", rethreshold_every=8000)
    assert "the cap moved between" in ask(path, 0, 20_000).stdout


def test_without_a_range_all_is_summed(csv_file: Written, ask: Callable[..., Result]) -> None:
    path, release = csv_file
    count = len(path.read_text().splitlines()) - 1
    (everything,) = json.loads(ask(path, "--json").stdout)["answers"]
    assert (everything["start"], everything["end"]) == (0, count)
    assert everything["estimate"] == release.query(0, count).estimate
    assert f"[5, {count})" in ask(path, 5).stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((7, 5), "ends before it starts"),
        ((0, 10**9), "reaches beyond"),
        ((0, 5, "--confidence", 1), "confidence"),
        ((0, 5, "--confidence", "nan"), "confidence"),
        ((0, 5, "--ranges", "-"), "not both"),
    ],
)
def test_bad_ranges(
    csv_file: Written, ask: Callable[..., Result], words: tuple[Any, ...], message: str
) -> None:
    result = ask(csv_file[0], *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must name the columns"),
        ("from,to\n1,2\n", "must name the columns"),
        ("start,end\n", "no ranges"),
        ("start,end\n0,5\nsecret,7\n", "line 3"),
        ("start,end\n0\n", "line 2"),
        (f"start,end\n0,{10**30}\n", "line 2"),
        ("start,end\n0,5.5\n", "line 2"),
    ],
)
def test_bad_files_of_ranges(
    csv_file: Written, ask: Callable[..., Result], text: str, message: str
) -> None:
    result = ask(csv_file[0], "--ranges", "-", input=text)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "secret" not in result.stderr


def test_unreadable_files(csv_file: Written, ask: Callable[..., Result], tmp_path: Path) -> None:
    path, _ = csv_file
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    for words, message in (
        ((tmp_path / "missing.csv", 0, 5), "no such file"),
        ((tmp_path, 0, 5), "is not a file"),
        ((tmp_path / "broken.parquet", 0, 5), "Parquet"),
        ((path, "--ranges", tmp_path / "missing.csv"), "no such file"),
    ):
        result = ask(*words)
        assert (result.exit_code, result.stdout) == (4, "")
        assert message in result.stderr
    path.rename(tmp_path / "private.data")
    assert ask(tmp_path / "private.data", 0, 5).exit_code == 2
    (tmp_path / "private.csv.meta.json").rename(tmp_path / "private.data.meta.json")
    assert ask(tmp_path / "private.data", 0, 5, "--format", "csv").exit_code == 0
