"""Several columns of a table with keys: one budget, a file for each, and ratios of two by key."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.cli.invoking import run
from tests.entropy import beginning_with
from tidegate.errors import InputError
from tidegate.io import Batch, open_source
from tidegate.keyed.durable_columns_by_key import DurableKeyedColumns
from tidegate.keyed.passage_to_file import DurablePassage
from tidegate.keyed.transfer import transfer_columns_by_key
from tidegate.ledger import Ledger
from tidegate.record.mean_and_ratio import ratio
from tidegate.released.released_columns import column_file

COUNT = 4000
RANDOM = np.random.default_rng(4)
KEYS = RANDOM.choice(["a", "b", "other"], COUNT, p=[0.5, 0.4, 0.1])
FARES = RANDOM.gamma(4, 5, COUNT).round(2)
TIPS = (FARES / np.where(KEYS == "a", 5, 10)).round(2)
TIMES = np.datetime64("2024-01-01", "s") + 300 * np.arange(COUNT)
COLUMNS = {
    "fare": tg.keyed(tg.adaptive(epsilon="3/4", bound=100, horizon=2000), keys=["a", "b"]),
    "tip": tg.keyed(tg.adaptive(epsilon="1/4", bound=30, horizon=2000), keys=["a", "b"]),
}


def written(folder: Path, count: int = COUNT, keys: Any = KEYS) -> list[Any]:
    rows = zip(TIMES[:count], keys[:count], FARES[:count], TIPS[:count], strict=True)
    text = "at,zone,fare,tip\n" + "".join(f"{a},{b},{c},{d}\n" for a, b, c, d in rows)
    (folder / "in.csv").write_text(text)
    (folder / "zones").write_text("a\nb\n")
    words = ["release", folder / "in.csv", "--by", "zone", "--keys", folder / "zones"]
    words += ["--column", "fare", "--column", "tip", "--time", "at", "--epsilon", 1]
    words += ["--bound", "fare=100", "--bound", "tip=30", "--share", "fare=3/4"]
    return [*words, "-o", folder / "out.csv"]


def transferred(folder: Path, releases: Any) -> dict[str, Any]:
    sinks = {name: column_file(folder / "out.csv", name) for name in COLUMNS}
    how = {"by": "zone", "time": "at", "late": "keep"}
    with open_source(folder / "in.csv", column=[*COLUMNS], **how) as source:
        return transfer_columns_by_key(source, releases, sinks)


def test_each_column_is_what_it_is_alone(tmp_path: Path) -> None:
    """Bit for bit: so all that is known about one column by key holds for each of several."""
    written(tmp_path)
    started = {name: one.start(tg.seeded(3)) for name, one in COLUMNS.items()}
    results = transferred(tmp_path, started)
    for name, values in (("fare", FARES), ("tip", TIPS)):
        alone = COLUMNS[name].start(tg.seeded(3))
        expected = alone.push(KEYS, values, TIMES)
        found = tg.open(tmp_path / f"out.{name}.csv").rows()
        assert found.values.tolist() == expected.values.tolist()
        assert found.positions.tolist() == expected.positions.tolist()
        assert results[name].dropped == alone.dropped
        assert tg.open(tmp_path / f"out.{name}.csv").query(key="a") == alone.query(key="a")


@pytest.mark.parametrize("state", [[], ["--state"]])
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_ratios_by_key_on_the_command_line(tmp_path: Path, state: list[str], form: str) -> None:
    words = [*written(tmp_path)[:-1], tmp_path / f"out.{form}"]
    words += [*state, *([tmp_path / "state"] * len(state))]
    with beginning_with("ratios"):  # intervals hold in 95 of 100 runs: this is one of them
        result = run(*words)
    assert result.exit_code == 0, result.output
    assert "all columns together spent: ε = 1 per event of any key" in result.stderr
    assert "(fare 0.75, tip 0.25)" in result.stderr
    assert f"dropped {np.count_nonzero(KEYS == 'other'):,} rows" in result.stderr
    asked = ["query", tmp_path / f"out.{form}", "--ratio", "tip/fare", "--json"]
    rows = {row["key"]: row for row in json.loads(run(*asked).stdout)["ratios"]}
    for key, true in (("a", 1 / 5), ("b", 1 / 10)):
        assert rows[key]["low"] < true < rows[key]["high"] < 3 * true
        files = [tg.open(tmp_path / f"out.{name}.{form}") for name in ("tip", "fare")]
        exact = ratio(*(file.query(key=key) for file in files))
        assert rows[key]["ratio"] == exact.estimate
    declared = KEYS != "other"
    whole = TIPS[declared].sum() / FARES[declared].sum()
    assert rows["total"]["low"] < whole < rows["total"]["high"]
    assert run("query", tmp_path / f"out.{form}", "--column", "tip", "--key", "a").exit_code == 0
    misspelt = run(*asked[:2], "--ratio", "tip/fees", "--key", "a").stderr
    assert "no released column 'fees'" in misspelt  # catches: "no keys", though there are
    alone = run("query", files[0].path, "--ratio", "tip/fare", "--key", "a").stderr
    assert f"out.tip.tip.{form}: no such file" in alone


def test_a_charge_does_not_wait_for_a_declared_row(tmp_path: Path) -> None:
    # Catches: a line of the ledger whose moment tells when the first row with a declared key came.
    charges = []
    for name, keys in (("declared", KEYS), ("others", np.full(COUNT, "other"))):
        folder = tmp_path / name
        folder.mkdir()
        words = [*written(folder, keys=keys), "--state", folder / "state"]
        assert run(*words).exit_code == (0 if name == "declared" else 5)
        with Ledger.open(folder / "state" / "ledger.jsonl", read_only=True) as ledger:
            (charge,) = ledger.charges()
        charges.append((charge.epsilon, charge.stage, charge.start, charge.end))
    assert charges[0] == charges[1]
    assert charges[0][0] == Fraction(1)
    folder = tmp_path / "made"
    with (
        DurableKeyedColumns.open(folder, COLUMNS),
        Ledger.open(folder / "ledger.jsonl", read_only=True) as ledger,
    ):
        assert [charge.epsilon for charge in ledger.charges()] == [Fraction(1)]  # before any row


def test_a_cap_stops_all_columns(tmp_path: Path) -> None:
    words = [*written(tmp_path), "--state", tmp_path / "state", "--cap", "0.99"]
    assert run(*words).exit_code == 3
    assert not list(tmp_path.glob("out.*"))


def test_cut_short_between_two_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One has committed a batch, the other has not: both go on from where they are."""
    written(tmp_path, 2500)
    with DurableKeyedColumns.open(tmp_path / "state", COLUMNS) as runs:
        transferred(tmp_path, runs)
    before = [(tmp_path / f"out.{name}.csv").read_bytes() for name in COLUMNS]
    written(tmp_path)
    take, called = DurablePassage.take, []

    def cut_short(self: DurablePassage, batch: Batch) -> None:
        called.append(self)
        if len(called) == 2:
            raise KeyboardInterrupt
        take(self, batch)

    with monkeypatch.context() as patched:
        patched.setattr(DurablePassage, "take", cut_short)
        with (
            DurableKeyedColumns.open(tmp_path / "state", COLUMNS) as runs,
            pytest.raises(KeyboardInterrupt),
        ):
            transferred(tmp_path, runs)
    with DurableKeyedColumns.open(tmp_path / "state", COLUMNS) as runs:
        assert [run.seen for run in runs.runs.values()] == [COUNT, 2500]
        transferred(tmp_path, runs)
        assert [run.seen for run in runs.runs.values()] == [COUNT, COUNT]
    for name, begun in zip(COLUMNS, before, strict=True):
        text = (tmp_path / f"out.{name}.csv").read_bytes()
        assert text.startswith(begun)
        assert text.count(b"\n") == 1 + np.count_nonzero(KEYS != "other")


def test_the_order_of_times_is_that_of_each_key(tmp_path: Path) -> None:
    """Rows of different keys may come in any order; of one key only with --late keep."""
    folder = tmp_path
    words = written(folder)
    lines = (folder / "in.csv").read_text().splitlines(keepends=True)
    first = next(at for at, line in enumerate(lines) if ",a," in line)
    second = next(at for at, line in enumerate(lines) if at > first and ",a," in line)
    lines[first], lines[second] = lines[second], lines[first]
    (folder / "in.csv").write_text("".join(lines))
    result = run(*words)
    assert result.exit_code == 4
    assert "is before" in result.stderr or "older" in result.stderr or "order" in result.stderr
    assert run(*words, "--late", "keep", "--overwrite").exit_code == 0
    with pytest.raises(InputError):
        transferred(folder, {name: one.start() for name, one in COLUMNS.items()})


def test_keys_may_be_public(tmp_path: Path) -> None:
    words = written(tmp_path)
    at = words.index("--keys")
    words[at : at + 2] = ["--keys-are-public"]
    assert run(*words).exit_code == 0
    assert tg.open(tmp_path / "out.tip.csv").keys == [*dict.fromkeys(KEYS.tolist())]
