"""`tidegate release --state`: what may change between two runs, and what is refused."""

import json
import os
import shutil

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from tidegate.cli import release as command
from tidegate.io import read_metadata, read_released
from tidegate.ledger import Ledger

app = typer.Typer()
app.command("release")(command.release)

VALUES = np.random.default_rng(1).integers(0, 100, 3000)
SETTINGS = ["--epsilon", "1", "--bound", "100", "--holdout", "100", "--horizon", "256"]


class Folder:
    """An input, an output and a state, and the command that uses them."""

    def __init__(self, path):
        self.path = path
        self.source, self.output, self.state = path / "in.csv", path / "out.csv", path / "state"

    def write(self, values=VALUES, end=""):
        self.source.write_text("".join(f"{value}\n" for value in values) + end)

    def run(self, *more, source=None, output=None, state=True, settings=SETTINGS, stdin=None):
        arguments = [str(source or self.source), "--preset", "tops", *map(str, more), *settings]
        if output != "-":
            arguments += ["-o", str(output or self.output)]
        if state:
            arguments += ["--state", str(self.state)]
        result = CliRunner().invoke(app, arguments, input=stdin)
        assert result.exception is None or isinstance(result.exception, SystemExit), (
            result.exception
        )
        return result

    def pipe(self, values, *more):
        text = "".join(f"{value}\n" for value in values)
        return self.run(*more, source="-", output="-", stdin=text)

    def rows(self, path=None):
        return np.concatenate(
            [np.empty(0), *(item for _, item in read_released(path or self.output))]
        )

    def spent(self):
        ledger = Ledger.open(self.state / "ledger.jsonl", read_only=True)
        try:
            return ledger.total().epsilon
        finally:
            ledger.close()


@pytest.fixture
def folder(tmp_path):
    folder = Folder(tmp_path)
    folder.write()
    return folder


def ok(result):
    assert result.exit_code == 0, result.output
    return result


def held(result):
    """All rows so far are held out."""
    assert result.exit_code == 5, result.output
    assert "nothing was released" in result.stderr
    return result


def refused(result, *words, code=3):
    assert result.exit_code == code, result.output
    lines = result.stderr.splitlines()
    message, *left = [line for line in lines if "(no --key-file" not in line]  # of a new state
    assert all("rows are released" in line for line in left)
    assert message.startswith("tidegate: ")
    for word in words:
        assert word in message
    return result


# -- the input -------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", [1, 50, 100, 101, 1500, 2999])
def test_an_input_that_grew_is_continued(folder, split):
    folder.write(VALUES[:split])
    (ok if split > 100 else held)(folder.run())
    folder.write()
    ok(folder.run())
    assert folder.rows().size == 2900
    before = folder.output.read_bytes()
    ok(folder.run())
    assert folder.output.read_bytes() == before


def test_growing_value_by_value_around_the_hold_out_and_a_stretch(folder):
    for count in [*range(97, 104), *range(1022, 1027)]:
        folder.write(VALUES[:count])
        if count > 100:
            ok(folder.run())
            assert folder.rows().size == count - 100
        else:
            held(folder.run())


@pytest.mark.parametrize("place", [0, 99, 100, 1023, 1024, 2999])
def test_an_input_that_changed_is_refused(folder, place):
    ok(folder.run())
    before = folder.output.read_bytes()
    changed = VALUES.copy()
    changed[place] = (changed[place] + 1) % 100
    folder.write([*changed, 1, 2, 3])
    refused(folder.run(), "differs", "--new-epoch")
    assert folder.output.read_bytes() == before


@pytest.mark.parametrize("count", [0, 1, 99, 1024, 2999])
def test_an_input_that_shrank_is_refused(folder, count):
    ok(folder.run())
    folder.write(VALUES[:count])
    refused(folder.run(), f"{3000 - count} values before")


def test_a_change_that_rounding_hides_is_none(folder):
    folder.write(VALUES + 0.1)
    ok(folder.run("--resolution", 1))
    folder.write(VALUES)
    ok(folder.run("--resolution", 1))


def test_another_kind_of_file_with_the_same_values_goes_on(folder):
    folder.write(VALUES[:2000])
    ok(folder.run())
    other = folder.path / "in.jsonl"
    other.write_text("".join(json.dumps({"value": int(value)}) + "\n" for value in VALUES))
    ok(folder.run("--column", "value", source=other))
    assert folder.rows().size == 2900


# -- pipes -----------------------------------------------------------------------------------------


