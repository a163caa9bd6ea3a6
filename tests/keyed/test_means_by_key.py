"""Means by key: the answers of two streams of each key, in a program, in files and on the disk."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.cli.invoking import run
from tidegate.errors import QueryError
from tidegate.io import open_source
from tidegate.keyed.durable_columns_by_key import DurableKeyedColumns
from tidegate.keyed.durable_folder import DurableKeyed
from tidegate.keyed.passage_to_file import DurablePassage
from tidegate.keyed.transfer import transfer_columns_by_key, transfer_durably
from tidegate.ledger import CapExceeded, Ledger
from tidegate.record.mean_and_ratio import ratio
from tidegate.released.released_columns import column_file

START = np.datetime64("2024-02-01T00:00", "s")
DAYS = 4
CLOCK: dict[str, Any] = {"every": "1h", "start": "2024-02-01", "horizon": 96}
MEANS = tg.event_means(epsilon=8, bound=60, **CLOCK)
KEYED = tg.keyed(MEANS, keys=["a", "b", "none"])


def log(count: int = 6000) -> tuple[Any, Any, Any]:
    """Keys, times and values: cheap ones of a, dear ones of b, and a key that nobody declared."""
    random = np.random.default_rng(0)
    keys = random.choice(["a", "b", "other"], count, p=[0.6, 0.3, 0.1])
    times = np.sort(START + random.integers(0, DAYS * 86_400, count).astype("timedelta64[s]"))
    values = random.gamma(4, np.where(keys == "a", 2.0, 4.0), count).clip(0, 59)
    return keys, times, values


KEYS, TIMES, VALUES = log()


@pytest.fixture(scope="module")
def release() -> Any:
    release = KEYED.start(tg.seeded(5))
    release.push(KEYS, TIMES, VALUES)
    release.advance("2024-02-05")
    return release


def truth(*keys: str, day: int | None = None) -> tuple[float, float, float]:
    mine = np.isin(KEYS, keys)
    if day is not None:
        mine &= TIMES.astype("datetime64[D]") == np.datetime64("2024-02-01") + day
    return float(mine.sum()), float(VALUES[mine].sum()), float(VALUES[mine].mean())


def test_the_streams_are_those_of_events_by_key(release: Any) -> None:
    """Bit for bit: so all that is known about these holds for sums, and for numbers."""
    for pipeline, stream, values in (
        (MEANS.sums, release.sums, VALUES),
        (MEANS.counts, release.counts, None),
    ):
        alone = tg.keyed(pipeline, keys=["a", "b", "none"]).start(tg.seeded(5))
        alone.push(KEYS, TIMES, values)
        rows = alone.advance("2024-02-05")
        assert rows.of("a").positions.tolist() == list(range(24 * DAYS))
        for key in ("a", "b", "none"):
            assert alone.query(key=key) == stream.query(key=key)
        assert alone.query() == stream.query()


def test_answers_of_one_key_of_each_and_of_groups(release: Any) -> None:
    for keys in (["a"], ["b"], ["a", "b"]):
        found = release.query(key=keys[0]) if len(keys) == 1 else release.query(keys=keys)
        for one, true in zip((found.count, found.sum, found.mean), truth(*keys), strict=True):
            assert one.low <= true <= one.high < one.low * 1.3, keys
    assert release.query(keys=["a"]).mean.estimate == release.mean(key="a").estimate
    everything = release.query()
    assert everything.count.end == 3 * 24 * DAYS  # the key without events has all ticks, too
    table = release.table("1d", confidence=0.999)
    columns = table.columns()
    assert columns["key"].tolist() == ["a"] * DAYS + ["b"] * DAYS + ["none"] * DAYS
    for day in range(DAYS):
        for at, key in enumerate("ab"):
            row = DAYS * at + day
            for name, true in zip(("count", "sum", "mean"), truth(key, day=day), strict=True):
                assert columns[f"{name}_low"][row] <= true <= columns[f"{name}_high"][row]
    assert np.isnan(columns["mean"][-DAYS:]).all()  # where there may be no event
    with pytest.raises(QueryError, match="may be no event"):
        release.mean(key="none")
    assert release.query(key="none").mean is None
    one = release.table("1d", key="b", confidence=0.999).columns()
    assert one["mean"].tolist() == columns["mean"][DAYS : 2 * DAYS].tolist()
    group = release.table("1d", keys=["a", "b"], total=True).columns()
    assert group["count"] == pytest.approx(columns["count"][:4] + columns["count"][4:8])
    assert (group["mean"] < one["mean"]).all()
    assert release.totals("1d", keys=["a", "b"]).columns()["sum"].tolist() == group["sum"].tolist()
    assert table.to_pandas().shape == (3 * DAYS, len(columns))
    assert "12 counts, sums and means of 3 keys" in repr(table)
    assert "not known" in table._repr_html_()
    for wrong in ({"key": "a", "total": True}, {"key": "a", "keys": ["a"]}):
        with pytest.raises(QueryError, match="give key= for one key"):
            release.table("1d", **wrong)
    with pytest.raises(QueryError, match="every must be a length of time"):
        release.table(24)
    with pytest.raises(QueryError, match="other"):
        release.mean(key="other")


def test_intervals_of_means_hold_as_often_as_they_say() -> None:
    # Catches: the error of one of the two streams alone, or totals with the error of one key.
    means = tg.event_means(0.5, 30, share="9/10", **{**CLOCK, "horizon": 168}, fixed=True)
    names = [str(at) for at in range(20)]
    held = np.zeros(2)
    asked = np.zeros(2)
    for seed in range(3):
        random = np.random.default_rng(seed)
        minutes = random.integers(0, 168 * 60, (20, 168 * 40))
        values = random.uniform(0, 30, minutes.shape)
        release = tg.keyed(means, keys=names).start(tg.seeded(seed))
        times = (START + minutes.ravel().astype("timedelta64[m]")).astype("datetime64[s]")
        release.push(np.repeat(names, minutes.shape[1]), times, values.ravel())
        release.advance("2024-02-08")
        days = minutes // 1440
        sums = np.array([np.bincount(d, v, 7) for d, v in zip(days, values, strict=True)])
        counts = np.array([np.bincount(d, minlength=7) for d in days])
        pairs = (
            (release.table("1d").columns(), (sums / counts).ravel()),
            (release.totals("1d", keys=names[:4]).columns(), sums[:4].sum(0) / counts[:4].sum(0)),
        )
        for at, (table, true) in enumerate(pairs):
            held[at] += np.sum((table["mean_low"] <= true) & (true <= table["mean_high"]))
            asked[at] += true.size
    assert held[0] / asked[0] > 0.9
    assert held[1] / asked[1] > 0.85  # of 21


def written(folder: Path, count: int = KEYS.size) -> list[Any]:
    rows = zip(TIMES[:count], KEYS[:count], VALUES[:count], strict=True)
    (folder / "log.csv").write_text(
        "at,zone,fare,tip\n" + "".join(f"{a},{b},{c:.3f},{c / 8:.3f}\n" for a, b, c in rows)
    )
    (folder / "zones.txt").write_text("a\nb\nnone\n")
    words = ["release", folder / "log.csv", "--by", "zone", "--keys", folder / "zones.txt"]
    words += ["--time", "at", "--every", "1h", "--start", "2024-02-01", "--epsilon", 8]
    return [*words, "--mean", "--bound", 60, "-o", folder / "out.csv"]


def released(folder: Path, until: str, **options: Any) -> dict[str, int]:
    """Release the log; gives how many events were late in each column."""
    columns = {"fare": KEYED.sums, "count": KEYED.counts}
    sinks = {name: column_file(folder / "out.csv", name) for name in columns}
    with (
        open_source(
            folder / "log.csv", column=["fare"], by="zone", time="at", late="keep", events=True
        ) as source,
        DurableKeyedColumns.open(folder / "state", columns, source="log", **options) as runs,
    ):
        transfer_columns_by_key(source, runs, sinks, until=until, means=True)
        return {name: run.release.late for name, run in runs.runs.items()}  # type: ignore[attr-defined]


def lines(folder: Path, column: str) -> list[str]:
    return (folder / f"out.{column}.csv").read_text().splitlines()


def test_ratios_of_two_columns_by_key(tmp_path: Path) -> None:
    """Of each key, of a group, and by time: what the sums of both files give by Fieller."""
    words = [*written(tmp_path), "--column", "fare", "--column", "tip", "--until", "2024-02-05"]
    assert run(*words).exit_code == 0
    output, files = tmp_path / "out.csv", tg.open(tmp_path / "out.csv")
    asked = ["query", output, "--ratio", "tip/fare", "--json"]
    found = {row["key"]: row for row in json.loads(run(*asked).stdout)["ratios"]}
    assert [*found] == ["a", "b", "none", "total"]
    assert found["none"]["ratio"] is None
    assert "may be 0" in found["none"]["problem"]
    for key in ("a", "b"):
        exact = ratio(files["tip"].query(key=key), files["fare"].query(key=key))
        row = found[key]
        assert (row["ratio"], row["low"], row["high"]) == (exact.estimate, exact.low, exact.high)
        assert row["low"] <= 1 / 8 <= row["high"]
        assert files.ratio("tip", "fare", key=key) == exact
    whole = ratio(files["tip"].query(), files["fare"].query())
    assert found["total"]["ratio"] == whole.estimate == files.ratio("tip", "fare").estimate
    group = json.loads(run(*asked, "--key", "a", "--key", "b").stdout)["ratios"][-1]
    assert group["ratio"] == files.ratio("tip", "fare", keys=["a", "b"]).estimate
    daily = json.loads(run(*asked, "--key", "a", "--every", "1d").stdout)["ratios"]
    assert [row["from"][:10] for row in daily] == [f"2024-02-0{day}" for day in (1, 2, 3, 4)]
    day = {"from_": "2024-02-02", "to": "2024-02-03"}
    assert daily[1]["ratio"] == files.ratio("tip", "fare", key="a", **day).estimate
    totals = json.loads(run(*asked, "--every", "1d", "--total").stdout)["ratios"]
    assert totals[1]["ratio"] == files.ratio("tip", "fare", **day).estimate
    text = run(*asked[:-1], "--from", "2024-02-02", "--key", "b").stdout
    assert text.splitlines()[0].split() == ["key", "tip", "fare", "tip/fare", "95", "%", "interval"]
    assert "all columns together" in text
    for words, message in [
        (["--ratio", "tip/fees"], "no released column 'fees'"),
        (["--ratio", "tip/fare", "--key", "other"], "key 'other'"),
        (["--ratio", "tip/fare", "--as-of", "5"], "need a file with one stream"),
    ]:
        assert message in run("query", output, *words).stderr


def test_cut_short_between_two_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums had closed a tick, numbers had not; then an event of that tick came, too late.

    Catches: ticks that are released twice; an event that is in the numbers and not in the sums.
    """
    first, second = (
        int(np.searchsorted(TIMES, START + np.timedelta64(day, "D"))) for day in (1, 2)
    )
    written(tmp_path, first)
    released(tmp_path, "2024-02-02")
    before = {name: lines(tmp_path, name) for name in ("fare", "count")}
    written(tmp_path, second)
    close, called = DurablePassage.close_ticks, []

    def failing(self: Any, moment: Any) -> None:
        called.append(moment)
        if len(called) == 2:
            raise KeyboardInterrupt
        close(self, moment)

    with monkeypatch.context() as patched:
        patched.setattr(DurablePassage, "close_ticks", failing)
        with pytest.raises(KeyboardInterrupt):
            released(tmp_path, "2024-02-03")
    with DurableKeyedColumns.open(
        tmp_path / "state", {"fare": KEYED.sums, "count": KEYED.counts}
    ) as runs:
        assert [run.position for run in runs.runs.values()] == [3 * 48, 3 * 24]
    with (tmp_path / "log.csv").open("a") as file:
        file.write("2024-02-02T12:00:00,a,30,3\n" * 50 + "2024-02-03T01:00:00,b,30,3\n")
    late = released(tmp_path, "2024-02-04")
    assert late == {"fare": 50, "count": 50}
    for name, kept in before.items():
        found = lines(tmp_path, name)
        assert found[: len(kept)] == kept
        assert len(found) == 1 + 3 * 72
    opened: Any = tg.open(tmp_path / "out.csv")
    found = opened.query("2024-02-02", "2024-02-03", key="a")
    for one, true in zip((found.count, found.sum), truth("a", day=1), strict=False):
        assert one.low <= true <= one.high
    with Ledger.open(tmp_path / "state" / "ledger.jsonl", read_only=True) as ledger:
        (charge,) = ledger.charges()
    assert charge.epsilon == Fraction(8)


