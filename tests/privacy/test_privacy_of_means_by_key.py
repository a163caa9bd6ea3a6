"""Means by key: what an event costs in both streams together, and that nothing else shows it."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.cli.invoking import run
from tests.laws.catalogue import bits
from tests.privacy.measured_blocks import leaves_of
from tidegate.errors import SettingError, TidegateError
from tidegate.run import event_log
from tidegate.run.column_budgets import COUNT

THETA, TICK = 23, np.timedelta64(60, "s")
KEYS, LEAVES = [str(key) for key in range(8)], 128
START = np.datetime64("2024-02-01T00:00", "s")
HOW: dict[str, Any] = {"every": "1min", "start": "2024-02-01", "fixed": True, "resolution": 1}
HOW |= {"horizon": 64, "nodes": (4,)}
SECRET = "Zebedee-77"  # a key that nobody declared


def leaf_sums(seed: int, *, events: bool, **how: Any) -> tuple[np.ndarray, np.ndarray]:
    """What was released of all leaves of 4 ticks of all keys, of sums and of numbers.

    Each leaf has one event, of θ, or none. Noise of leaves and keys is independent, so each leaf is
    a run of its own.
    """
    means = tg.event_means(bound=THETA, **HOW, **how)
    release = tg.keyed(means, keys=KEYS).start(tg.seeded(seed))
    if events:
        when = START + (4 * np.tile(np.arange(LEAVES), len(KEYS)) + 1) * TICK
        release.push(np.repeat(KEYS, LEAVES).tolist(), when, np.full(when.size, THETA))
    release.advance(str(START + 4 * LEAVES * TICK))
    # The first block of a segment, of 16 ticks, is measured whole.
    sums, counts = (
        [
            released
            for key in KEYS
            for segment in stream.record(key).segments
            for (start, end), released in leaves_of(segment)
            if end - start == 4
        ]
        for stream in (release.sums, release.counts)
    )
    return np.array(sums, dtype=float), np.array(counts, dtype=float)


@pytest.mark.parametrize("share", ["4/5", "1/2"])
def test_the_noise_of_each_stream_is_that_of_its_share(share: str) -> None:
    # Each event moves a sum by θ and a number by 1: scales θ/(share·ε) and 1/((1 − share)·ε).
    epsilon, part = 1.0, float(Fraction(share))
    sums, counts = leaf_sums(3, events=False, epsilon=epsilon, share=share)
    assert min(sums.size, counts.size) > 0.6 * len(KEYS) * LEAVES  # noise may begin segments anew
    # Of discrete Laplace noise of scale s, E|X| = 1/sinh(1/s).
    spent = [
        size * float(np.arcsinh(1 / np.abs(noise).mean()))
        for size, noise in ((THETA, sums), (1, counts))
    ]
    for found, claimed in zip(spent, (part * epsilon, (1 - part) * epsilon), strict=True):
        assert 0.88 < found / claimed < 1.12  # and not 0.7 or 1.3: 1,000 draws, 3 % each
    assert 0.9 < sum(spent) / epsilon < 1.1  # together they cost what is promised


def test_an_event_costs_both_streams_together_what_is_claimed(
    tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = leaf_sums(1, events=False, epsilon=1, share="1/2")
    assert without[0].size == without[1].size == len(KEYS) * (LEAVES - 4)
    assert abs(np.corrcoef(*without)[0, 1]) < 0.12  # each stream has noise of its own

    def bound() -> float:
        def score(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:  # log-likelihoods
            of_sums = (np.abs(sums - THETA) - np.abs(sums)) / THETA
            return (of_sums + np.abs(counts - 1) - np.abs(counts)) / 2

        with_one = leaf_sums(2, events=True, epsilon=1, share="1/2")
        return float(tools.lower_bound_of_epsilon(score(*without), score(*with_one)))

    assert 0.4 < bound() < 1
    add = event_log.EventLog.add
    with monkeypatch.context() as patch:  # an event that counts twice
        patch.setattr(event_log.EventLog, "add", lambda *given: (add(*given), add(*given)))
        assert bound() > 1.1


def test_the_guarantee_is_derived() -> None:
    means = tg.event_means(epsilon="1/3", bound=9, every="1h", start="2024-01-01", horizon=64)
    keyed = tg.keyed(means, keys=["a", "b"])
    assert keyed.guarantee.epsilon == Fraction(1, 3)
    assert [one.guarantee.epsilon for one in (keyed.sums, keyed.counts)] == [
        Fraction(4, 15), Fraction(1, 15)
    ]  # fmt: skip
    assert str(keyed.guarantee).startswith("ε = 0.333333 per event that is added or removed of any")
    assert keyed.start(tg.seeded(1)).guarantee.simulation
    for wrong, problem in (
        ({"keys_are_public": True}, "keys: must be declared for events"),
        ({}, "keys: must be declared"),
        ({"keys": ["a"], "threshold": "shared"}, "threshold: cannot be shared"),
    ):
        with pytest.raises(SettingError, match=problem):
            tg.keyed(means, **wrong)


def log(count: int = 1500) -> tuple[Any, Any, Any]:
    random = np.random.default_rng(0)
    keys = random.choice(["a", "b", SECRET], count, p=[0.6, 0.3, 0.1])
    times = START + random.integers(0, 4 * 86_400, count).astype("timedelta64[s]")
    return keys, times, random.exponential(9, count)


MEANS = tg.keyed(
    tg.event_means(epsilon=2, bound=60, every="1h", start="2024-02-01", horizon=96),
    keys=["a", "b", "none"],
)


def test_an_event_more_changes_the_rows_of_its_key_and_nothing_else() -> None:
    keys, times, values = log()
    outs = []
    for more in (None, "a", SECRET):
        release = MEANS.start(tg.seeded(5))
        release.push(keys, times, values)
        if more is not None:
            release.push([more], ["2024-02-02T12:00"], [40])
        outs.append(release.advance("2024-02-05"))
    plain, moved, undeclared = outs
    for at in (0, 1):  # sums and numbers: keys without an event have all rows, too
        for one in (moved, undeclared):
            assert one[at].codes.tolist() == plain[at].codes.tolist()
            assert one[at].times.tolist() == plain[at].times.tolist()
        assert bits(undeclared[at].values) == bits(plain[at].values)
        for key in ("b", "none"):
            assert bits(moved[at].of(key).values) == bits(plain[at].of(key).values)
        assert bits(moved[at].of("a").values) != bits(plain[at].of("a").values)


def test_numbers_know_no_values() -> None:
    keys, times, values = log()
    found = []
    for one in (values, np.zeros(values.size), np.full(values.size, np.nan), values * 1e6 - 7):
        release = MEANS.start(tg.seeded(5))
        release.push(keys, times, one)
        found.append([bits(rows.values) for rows in release.advance("2024-02-05")])
    assert all(one[1] == found[0][1] for one in found)
    assert found[0][0] != found[1][0]


def test_both_take_an_event_or_none() -> None:
    release = MEANS.start(tg.seeded(1))
    keys, times, values = log(20)
    for wrong in (
        (keys, [*times[:19].tolist(), "never"], values),
        (keys, times, [*values[:19].tolist(), "no number"]),
        (keys[:19], times, values),
    ):
        with pytest.raises(tg.InputError):
            release.push(*wrong)
    release.push(iter(keys.tolist()), iter(times.tolist()), values)  # both read them
    assert (release.sums.seen, release.counts.seen) == (20, 20)
    assert release.dropped == np.count_nonzero(keys == SECRET)


def test_nothing_is_answered_after_a_change_that_was_cut_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = MEANS.start(tg.seeded(1))
    release.push(*log())
    release.advance("2024-02-03")

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(release.counts, "advance", interrupt)
    with pytest.raises(KeyboardInterrupt):
        release.advance("2024-02-04")
    for ask in (release.mean, release.totals):
        with pytest.raises(TidegateError, match="cut short"):
            ask("1d") if ask == release.totals else ask(key="a")


def test_the_files_tell_nothing_of_undeclared_keys(tmp_path: Path) -> None:
    """With events of other keys or without them: the same keys, ticks and facts."""
    keys, times, values = log()
    (tmp_path / "zones.txt").write_text("a\nb\nnone\n")
    words = ["--by", "zone", "--keys", tmp_path / "zones.txt", "--time", "at", "--every", "1h"]
    words += ["--start", "2024-02-01", "--until", "2024-02-05", "--column", "fare", "--mean"]
    words += ["--epsilon", 2, "--bound", 60]
    found = []
    for name, kept in (("with", keys != ""), ("without", keys != SECRET)):
        rows = zip(times[kept], keys[kept], values[kept], strict=True)
        folder = tmp_path / name
        folder.mkdir()
        (folder / "log.csv").write_text(
            "at,zone,fare\n" + "".join(f"{a},{b},{c:.3f}\n" for a, b, c in rows)
        )
        more = ["-o", folder / "out.csv", "--state", folder / "state"]
        result = run("release", folder / "log.csv", *words, *more)
        assert result.exit_code == 0, result.output
        assert SECRET not in result.output
        count = np.count_nonzero(keys == SECRET)  # for the operator, and in no file
        assert (f"dropped {count}" in result.stderr) == (name == "with")
        public: list[Any] = [sorted(one.name for one in folder.iterdir())]
        for column in ("fare", COUNT):
            text = (folder / f"out.{column}.csv").read_text()
            facts = json.loads((folder / f"out.{column}.csv.meta.json").read_text())
            assert SECRET not in text + json.dumps(facts)
            public.append([line.split(",")[:3] for line in text.splitlines()])
            public.append([facts["released"], facts["keys"]["names"], sorted(facts)])
            public.append([facts["together"], facts["column"], facts["guarantee"]])
        found.append(public)
    assert found[0] == found[1]
