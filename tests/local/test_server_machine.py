"""Anything that can happen to a server, in any order: every report is counted once."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.depth import examples
from tests.interruptions import interrupted
from tests.local.settings import GIVEN
from tests.local.test_interruptions import PURE
from tests.local.test_server_faults import FailingDatabase
from tidegate.errors import TidegateError
from tidegate.local.announcements_and_reports import Report
from tidegate.local.server_store import ServerStateError
from tidegate.local.topl import Topl

TOPL = Topl(**{**GIVEN, "report": "stochastic-rounding"})
RAM = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
clients = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=4)


class Servers(RuleBasedStateMachine):
    """A server with a file, and the model: who was counted in the open round, and in all."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=RAM))
        self.path = self.folder / "state.db"
        self.server = TOPL.server(self.path)
        self.counted: set[str] = set()
        self.total = 0
        self.rounds = [self.server.round]
        self.cut_short = False

    def teardown(self) -> None:
        self.server.close()
        shutil.rmtree(self.folder)

    def _reports(self, names: list[str], **changed: Any) -> list[str]:
        fields = {"round": self.server.round, "phase": "stream", "epsilon": TOPL.epsilon}
        fields |= {"slot": 0, "report": 1, **changed}
        return [Report(client=name, **fields).json() for name in names]

    def _count(self, names: list[str]) -> int:
        """Into the model; how many are new."""
        new = set(names) - self.counted
        self.counted |= new
        self.total += len(new)
        return len(new)

    @rule(names=clients)
    def collect(self, names: list[str]) -> None:
        if self.cut_short:
            return
        received = self.server.collect_many(self._reports(names))
        assert received.accepted == self._count(names)
        assert received.rejected["duplicate"] == len(names) - received.accepted

    @rule(names=clients, which=st.sampled_from(("late", "domain", "slot", "epsilon", "no report")))
    def collect_wrong(self, names: list[str], which: str) -> None:
        if self.cut_short:
            return
        changed: dict[str, dict[str, Any]] = {
            "late": {"round": f"{self.server.round}x"},
            "domain": {"report": 2},
            "slot": {"slot": 1},
            "epsilon": {"epsilon": TOPL.epsilon / 2},
        }
        given = self._reports(names, **changed.get(which, {}))
        if which == "no report":
            given = [text[:-1] for text in given]
        assert self.server.collect_many(given).accepted == 0

    @rule()
    def next_round(self) -> None:
        if self.cut_short:
            return
        self.rounds.append(self.server.next_round())
        self.counted = set()

    @rule(names=clients, at=st.integers(0, 60), afterwards=st.booleans())
    def fail(self, names: list[str], at: int, afterwards: bool) -> None:
        if self.cut_short:
            return
        database = self.server._store._database
        failing: Any = FailingDatabase(database, at % 12, afterwards=afterwards)
        self.server._store._database = failing
        try:
            self.server.collect_many(self._reports(names))
        except TidegateError:
            self._uncertain(names)
        else:
            self._count(names)
            self.server._store._database = database

    @rule(names=clients, at=st.integers(0, 200))
    def interrupt(self, names: list[str], at: int) -> None:
        if self._interrupted(names, at):
            self._uncertain(names)

    def _interrupted(self, names: list[str], at: int) -> bool:
        """Whether an interruption came in between; if not, the reports count."""
        if self.cut_short:
            return False
        given = self._reports(names)
        if interrupted(lambda: self.server.collect_many(given), at, pure=PURE):
            return True
        self._count(names)
        return False

    def _uncertain(self, names: list[str]) -> None:
        """Whole or not at all, and the same reports again make it certain."""
        given, before = self._reports(names), self.total
        new = self._count(names)
        self.server.close()
        self.server = TOPL.server(self.path)
        assert self.server.accepted in (before, before + new)
        self.server.collect_many(given)

    @rule(names=clients, at=st.integers(0, 200))
    def interrupt_and_go_on(self, names: list[str], at: int) -> None:
        """Without opening it again: it refuses everything, or nothing has happened."""
        if not self._interrupted(names, at):
            return
        try:
            self.server.collect_many(self._reports(names))
        except ServerStateError:
            self.cut_short = True
        self._count(names)

    @rule()
    def reopen(self) -> None:
        self.server.close()
        self.server = TOPL.server(self.path)
        if self.cut_short:  # what was under way then is sent again
            self.server.collect_many(self._reports(sorted(self.counted)))
            self.cut_short = False

    @invariant()
    def every_report_counts_once(self) -> None:
        if self.cut_short:
            for say in (lambda: self.server.query(0, 0), lambda: self.server.announcements):
                try:
                    say()
                except ServerStateError:
                    continue
                raise AssertionError("a server that was cut short says what is not in its file")
            return
        assert self.server.accepted == self.total
        assert self.server.collection.collected.count == self.total
        assert self.server.round == self.rounds[-1]
        assert self.server.query(0, self.total).end == self.total


Servers.TestCase.settings = settings(max_examples=examples(25), stateful_step_count=25)
TestServers = Servers.TestCase
