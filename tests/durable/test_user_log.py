"""Counts of users on the disk: exact after every restart, and no more written than was counted."""

import sqlite3

import numpy as np
import pytest

import tidegate as tg
from tidegate.durable import DurableRelease, StateError
from tidegate.durable import user_counts_log as user_log
from tidegate.units import UserHorizon

PIPELINE = tg.tops(
    epsilon=1, bound=100, resolution=1, holdout=20, horizon=4096, unit=UserHorizon(most=3)
)
KEY = bytes(range(32))


def stream(count, people=700):
    random = np.random.default_rng(3)
    values = random.integers(0, 100, count)
    return values, [f"user {number}" for number in random.integers(0, people, count)]


def rows(folder):
    with sqlite3.connect(folder / "state.sqlite") as database:
        found = [row[0] for row in database.execute("SELECT body FROM users ORDER BY number")]
    database.close()
    return found


@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize("most_rows", [4096, 5])
def test_counts_survive_restarts_and_horizons(tmp_path, monkeypatch, key, most_rows):
    monkeypatch.setattr(user_log, "_ROWS", most_rows)
    values, users = stream(5000)
    at, pushes = 0, [20, 1, 1, 500, 1, 4000, 400, 1, 1, 1, 74]  # beyond the first horizon too
    for size in pushes:
        with DurableRelease.open(tmp_path / "s", PIPELINE, key=key) as run:
            run.push(values[at : at + size], users[at : at + size])
        at += size
    assert at == 5000
    plain = PIPELINE.start(tg.seeded(1))
    plain.push(values, users)
    with DurableRelease.open(tmp_path / "s", PIPELINE, key=key) as run:
        assert run._release.user_cap.counts == plain.user_cap.counts
        assert run._release.user_cap.period == plain.user_cap.period


def test_a_commit_writes_only_who_was_counted(tmp_path):
    count = 3000
    values, _ = stream(count)
    users = [f"user {number}" for number in range(count)]
    with DurableRelease.open(tmp_path / "s", PIPELINE) as run:
        run.push(values[:-1], users[:-1])
        run.push(values[-1:], users[-1:])
        *_, whole, last = rows(tmp_path / "s")
        assert len(last) < 300 < 10 * count < len(whole)


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM users WHERE number = (SELECT max(number) FROM users)",
        "DELETE FROM users WHERE number = (SELECT min(number) FROM users)",
        "UPDATE users SET body = (SELECT body FROM users ORDER BY number LIMIT 1)",
        "INSERT INTO users (body) SELECT body FROM users ORDER BY number DESC LIMIT 1",
    ],
)
def test_damaged_counts_are_refused(tmp_path, damage):
    values, users = stream(60)
    with DurableRelease.open(tmp_path / "s", PIPELINE, key=KEY) as run:
        for at in range(20, 60, 10):
            run.push(values[at : at + 10], users[at : at + 10])
    with sqlite3.connect(tmp_path / "s" / "state.sqlite") as database:
        database.execute(damage)
    database.close()
    with pytest.raises(StateError, match="counts of users are damaged"):
        DurableRelease.open(tmp_path / "s", PIPELINE, key=KEY)


def test_another_key_and_erasure_leave_no_names(tmp_path):
    values, users = stream(60)
    with DurableRelease.open(tmp_path / "s", PIPELINE) as run:
        run.push(values, users)
        assert any(b"user " in row for row in rows(tmp_path / "s"))
        run.change_key(KEY)
        assert not any(b"user " in row for row in rows(tmp_path / "s"))
    with DurableRelease.open(tmp_path / "s", PIPELINE, key=KEY) as run:
        run.push(values, users)
        run.erase()
    assert rows(tmp_path / "s") == []
