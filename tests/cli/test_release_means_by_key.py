"""Means by key on the command line: --mean with --by, asked of the name that was given to -o."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.cli.invoking import run
from tests.keyed.test_means_by_key import KEYED, KEYS, truth, written
from tidegate.errors import QueryError, SettingError
from tidegate.keyed.transfer import transfer_columns_by_key
from tidegate.ledger import Ledger


def asked(*words: Any) -> Any:
    found = run("query", *words, "--json")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def test_release_and_query(tmp_path: Path) -> None:
    words = [*written(tmp_path), "--column", "fare", "--until", "2024-02-05"]
    result = run(*words, "--state", tmp_path / "state")
    assert result.exit_code == 0, result.output
    assert "(fare 6.4, count 1.6)" in result.stderr
    assert f"dropped {np.sum(KEYS == 'other')} rows" in result.stderr
    with Ledger.open(tmp_path / "state" / "ledger.jsonl", read_only=True) as ledger:
        (charge,) = ledger.charges()
    assert (charge.epsilon, charge.start, charge.end) == (8, 0, None)
    output = tmp_path / "out.csv"
    found = {row["key"]: row for row in asked(output)["means"]}
    assert [*found] == ["a", "b", "none", "total"]
    for key, keys in (("a", "a"), ("b", "b"), ("total", "ab")):
        for name, true in zip(("count", "sum", "mean"), truth(*keys), strict=True):
            assert found[key][f"{name}_low"] <= true <= found[key][f"{name}_high"]
    assert found["none"]["mean"] is None
    days = asked(output, "--every", "1d", "--key", "b", "--confidence", "0.9")["means"]
    opened: Any = tg.open(output)
    table = opened.table("1d", key="b", confidence=0.9)
    assert [row["mean_low"] for row in days] == table.columns()["mean_low"].tolist()
    assert [row["from"] for row in days] == table.times
    total = asked(output, "--every", "1d", "--total", "--key", "a", "--key", "b")["means"]
    assert [row["count"] for row in total] == opened.totals("1d", keys="ab").columns()[
        "count"
    ].tolist()
    assert opened.mean("2024-02-02", "2024-02-03", key="a").low < truth("a", day=1)[2]
    assert opened.guarantee == str(KEYED.guarantee)
    assert opened["count"].query(key="a").estimate == opened.count(key="a").estimate
    text = run("query", output, "--every", "1w", "--key", "a").stdout
    assert "mean fare" in text
    assert "all columns together" in text
    assert "of any key" in text
    kept = (tmp_path / "out.count.csv").read_bytes()
    assert run(*words, "--state", tmp_path / "state").exit_code == 0  # nothing new is spent
    assert (tmp_path / "out.count.csv").read_bytes() == kept
    for more, problem in (
        (["--key", "other"], "key 'other' has no released rows"),
        (["--total"], "--total needs --every"),
        (["--as-of", "4"], "need a file with one stream"),
        (["--from", "2025-01-01", "--to", "2025-01-02"], "no row lies between"),
        (["--every", "1d", "0", "24"], "ask by position or by time"),
    ):
        refused = run("query", output, *more)
        assert problem in refused.stderr, more
        assert refused.exit_code


def test_several_columns_without_state(tmp_path: Path) -> None:
    words = [*written(tmp_path), "--column", "fare", "--column", "tip", "--share", "count=0.5"]
    words[words.index("-o") + 1] = output = tmp_path / "out.parquet"
    words += ["--bound", "tip=8", "--until", "2024-02-05"]
    words[words.index(60)] = "fare=60"
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert "(fare 2, tip 2, count 4)" in result.stderr
    rows = asked(output, "--key", "a")["means"]
    assert [row["column"] for row in rows] == ["fare", "tip"]
    opened: Any = tg.open(output)
    with pytest.raises(QueryError, match="say of which column"):
        opened.mean(key="a")
    tips = opened.of("tip").mean(key="b", confidence=0.999)
    assert tips.low <= truth("b")[2] / 8 <= tips.high
    with pytest.raises(QueryError, match="no mean of 'count'"):
        opened.of("count")
    with pytest.raises(QueryError, match="no column 'toll'"):
        opened["toll"]


def test_what_is_refused(tmp_path: Path) -> None:
    words = [*written(tmp_path), "--until", "2024-02-05", "--column", "fare"]
    for more, problem in (
        (["--keys-are-public"], "--keys-are-public cannot be used with --every"),
        (["--count"], "--count is part of --mean"),
        (["--user-column", "zone"], "--user-column cannot be used with --by"),
    ):
        result = run(*words, *more)
        assert problem in result.stderr, more
        assert not list(tmp_path.glob("out*"))
    result = run(*words, "--until", "2024-01-31")
    assert "no tick is over at --until" in result.stderr
    assert result.exit_code
    with pytest.raises(SettingError, match="means: need event streams"):
        transfer_columns_by_key(
            None, {"count": KEYED.counts.start()}, {}, until="2024-02-05", means=True
        )  # type: ignore[arg-type]