def test_the_cap_stops_all_columns(tmp_path: Path) -> None:
    written(tmp_path)
    with pytest.raises(CapExceeded):
        released(tmp_path, "2024-02-05", cap="7.9")
    assert not list(tmp_path.glob("out.*.csv"))
    with Ledger.open(tmp_path / "state" / "ledger.jsonl") as ledger:
        ledger.set_cap(8)
    released(tmp_path, "2024-02-05")
    assert len(lines(tmp_path, "count")) == 1 + 3 * 96
    # A column that is opened by itself takes nothing: the ledger of all would not know.
    with (
        DurableKeyed.open(tmp_path / "state" / "1-count", KEYED.counts) as alone,
        open_source(tmp_path / "log.csv", count=True, by="zone", time="at") as source,
        pytest.raises(tg.TidegateError, match="is one column of the state"),
    ):
        transfer_durably(source, alone, tmp_path / "out.count.csv", until="2024-02-06")


def test_keys_may_come_later_and_a_lost_output_is_refused(tmp_path: Path) -> None:
    words = [*written(tmp_path, 3000), "--column", "fare", "--state", tmp_path / "state"]
    assert run(*words, "--until", "2024-02-03").exit_code == 0
    (tmp_path / "zones.txt").write_text("a\nb\nnone\nother\n")
    assert run(*words, "--until", "2024-02-04").exit_code == 0
    opened: Any = tg.open(tmp_path / "out.csv")
    assert opened.keys == ["a", "b", "none", "other"]
    (tmp_path / "out.count.csv").unlink()
    facts = (tmp_path / "out.fare.csv.meta.json").read_bytes()
    result = run(*words, "--until", "2024-02-05")
    assert "is missing, or shorter than what was released" in result.stderr
    assert (
        json.loads((tmp_path / "out.fare.csv.meta.json").read_text())["keys"]
        == json.loads(facts)["keys"]
    )