def test_a_pipe_that_is_resent_is_recognised_and_skipped(folder):
    first = ok(folder.pipe(VALUES[:1500])).stdout
    second = ok(folder.pipe(VALUES)).stdout
    assert second.startswith(first)
    assert len(second.splitlines()) == 2901
    new = ok(folder.pipe(VALUES, "--emit", "new")).stdout
    assert new in ("", "position,value,level\n")
    new = ok(folder.pipe([*VALUES, 7, 8], "--emit", "new")).stdout
    assert [line.partition(",")[0] for line in new.splitlines()[-2:]] == ["2900", "2901"]
    assert len(new.splitlines()) <= 3


@pytest.mark.parametrize(
    "resent", [[], VALUES[:1], VALUES[:500], VALUES[1:], [55, *VALUES], [0] * 99]
)
def test_a_pipe_that_is_not_what_was_read_is_never_taken_for_new(folder, resent):
    ok(folder.pipe(VALUES))
    refused(folder.pipe(resent), "--stdin continues")
    ok(folder.pipe(VALUES))


@pytest.mark.parametrize("count", [1, 50, 2000])
def test_low_entropy_is_no_reason_to_guess(folder, count):
    def sent(number, *more):
        seen.append(number if not more else seen[-1] + number)
        return (ok if seen[-1] > 100 else held)(folder.pipe([0] * number, *more))

    seen = []
    sent(count)
    sent(count + 10)  # resent, and ten more
    sent(10, "--stdin", "continues")
    result = sent(count + 20)
    assert len(result.stdout.splitlines()) == max(0, count + 20 - 100) + bool(count + 20 > 100)


def test_a_pipe_that_continues(folder):
    ok(folder.pipe(VALUES[:1000]))
    output = ok(folder.pipe(VALUES[1000:], "--stdin", "continues")).stdout
    assert len(output.splitlines()) == 2901
    assert ok(folder.pipe(VALUES)).stdout == output  # the positions are those of the whole


# -- the output ------------------------------------------------------------------------------------


def test_a_deleted_output_is_written_again(folder):
    ok(folder.run())
    before = folder.output.read_bytes()
    folder.output.unlink()
    ok(folder.run())
    assert folder.output.read_bytes() == before


@pytest.mark.parametrize("left", [0, 5, 15, 20, 1000, -1, -7])
def test_a_truncated_output_is_completed(folder, left):
    ok(folder.run())
    before = folder.output.read_bytes()
    folder.output.write_bytes(before[:left])
    ok(folder.run())
    assert folder.output.read_bytes() == before


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_holes_and_zeros_of_a_power_cut_are_mended(folder, kind):
    folder.write(np.tile(VALUES, 10))
    output = folder.path / f"out.{kind}"
    ok(folder.run(output=output))
    before = output.read_bytes()
    assert len(before) > 300_000
    for start, end in ((len(before) - 5000, len(before)), (150_000, 154_096)):
        holed = bytearray(before)
        holed[start:end] = bytes(end - start)
        output.write_bytes(holed)
        ok(folder.run(output=output))
        assert output.read_bytes() == before


def test_an_edited_output_is_noticed(folder):
    ok(folder.run())
    lines = folder.output.read_bytes().splitlines(keepends=True)
    before = b"".join(lines)
    lines[1500] = b"1499,999,999\n"
    folder.output.write_bytes(b"".join(lines))
    result = folder.run()
    assert result.exit_code in (0, 3)
    if result.exit_code == 0:
        assert "differs" in result.stderr
        assert folder.output.read_bytes() == before


def test_another_output_gets_everything(folder):
    ok(folder.run())
    for name in ("other.csv", "other.jsonl", "other.parquet", "other.csv.gz"):
        ok(folder.run(output=folder.path / name))
        assert (folder.rows(folder.path / name) == folder.rows()).all()


@pytest.mark.parametrize("kind", ["csv", "jsonl.gz", "parquet"])
def test_an_output_of_another_release_is_left_alone(folder, kind):
    """Shorter than ours, so that its length tells nothing."""
    foreign = folder.path / f"foreign.{kind}"
    short = folder.path / "short.csv"
    short.write_text("".join(f"{value}\n" for value in VALUES[:500]))
    ok(folder.run(source=short, output=foreign, state=False))
    before = foreign.read_bytes()
    ok(folder.run())
    refused(folder.run(output=foreign), "another release")
    assert foreign.read_bytes() == before


