"""Any order of pushes, kills, interruptions, restarts, keys, epochs and cut ledgers.

The model knows what was published. No position is published twice with different numbers, no noise
meets two data, no event counts twice, and the ledger is never below what was spent.
"""

import shutil
from contextlib import ExitStack

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import tidegate as tg
from tests.depth import examples
from tests.durable.moments import image, scratch, traced
from tests.interruptions import Interrupted
from tidegate.durable import DurableRelease, StateError
from tidegate.errors import TidegateError
from tidegate.ledger import CapExceeded, Ledger
from tidegate.units import UserHorizon

# An exception between the opening of a file and the assignment leaves it to the collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)

PIPELINES = [
    tg.tops(
        epsilon=1, bound=100, resolution=1,
        holdout=5, horizon=16, fanout=4, skipped=1, rethreshold_every=8,
        rethreshold_share="1/2",
    ),
    tg.tops(epsilon=1, bound=100, resolution=1,
        holdout=5, horizon=8, skipped=0, unit=UserHorizon(most=2)),
    tg.adaptive(epsilon=1, bound=100, resolution=1, holdout=5, horizon=16),
    tg.adaptive(epsilon=1, bound=100, resolution=1, horizon=32),
    tg.adaptive(epsilon=1, bound=100, resolution=1, horizon=32, lower=-40),
]  # fmt: skip
CAP = 3
sizes = st.integers(1, 9)


