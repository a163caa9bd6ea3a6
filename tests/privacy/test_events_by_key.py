"""Events by key, end to end: an audit over many keys, and sums that move as their events do."""

from __future__ import annotations

import numpy as np

import tidegate as tg
from tidegate.run import event_log

THETA, TICK = 23, np.timedelta64(60, "s")
KEYS, LEAVES = [str(key) for key in range(8)], 128
CLOCK = {"every": "1min", "start": "2024-02-01"}
START = np.datetime64("2024-02-01T00:00", "s")


def leaf_sums(seed: int, *, events: bool) -> np.ndarray:
    """The released sums of all leaves of 4 ticks of all keys; each with one event, or none.

    Noise of leaves and keys is independent, so each leaf is a run of its own.
    """
    how = {"fixed": True, "resolution": 1, "horizon": 64, "nodes": (4,), **CLOCK}
    release = tg.keyed(tg.events(epsilon=1, bound=THETA, **how), keys=KEYS).start(tg.seeded(seed))
    if events:
        when = START + (4 * np.tile(np.arange(LEAVES), len(KEYS)) + 1) * TICK
        release.push(np.repeat(KEYS, LEAVES).tolist(), when, np.full(when.size, THETA))
    release.advance(str(START + 4 * LEAVES * TICK))
    segments = [release.record(key).segments[0] for key in KEYS]
    assert {block.layout.edge(1) for one in segments for block in [*one.blocks][1:]} == {4}
    # The first block, of 16 ticks, is measured whole.
    return np.concatenate([one.released[one.blocks[0].layout.leaves :] for one in segments])


def test_an_event_of_a_key_stays_below_the_claim_and_a_fault_is_caught(tools, monkeypatch):
    def bound() -> float:
        both = without, leaf_sums(2, events=True)
        return tools.lower_bound_of_epsilon(*(np.abs(one - THETA) - np.abs(one) for one in both))

    without = leaf_sums(1, events=False)
    assert without.size == len(KEYS) * (LEAVES - 4)
    assert 0.4 < bound() < 1
    add = event_log.EventLog.add
    with monkeypatch.context() as patch:  # an event that counts twice
        patch.setattr(event_log.EventLog, "add", lambda *given: (add(*given), add(*given)))
        assert bound() > 1.1


def test_sums_of_a_key_move_by_its_events_and_by_nothing_else():
    """f(N + A·u) = f(N) + u through keys, ticks and trees: released sums, leaf by leaf."""
    pipeline = tg.events(epsilon=2, bound=50, resolution="1/2", horizon=256, **CLOCK)
    random = np.random.default_rng(4)
    keys = random.choice(["a", "b"], 900)
    times = START + random.integers(0, 200 * 60, 900).astype("timedelta64[s]")
    values = random.exponential(6, 900)

    def sums(added: int | None) -> dict[str, list[tuple[int, ...]]]:
        release = tg.keyed(pipeline, keys=["a", "b"]).start(tg.seeded(3))
        release.push(keys, times, values)
        if added is not None:
            release.push(["a"], [START + added * TICK], [1.5])
        release.advance("2024-02-01T03:20")
        found = {}
        for key in ("a", "b"):
            rows = []
            for segment in release.record(key).segments:
                released = segment.released.tolist()
                for block in segment.blocks:
                    first = block.first - segment.leaves.oldest
                    for leaf in range(min(block.layout.leaves, len(released) - first)):
                        edges = (block.start + block.layout.edge(leaf + at) for at in (0, 1))
                        rows.append((*edges, released[first + leaf]))
            found[key] = rows
        return found

    before, moved = sums(None), 0
    for tick in (60, 131, 199):
        after = sums(tick)
        assert after["b"] == before["b"]
        for old, new in zip(before["a"], after["a"], strict=False):
            start, end, released = old
            if start <= tick < end:  # later trees follow what was released
                assert new == (start, end, released + 3)
                moved += 1
                break
            assert new == old
    assert moved == 3