def test_a_file_that_is_not_ours_is_left_alone(folder):
    folder.output.write_text("name,phone\nalice,555\n")
    result = folder.run()
    assert result.exit_code in (3, 4)
    assert "alice" not in result.output
    assert folder.output.read_text() == "name,phone\nalice,555\n"


@pytest.mark.parametrize("kind", ["csv", "jsonl", "csv.gz", "parquet"])
def test_a_state_older_than_its_output_is_refused(folder, kind):
    output = folder.path / f"out.{kind}"
    folder.write(VALUES[:1000])
    ok(folder.run(output=output))
    shutil.copytree(folder.state, folder.path / "backup")
    folder.write()
    ok(folder.run(output=output))
    before = output.read_bytes()
    shutil.rmtree(folder.state)
    (folder.path / "backup").rename(folder.state)
    refused(folder.run(output=output), "older than its output", "--new-epoch")
    assert output.read_bytes() == before


def test_an_output_without_its_first_rows_is_not_continued_wrongly(folder):
    ok(folder.run())
    lines = folder.output.read_bytes().splitlines(keepends=True)
    folder.output.write_bytes(b"".join((lines[0], *lines[10:])))
    result = folder.run()
    if result.exit_code == 0:
        assert folder.output.read_bytes() == b"".join(lines)
    else:
        refused(result)


def test_parquet_under_another_name(folder):
    output = folder.path / "out.dat"
    ok(folder.run("--output-format", "parquet", output=output))
    before = output.read_bytes()
    ok(folder.run("--output-format", "parquet", output=output))
    assert output.read_bytes() == before


# -- settings, keys, epochs, caps ------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        ["--epsilon", "2"],
        ["--bound", "200"],
        ["--holdout", "101"],
        ["--horizon", "512"],
        ["--skipped", "0"],
        ["--non-negative"],
        ["--estimator", "mean"],
        ["--unit", "window:2"],
        ["--rethreshold", "every=500"],
        ["--resolution", "0.5"],
        ["--preset", "pak"],
    ],
)
def test_other_settings_are_refused(folder, change):
    ok(folder.run())
    before = folder.output.read_bytes()
    refused(folder.run(settings=[*SETTINGS, *change]), "other settings")
    assert folder.output.read_bytes() == before


def test_keys(folder, monkeypatch):
    key, other = folder.path / "key", folder.path / "other"
    key.write_bytes(os.urandom(32))
    other.write_text(os.urandom(32).hex() + "\n")
    folder.write(VALUES[:1000])
    ok(folder.run("--key-file", key))
    folder.write()
    refused(folder.run(), "sealed")
    refused(folder.run("--key-file", other), "key")
    monkeypatch.setenv("TIDEGATE_KEY", key.read_bytes().hex())
    ok(folder.run())
    assert folder.rows().size == 2900
    refused(folder.run("--key-file", folder.path / "missing"), "key-file", code=4)
    (folder.path / "short").write_text("secret")
    result = refused(folder.run("--key-file", folder.path / "short"), "32 bytes", code=2)
    assert "secret" not in result.output


def test_a_key_for_an_unsealed_state(folder, monkeypatch):
    ok(folder.run())
    monkeypatch.setenv("TIDEGATE_KEY", os.urandom(32).hex())
    refused(folder.run(), "not sealed")


def test_a_state_that_is_begun_without_a_key_says_so(folder, monkeypatch):
    """Before the first raw value is stored, and not again in every run."""
    folder.write([])
    assert "is not sealed" in held(folder.run()).stderr
    folder.write()
    first = ok(folder.run()).stderr
    assert first.count("is not sealed") == 1
    assert "is not sealed" not in ok(folder.run()).stderr
    shutil.rmtree(folder.state)
    folder.output.unlink()
    assert ok(folder.run("--quiet")).stderr == ""
    shutil.rmtree(folder.state)
    folder.output.unlink()
    monkeypatch.setenv("TIDEGATE_KEY", os.urandom(32).hex())
    assert "is not sealed" not in ok(folder.run()).stderr


def test_an_empty_key_is_no_key_left_out(folder, monkeypatch):
    """A secret that was not mounted must not lead to raw state on the disk."""
    monkeypatch.setenv("TIDEGATE_KEY", "")
    refused(folder.run(), "TIDEGATE_KEY", code=2)
    assert not folder.state.exists()


