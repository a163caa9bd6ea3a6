"""Any order of requests, retries, questions, faults in a transaction, restarts and kills.

The model knows what was acknowledged and what was published. No position is published twice with
different numbers, no noise meets two data, no value counts twice, and the ledger is never below
what was spent: what is in the database is bit for bit what one undisturbed release would publish of
the values that were taken.
"""

from __future__ import annotations

import shutil
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import tidegate as tg
from tests.depth import examples
from tests.service.conftest import Place, sender
from tidegate.errors import TidegateError
from tidegate.ledger import CapExceeded
from tidegate.service.pending_requests import Conflict, PendingPush
from tidegate.service.released_rows import rows_between

PIPELINES = [
    tg.tops(epsilon=1, bound=100, resolution=1, holdout=5, horizon=16, fanout=4, skipped=1),
    tg.adaptive(epsilon=1, bound=100, resolution=1, horizon=32),
]
CAP = 1
PARTS = ("gate.py", "push_group.py", "open_streams.py", "stream_kinds.py", "sql_stream_state.py",
         "sql_ledger.py", "released_rows.py", "database.py", "release.py", "commit.py",
         "journal.py", "account.py", "ledger.py")  # fmt: skip
OUTSIDE = ("_next", "_abandoned")  # takes requests from the queue; answers after a fault
numbers = st.lists(st.integers(0, 100).map(float), min_size=1, max_size=9)


class CutError(Exception):
    """What happens at a line that nobody thought of."""


