"""Any order of what can happen to releases of events and of many keys, against a model.

The model knows every action that was begun, and what came out of it. At the end an undisturbed twin
gets all of them: it must publish the same bits. An event that counts twice, noise that meets two
data, or state that an exception left half-way would show.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

import tidegate as tg
from tests.depth import examples
from tests.interruptions import interrupted
from tidegate import ownership
from tidegate.errors import InputError, TidegateError

CLOCK = {"every": "1min", "start": "2024-02-01"}
MINUTE, START = np.timedelta64(1, "m"), np.datetime64("2024-02-01")
KEYS = ("north", "south", "7")
TOPS = tg.tops(epsilon=1, bound=9, holdout=4, horizon=8, fanout=2, skipped=1)
REFINED = tg.adaptive(epsilon=2, bound=9, horizon=32)
SPECIFICATIONS: dict[str, Any] = {
    "events": tg.events(epsilon=2, bound=9, horizon=64, **CLOCK),
    "signed events": tg.events(epsilon=2, bound=9, lower=-9, fixed=True, horizon=64, **CLOCK),
    "numbers of events": tg.events(epsilon=2, horizon=64, **CLOCK),
    "keys in columns": tg.keyed(TOPS, keys=KEYS),
    "keys in objects": tg.keyed(REFINED, keys=KEYS),
    "a shared threshold": tg.keyed(TOPS, keys_are_public=True, threshold="shared"),
}
Action = tuple[str, tuple[int, ...]]
pushes = st.tuples(st.just("push"), st.lists(st.integers(-3, 11), max_size=8).map(tuple))
closings = st.tuples(st.just("close"), st.tuples(st.integers(0, 20)))


def applied(release: Any, action: Action, *, keyed: bool) -> bytes:
    """Do it, and give all that came out of it."""
    kind, numbers = action
    if keyed:  # every stream moves on by itself: there is nothing to close
        keys = [(*KEYS, "nobody")[abs(number) % 4] for number in numbers]
        rows = release.push(keys, list(numbers))
        return b"".join(part.tobytes() for part in (rows.codes, rows.positions, rows.values))
    if kind == "close":
        rows = release.close_ticks(numbers[0])
        return bytes(rows.values.tobytes() + rows.levels.tobytes())
    times = START + np.array([7 * number % 50 for number in numbers], dtype=np.int64) * MINUTE
    counting = release.pipeline.threshold.bound == 1
    release.push(times, None if counting else list(numbers))
    return b""


class StreamsMachine(RuleBasedStateMachine):
    """Push, close ticks, snapshot, resume; exceptions anywhere; a forked process."""

    @initialize(name=st.sampled_from(sorted(SPECIFICATIONS)))
    def start(self, name: str) -> None:
        self.keyed = "key" in name or "shared" in name
        self.specification = SPECIFICATIONS[name]
        self.release = self.specification.start()
        self.root = self.release.snapshot()
        self.log: list[Action] = []  # all that was begun, also what was cut short
        self.came: list[bytes | None] = []  # what came out of each, as far as it did
        self.taken, self.saved = 0, (self.root, 0)

    def catch_up(self) -> None:
        """What was begun after the snapshot must come again, exactly so."""
        for action in self.log[self.taken :]:
            self.note(applied(self.release, action, keyed=self.keyed))

    def note(self, out: bytes) -> None:
        before = self.came[self.taken]
        assert before is None or before == out  # nothing comes out twice in two forms
        self.came[self.taken] = out
        self.taken += 1

    def begun(self, action: Action) -> None:
        self.log.append(action)
        self.came.append(None)

    @rule(action=st.one_of(pushes, closings))
    def act(self, action: Action) -> None:
        self.catch_up()
        self.begun(action)
        self.note(applied(self.release, action, keyed=self.keyed))

    @rule(action=st.one_of(pushes, closings), at=st.integers(0, 600))
    def act_cut_short(self, action: Action, at: int) -> None:
        self.catch_up()
        out: list[bytes] = []
        seen, position = self.release.seen, self.release.position

        def doing() -> None:
            out.append(applied(self.release, action, keyed=self.keyed))

        # An exception in a generator that is being closed is dropped: then the action was done.
        if not interrupted(doing, at) or out:
            self.begun(action)
            self.note(out[0])
            return
        try:
            self.release.snapshot()
        except TidegateError:  # it may have looked at the events: they must come again
            with pytest.raises(TidegateError):
                applied(self.release, action, keyed=self.keyed)
            self.begun(action)
            self.resume()
        else:  # not taken: the next action may be another
            assert (self.release.seen, self.release.position) == (seen, position)

    @rule()
    def snapshot(self) -> None:
        self.catch_up()
        self.saved = (self.release.snapshot(), self.taken)

    @rule()
    def resume(self) -> None:
        state, self.taken = self.saved
        self.release = self.specification.resume(state)

    @rule()
    def refused_input(self) -> None:
        seen = self.release.seen
        given = (["north"], ["x"]) if self.keyed else ([START], ["x"])
        with pytest.raises(InputError):
            self.release.push(*given)
        assert self.release.seen == seen

    @rule()
    def forked_process(self) -> None:
        """In a child everything refuses; the parent notices nothing."""
        process = ownership._process
        ownership._renew()
        try:
            for entry in (
                self.release.snapshot,
                lambda: applied(self.release, ("push", (3,)), keyed=self.keyed),
                lambda: applied(self.release, ("close", (1,)), keyed=self.keyed),
            ):
                with pytest.raises(TidegateError, match="was forked"):
                    entry()
        finally:
            ownership._process = process

    def teardown(self) -> None:
        if not hasattr(self, "root"):
            return
        twin = self.specification.resume(self.root)
        for action, out in zip(self.log, self.came, strict=True):
            found = applied(twin, action, keyed=self.keyed)
            assert out is None or out == found


TestStreamsMachine = StreamsMachine.TestCase
TestStreamsMachine.settings = settings(max_examples=examples(30), stateful_step_count=25)