def test_a_new_epoch_is_charged_and_needs_an_output_of_its_own(folder):
    ok(folder.run())
    first = folder.rows()
    assert folder.spent() == 1
    refused(folder.run("--new-epoch"), "another output", code=2)
    assert (folder.rows() == first).all()
    ok(folder.run())  # and nothing was given up yet
    assert folder.spent() == 1
    ok(folder.run("--new-epoch", output=folder.path / "second.csv"))
    second = folder.rows(folder.path / "second.csv")
    assert (first != second).mean() > 0.5
    assert folder.spent() == 2
    epochs = {
        read_metadata(path)["phases"][0]["epoch"]
        for path in (folder.output, folder.path / "second.csv")
    }
    assert len(epochs) == 2


def test_a_new_epoch_that_is_refused_costs_nothing(folder):
    """However often: the input or the output cannot be used."""
    ok(folder.run())
    bad = folder.path / "bad.csv"
    bad.write_text("x\n")
    second = folder.path / "second.csv"
    for _ in range(2):
        refused(folder.run("--new-epoch", output=folder.path / "no" / "out.csv"), "folder", code=4)
        refused(folder.run("--new-epoch", output=folder.path / "out.strange"), "format", code=2)
        refused(
            folder.run("--new-epoch", "--no-header", source=bad, output=second), "row 0", code=4
        )
        second.unlink(missing_ok=True)
    assert folder.spent() == 1
    ok(folder.run("--new-epoch", output=second))
    assert folder.spent() == 2


@pytest.mark.parametrize("state", [True, False], ids=["durable", "once"])
def test_metadata_name_every_threshold_of_an_input_read_at_once(folder, state):
    """3,000 values are one batch here, and more than the history of this release."""
    settings = ["--epsilon", "1", "--bound", "100", "--holdout", "20", "--horizon", "16"]
    settings += ["--rethreshold", "every=64,share=1/4"]
    output = folder.path / "out.csv.gz"
    ok(folder.run(settings=settings, output=output, state=state))
    starts = [phase["start"] for phase in read_metadata(output)["phases"]]
    assert starts == [*range(0, 2980, starts[1])]
    if state:
        ok(folder.run(settings=settings, output=output))  # it knows its own output


def test_a_lost_state_needs_a_new_epoch(folder):
    ok(folder.run())
    for path in folder.state.glob("state.sqlite*"):
        path.unlink()
    refused(folder.run(output=folder.path / "second.csv"), "lost", "--new-epoch")
    ok(folder.run("--new-epoch", output=folder.path / "second.csv"))
    assert folder.spent() == 2


def test_a_cap_stops_before_the_value_goes_out(folder):
    refused(folder.run("--cap", "0.9"), "cap")
    assert not folder.output.exists() or folder.rows().size == 0
    assert folder.spent() == 0


def test_a_cap_reached_later(folder):
    """Everything the cap pays for is released and readable; the exit code says why it ends."""
    settings = [*SETTINGS, "--skipped", "0", "--rethreshold", "every=500,share=1/2", "--cap", "1"]
    folder.write(VALUES[:1])
    held(folder.run(settings=settings))
    with Ledger.open(folder.state / "ledger.jsonl") as ledger:
        charge = ledger.charges()[0]
        half = charge.guarantee.__class__(epsilon=charge.epsilon / 2)
        ledger.charge(
            source="state", epoch="another", stage="stream", start=1050, end=1060, guarantee=half
        )
    folder.write()
    refused(folder.run(settings=settings), "cap")
    assert folder.rows().size == 900  # the second window begins at 1000, 100 of them held out
    assert read_metadata(folder.output)["released"] == 900
    refused(folder.run(settings=settings), "cap")
    assert folder.rows().size == 900


def test_a_ledger_that_was_edited_is_refused(folder):
    ok(folder.run())
    ledger = folder.state / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b'"epsilon":"1"', b'"epsilon":"0"'))
    refused(folder.run(), "ledger")


@pytest.mark.parametrize("name", ["state.sqlite", "ledger.jsonl"])
def test_state_and_ledger_that_disagree(folder, name):
    """One of the two comes from a backup of the beginning."""
    folder.write(VALUES[:10])
    held(folder.run())
    old = (folder.state / name).read_bytes()
    folder.write()
    ok(folder.run())
    (folder.state / name).write_bytes(old)
    refused(folder.run())


def test_a_state_that_cannot_be_a_folder(folder):
    folder.state.write_text("a file")
    result = folder.run()
    assert result.exit_code in (2, 4)
    assert result.stderr.startswith("tidegate: --state")