class GateMachine(RuleBasedStateMachine):
    """One stream behind a gate, and everything that can happen to it."""

    def __init__(self) -> None:
        super().__init__()
        self.scratch = TemporaryDirectory()
        self.place = Place(Path(self.scratch.name) / "0", None)
        self.service: Any = None
        self.taken: list[float] = []  # every value that was committed
        self.requests: dict[str, tuple[float, ...]] = {}  # by idempotency key
        self.placed: dict[int, list[float]] = {}  # without a key, by the place of the first value
        self.published: list[float] = []  # what anybody could have read
        self.number = 0

    def teardown(self) -> None:
        if self.service is not None:
            self.service.gate.close()
        self.scratch.cleanup()

    @initialize(pipeline=st.sampled_from(PIPELINES))
    def begin(self, pipeline: tg.Pipeline) -> None:
        self.pipeline = pipeline
        self.service = self.place.opened(cap=CAP)
        gate = self.service.gate
        gate.call(lambda: gate.streams.create("meters", pipeline, source="house")).result(60)
        self.twin = gate.ask("meters", lambda run: run._release.snapshot())

    def send(self, values: Any, **more: Any) -> Any:
        return sender(self.service, "meters")(*values, **more)

    # -- requests --------------------------------------------------------------------------------

    @rule(values=numbers, keyed=st.booleans(), placed=st.booleans())
    def new(self, values: list[float], keyed: bool, placed: bool) -> None:
        self.number += 1
        key = f"request {self.number}" if keyed else None
        start = len(self.taken) if placed else None
        receipt = self.send(values, key=key, start=start)
        assert (receipt.start, receipt.count, receipt.repeated) == (
            len(self.taken), len(values), False,
        )  # fmt: skip
        self.taken += values
        if key is not None:
            self.requests[key] = (tuple(values), start)
        elif start is not None:
            self.placed[start] = values

    @rule(which=st.integers(0, 99), other=st.booleans())
    def again_by_key(self, which: int, other: bool) -> None:
        if not self.requests:
            return
        key = sorted(self.requests)[which % len(self.requests)]
        values, start = self.requests[key]
        if other:
            with pytest.raises(Conflict):
                self.send((*values[:-1], values[-1] + 1), key=key, start=start)
        else:
            assert self.send(values, key=key, start=start).repeated

    @rule(which=st.integers(0, 99), other=st.booleans())
    def again_by_place(self, which: int, other: bool) -> None:
        if not self.placed:
            return
        start = sorted(self.placed)[which % len(self.placed)]
        values = self.placed[start]
        if other:
            with pytest.raises(Conflict):
                self.send([*values[:-1], (values[-1] + 50) % 101], start=start)
        else:
            assert self.send(values, start=start).repeated

    @rule(at=st.integers(0, 99), size=st.integers(1, 5))
    def at_a_place_that_is_taken(self, at: int, size: int) -> None:
        """What is said does not hang on what was taken there: it would tell values of others."""
        if not self.taken:
            return
        start = at % len(self.taken)
        values = self.taken[start : start + size]
        if self.placed.get(start) == values:
            return
        said = []
        for sent in (values, [*values[:-1], (values[-1] + 50) % 101]):
            with pytest.raises(Conflict, match="by another request") as refused:
                self.send(sent, start=start)
            said.append(str(refused.value))
        assert said[0] == said[1]

    @rule(gap=st.integers(1, 5))
    def beyond_the_end(self, gap: int) -> None:
        with pytest.raises(Conflict, match="missing"):
            self.send([1.0], start=len(self.taken) + gap)

    @rule(values=numbers)
    def together(self, values: list[float]) -> None:
        """One group: two requests with one key, one whose sender has left, and a good one."""
        self.number += 1
        key = f"request {self.number}"
        waiting = [
            PendingPush("meters", np.array(values), key=key),
            PendingPush("meters", np.array(values), key=key),
            PendingPush("meters", np.array([7.0])),
            PendingPush("meters", np.array([8.0])),
        ]
        with self.service.gate.lock:
            for one in waiting:
                self.service.gate.submit(one)
            waiting[2].answer.cancel()
        assert waiting[3].answer.result(60).count == 1
        assert waiting[0].answer.result(60).start == len(self.taken)
        with suppress(Conflict):  # unless the first was a group of its own
            assert waiting[1].answer.result(60).repeated
        self.taken += [*values, 7.0, 8.0]
        self.requests[key] = (tuple(values), None)

    @rule()
    def a_second_stream_of_the_source(self) -> None:
        """The cap is spent as soon as the first has taken a value."""
        gate = self.service.gate
        self.number += 1
        name = f"other {self.number}".replace(" ", "-")
        gate.call(lambda: gate.streams.create(name, self.pipeline, source="house")).result(60)
        if self.taken:
            with pytest.raises(CapExceeded):
                sender(self.service, name)(1.0)

    # -- what goes wrong -------------------------------------------------------------------------

    @rule(values=numbers, line=st.integers(0, 900))
    def fault(self, values: list[float], line: int) -> None:
        """Raise at one line of the transaction: all of it happens, or nothing."""
        self.number += 1
        key, left, armed = f"request {self.number}", line, False

        def local(frame: Any, event: str, _: Any) -> Any:
            nonlocal left
            if event == "line" and armed:
                left -= 1
                if left == -1:
                    raise CutError
            return local

        def tracer(frame: Any, event: str, _: Any) -> Any:
            code = frame.f_code
            inside = Path(code.co_filename).name in PARTS
            return local if inside and code.co_name not in OUTSIDE else None

        gate = self.service.gate
        gate.call(lambda: sys.settrace(tracer)).result(60)
        armed = True
        pending = PendingPush("meters", np.array(values), key=key)
        try:
            gate.submit(pending)
            receipt = pending.answer.result(20)
        except (TidegateError, CutError):
            receipt = None
        finally:
            armed = False
            gate.call(lambda: sys.settrace(None)).result(60)
        seen = gate.ask("meters", lambda run: run.seen)
        assert seen in (len(self.taken), len(self.taken) + len(values))
        if receipt is not None:
            assert seen == len(self.taken) + len(values)
        again = self.send(values, key=key)  # as a client does that was refused
        assert again.repeated == (seen > len(self.taken))
        self.taken += values
        self.requests[key] = (tuple(values), None)

    @rule()
    def restart(self) -> None:
        self.service.gate.close()
        self.service = self.place.opened(cap=CAP)

    @rule()
    def kill(self) -> None:
        """Nothing is left but what is on the disk."""
        self.number += 1
        copy = Path(self.scratch.name) / str(self.number)
        with self.service.gate.lock:
            shutil.copytree(self.place.folder, copy)
        self.service.gate.close()
        self.place = Place(copy, None)
        self.service = self.place.opened(cap=CAP)

    @rule(start=st.integers(0, 50), length=st.integers(1, 50))
    def ask(self, start: int, length: int) -> None:
        undisturbed = self.undisturbed()
        end = undisturbed.position
        if end - start < length or undisturbed.warming:
            return
        found = self.service.gate.ask("meters", lambda run: run.query(start, start + length))
        assert found.estimate == undisturbed.query(start, start + length).estimate

    # -- what holds ------------------------------------------------------------------------------

    def undisturbed(self) -> Any:
        release = self.pipeline.resume(self.twin)
        self.whole = release.push(np.array(self.taken)) if self.taken else np.empty(0)
        return release

    @invariant()
    def what_is_published_is_what_one_release_would_publish(self) -> None:
        if self.service is None:
            return
        gate = self.service.gate
        blocks = [block.values for block in rows_between(gate.database, "meters", 0, 10**9)]
        rows = np.concatenate(blocks) if blocks else np.empty(0)
        assert rows[: len(self.published)].tolist() == self.published
        self.published = rows.tolist()
        self.undisturbed()
        assert rows.tobytes() == self.whole.tobytes()
        assert gate.ask("meters", lambda run: run.seen) == len(self.taken)

    @invariant()
    def the_ledger_knows_what_was_spent(self) -> None:
        if self.service is not None and self.taken:
            assert self.service.gate.spent(lambda ledger: ledger.total("house").epsilon) == 1


GateMachine.TestCase.settings = settings(
    max_examples=examples(6), stateful_step_count=12, deadline=None, print_blob=True
)
test_any_order_of_requests_faults_and_restarts = GateMachine.TestCase


def test_the_parts_are_files() -> None:
    found = {path.name for path in Path(tg.__file__).parent.rglob("*.py")}
    assert set(PARTS) <= found  # else a renamed one is never cut
