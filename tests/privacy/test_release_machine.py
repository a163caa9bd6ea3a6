"""Any order of everything that can happen to a release in memory, against a model that remembers.

The model knows what was fed and published under every epoch. At the end an undisturbed twin of each
branch gets all that was fed to it, in one push: it must publish the same bits. A value that counted
twice, noise that met two data, a position that was published twice with different numbers, or state
that an exception left half-way would show.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import tidegate as tg
from tests.depth import examples
from tests.interruptions import interrupted
from tidegate import ownership
from tidegate.errors import InputError, TidegateError

HOLDOUT = 5
BASE = {"epsilon": 1, "bound": 9, "holdout": HOLDOUT, "horizon": 8, "fanout": 2, "skipped": 1}
PIPELINES = (
    tg.tops(**BASE),
    tg.tops(**BASE, non_negative=True),
    tg.tops(**BASE, rethreshold_every=8),
    tg.tops(**BASE, rethreshold_every=8, rethreshold_share=0.5),
    tg.tops(**BASE, unit=tg.units.UserHorizon(most=2)),
    tg.adaptive(epsilon=1, bound=9, holdout=HOLDOUT, horizon=64),
    tg.adaptive(epsilon=1, bound=9, holdout=HOLDOUT, horizon=64, unit=tg.units.UserHorizon(most=2)),
    tg.adaptive(epsilon=1, bound=9, horizon=32),
    tg.adaptive(epsilon=2, bound=9, horizon=32, unit=tg.units.UserHorizon(most=2)),
)
numbers = st.integers(-1, 11)


@dataclass
class Branch:
    """A release, and what the outside knows of it."""

    release: tg.Release
    root: bytes  # the state in which this epoch began
    begins: int  # inputs that were taken before
    fed: list[int] = field(default_factory=list)  # all inputs since, also of pushes cut short
    taken: int = 0  # how many of them the release has
    published: dict[int, float] = field(default_factory=dict)
    saved: tuple[bytes, int, int] = (b"", 0, 0)  # snapshot, taken, branches
    branches: list[int] = field(default_factory=lambda: [1])  # shared by those that know each other


class ReleaseMachine(RuleBasedStateMachine):
    """Push, query, snapshot, resume, fork; exceptions anywhere; a forked process."""

    @initialize(pipeline=st.sampled_from(PIPELINES))
    def start(self, pipeline: tg.Pipeline) -> None:
        self.pipeline = pipeline
        release = pipeline.start()
        root = release.snapshot()
        self.all = [Branch(release, root, 0, saved=(root, 0, 1))]
        self.at = 0

    @property
    def branch(self) -> Branch:
        return self.all[self.at % len(self.all)]

    def users(self, first: int, count: int) -> list[str] | None:
        if self.pipeline.unit == tg.units.Event():
            return None
        return [f"user {(at * at) % 3}" for at in range(first, first + count)]

    def following(self, fresh: list[int]) -> tuple[list[int], Any]:
        """What was fed before after the present position must be fed again; then new values."""
        branch = self.branch
        values = [*branch.fed[branch.taken :], *fresh]
        return values, self.users(branch.begins + branch.taken, len(values))

    def received(self, values: list[int], out: list[float], before: int) -> None:
        branch = self.branch
        branch.fed[branch.taken :] = values
        branch.taken += len(values)
        for position, number in enumerate(out, start=before):
            assert branch.published.setdefault(position, number) == number
        assert branch.release.position == before + len(out)
        seen = branch.begins + branch.taken
        assert branch.release.seen == seen
        assert branch.release.position == max(0, seen - self.pipeline.holdout)

    @rule(fresh=st.lists(numbers, min_size=1, max_size=12))
    def push(self, fresh: list[int]) -> None:
        values, users = self.following(fresh)
        before = self.branch.release.position
        self.received(values, self.branch.release.push(values, users).tolist(), before)

    @rule(value=numbers)
    def push_one(self, value: int) -> None:
        if self.branch.fed[self.branch.taken :]:
            self.push([])
        users, before = self.users(self.branch.release.seen, 1), self.branch.release.position
        out = self.branch.release.push(value, users and users[0])
        self.received([value], [] if out is None else [out], before)

    @rule(
        fresh=st.lists(numbers, min_size=1, max_size=4), at=st.integers(0, 700), one=st.booleans()
    )
    def push_cut_short(self, fresh: list[int], at: int, one: bool) -> None:
        values, users = self.following(fresh)
        branch, before, found = self.branch, self.branch.release.position, []
        single = one and len(values) == 1
        given = (values[0], users and users[0]) if single else (values, users)
        if not interrupted(lambda: found.append(branch.release.push(*given)), at):
            out = [] if found[0] is None else np.atleast_1d(found[0]).tolist()
            self.received(values, out, before)
            return
        try:
            branch.release.snapshot()
        except TidegateError:  # it may have looked at the values: they must come again
            branch.fed[branch.taken :] = values
            for entry in (
                branch.release.fork,
                branch.release.journal_entries,
                branch.release.save_record,
            ):
                with pytest.raises(TidegateError):
                    entry()
            self.resume()
        else:  # not taken: the next push may bring others
            assert branch.release.seen == branch.begins + branch.taken

    @rule()
    def snapshot(self) -> None:
        branch = self.branch
        branch.saved = (branch.release.snapshot(), branch.taken, branch.branches[0])

    @rule()
    def resume(self) -> None:
        branch = self.branch
        state, branch.taken, known = branch.saved
        branch.release, branch.branches = self.pipeline.resume(state), [known]

    @rule()
    def reopen(self) -> None:
        self.snapshot()
        self.resume()

    @precondition(lambda self: len(self.all) < 3)
    @rule()
    def fork(self) -> None:
        parent = self.branch
        release = parent.release.fork()
        parent.branches[0] += 1
        root = release.snapshot()
        begins = parent.begins + parent.taken
        saved = (root, 0, parent.branches[0])
        self.all.append(Branch(release, root, begins, saved=saved, branches=parent.branches))
        assert len({branch.release.epoch for branch in self.all}) == len(self.all)

    @rule()
    def next_branch(self) -> None:
        self.at += 1

    @rule(users=st.booleans())
    def refused_input(self, users: bool) -> None:
        release, seen = self.branch.release, self.branch.release.seen
        given = ([1, 2], [True, True]) if users else ([1, "x"], self.users(0, 2))
        with pytest.raises(InputError):
            release.push(*given)
        assert release.seen == seen

    @rule()
    def forked_process(self) -> None:
        """In a child everything refuses; the parent notices nothing."""
        release, process = self.branch.release, ownership._process
        ownership._renew()
        try:
            for entry in (
                release.snapshot,
                release.fork,
                lambda: release.push([1], self.users(0, 1)),
            ):
                with pytest.raises(TidegateError, match="was forked"):
                    entry()
        finally:
            ownership._process = process

    @precondition(lambda self: self.branch.release.threshold is not None)
    @rule()
    def query(self) -> None:
        record = self.branch.release.record
        answer = self.branch.release.query(record.start, record.end)
        assert answer.low <= answer.estimate <= answer.high

    @invariant()
    def charges_are_never_below_what_was_spent(self) -> None:
        for branch in self.all:
            assert branch.release.guarantee.epsilon >= branch.branches[0]

    def teardown(self) -> None:
        for branch in getattr(self, "all", []):
            twin = self.pipeline.resume(branch.root)
            first = twin.position
            out = twin.push(branch.fed, self.users(branch.begins, len(branch.fed))).tolist()
            for position, number in branch.published.items():
                assert out[position - first] == number


TestReleaseMachine = ReleaseMachine.TestCase
TestReleaseMachine.settings = settings(max_examples=examples(40), stateful_step_count=40)