class Durable(RuleBasedStateMachine):
    """One folder, and everything that can happen to it."""

    def __init__(self):
        super().__init__()
        self.stack = ExitStack()
        self.place = self.stack.enter_context(scratch())
        self.folder = self.place / "0"
        self.published = {}  # by epoch: the values that left, or that a replay has shown
        self.offered = []  # of this epoch: what was pushed at each position, by user
        self.noise = 0  # so that values that are offered again are others
        self.key = None
        self.erased = False
        self.run = None

    def teardown(self):
        if self.run is not None:
            self.run.close()
        self.stack.close()

    @initialize(pipeline=st.sampled_from(PIPELINES))
    def begin(self, pipeline):
        self.pipeline = pipeline
        self.run = DurableRelease.open(self.folder, pipeline, cap=CAP, source="meters")

    # -- what the model knows --------------------------------------------------------------------

    def values(self, count):
        """New ones, even for positions that were offered before but never released."""
        self.noise += 1
        start = self.run.seen
        numbers = [(7 * at + 13 * self.noise) % 101 for at in range(start, start + count)]
        names = [f"user {(at + self.noise) % 3}" for at in range(start, start + count)]
        self.offered[start:] = list(zip(numbers, names, strict=True))
        users = names if self.run.pipeline.unit == PIPELINES[1].unit else None
        return numbers, users

    def note(self, first, values):
        known = self.published.setdefault(self.run.epoch, [])
        assert first <= len(known), "a position was left out"
        for at, value in enumerate(np.asarray(values).tolist(), start=first):
            if at < len(known):
                assert known[at] == value, "published twice, with other numbers"
            else:
                known.append(value)

    def opened(self, **options):
        self.run = DurableRelease.open(self.folder, self.pipeline, key=self.key, **options)
        del self.offered[self.run.seen :]  # what was not committed never left
        for first, values in self.run.replay():
            self.note(first, values)

    usable = precondition(lambda self: not self.erased)

    # -- what can happen -------------------------------------------------------------------------

    @usable
    @rule(count=sizes)
    def push(self, count):
        numbers, users = self.values(count)
        self.note(*self.run.push(numbers, users))

    @usable
    @rule(count=sizes, at=st.integers(0, 700), kill=st.booleans())
    def push_that_is_stopped(self, count, at, kill):
        """Raise at one of its lines; then the process ends, tidily or not."""
        numbers, users = self.values(count)
        left, copy, out = at, self.place / f"{self.noise}", []

        def push():
            return self.run.push(numbers, users)

        def reached():
            nonlocal left
            left -= 1
            if left == -1:
                if kill:
                    image(self.folder, copy)
                raise Interrupted

        try:
            traced(("durable", "ledger", "_atomic_files"), reached, lambda: out.append(push()))
        except Interrupted:
            if self.run.seen == self.run._release.seen and not self.run._ownership.cut_short:
                return  # before anything was begun: it goes on
            with pytest.raises(StateError, match="cut short"):
                push()
            self.run.close()
            self.folder = copy if kill else self.folder
            self.opened()
        else:
            self.note(*out[0])

    @usable
    @rule()
    def reopen(self):
        self.run.close()
        self.opened()

    @usable
    @rule()
    def kill(self):
        copy = self.place / f"killed {self.noise}"
        self.noise += 1
        image(self.folder, copy)
        self.run.close()
        self.folder = copy
        self.opened()

    @usable
    @rule()
    def ask(self):
        record = self.run.record
        assert self.run.facts()["released"] == self.run.position
        if self.run.warming:  # rows are out, but nothing is measured yet
            assert record is None
            return
        assert (0 if record is None else record.end) == self.run.position
        if self.run.position:
            assert self.run.query(0, self.run.position) == record.query(0, self.run.position)

    @usable
    @rule(number=st.integers(0, 2))
    def change_key(self, number):
        self.key = bytes([number]) * 32 if number else None
        self.run.change_key(self.key) if number else self.run.unseal()

    @rule(lost_key=st.booleans())
    def new_epoch(self, lost_key):
        self.run.close()
        key = bytes(range(32)) if lost_key else self.key
        try:
            run = DurableRelease.open(self.folder, self.pipeline, key=key, new_epoch=True)
        except CapExceeded:
            assert self.spent() > CAP - 1
            if not self.erased:
                self.opened()
            return
        assert run.epoch not in self.published
        run.close()
        self.key, self.erased = key, False
        self.opened()
        assert (self.run.seen, self.run.position) == (0, 0)

    @usable
    @rule()
    def erase(self):
        self.run.erase()
        self.run.close()
        with pytest.raises(StateError, match="erased"):
            self.opened()
        self.erased = True

    @rule(lines=st.integers(1, 3), without_state=st.booleans())
    def cut_ledger(self, lines, without_state):
        """On a copy: refused, with a new epoch and without, whatever else is lost."""
        if not self.erased:
            self.run.close()
        copy = self.place / "cut"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.folder, copy)
        ledger = copy / "ledger.jsonl"
        ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:-lines]))
        if without_state:
            (copy / "state.sqlite").unlink()
        for new_epoch in (False, True):
            with pytest.raises(TidegateError, match=r"put|erased"):
                DurableRelease.open(copy, self.pipeline, key=self.key, new_epoch=new_epoch)
        if not self.erased:
            self.opened()

    # -- what always holds -----------------------------------------------------------------------

    def spent(self):
        with Ledger.open(self.folder / "ledger.jsonl", read_only=True) as ledger:
            return ledger.total().epsilon

    @invariant()
    def ledger_holds_every_epoch(self):
        if self.run is None:
            return
        with Ledger.open(self.folder / "ledger.jsonl", read_only=True) as ledger:
            charged = {charge.epoch for charge in ledger.charges()}
            assert {epoch for epoch, values in self.published.items() if values} <= charged
            assert ledger.total().epsilon <= CAP

    @invariant()
    def input_is_what_was_taken(self):
        if self.run is None or self.erased:
            return
        numbers = np.array([number for number, _ in self.offered[: self.run.seen]], dtype=np.int64)
        names = [name for _, name in self.offered[: self.run.seen]]
        users = names if self.run.pipeline.unit == PIPELINES[1].unit else None
        assert self.run.recogniser().left == numbers.size
        units = self.run.pipeline.lattice.units(numbers)
        assert not numbers.size or self.run.recogniser().push(units, users)
        assert self.run.position == max(0, self.run.seen - self.pipeline.holdout)
        assert len(self.published.get(self.run.epoch, [])) <= self.run.position


Durable.TestCase.settings = settings(max_examples=examples(20), stateful_step_count=25)
TestDurable = Durable.TestCase
