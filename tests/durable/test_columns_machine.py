"""Several columns: any order of rows that come, runs, exceptions at any line, kills, lost columns.

No position is published twice with different numbers, no noise meets two data, no row counts twice,
and the ledger has one charge of the sum: whatever happened, the files are those of one run that
nobody disturbed.
"""

from __future__ import annotations

import shutil
import sys
from contextlib import ExitStack, suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.depth import examples
from tests.durable.moments import image, scratch, traced
from tests.durable.test_columns import COUNT, PIPELINES, Trips, charges, rows, run
from tests.interruptions import Interrupted
from tidegate.durable import StateError
from tidegate.durable.durable_columns import DurableColumns

# An exception between the opening of a file and the assignment leaves it to the collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)

PLACES = ("durable", "ledger", "io/text_sink", "_atomic_files")


class Columns(RuleBasedStateMachine):
    """One folder of two columns, and a source that grows."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.place = self.stack.enter_context(scratch())
        self.folder = self.place / "0"
        self.number, self.end, self.ran = 0, 5, 0
        self.published: dict[str, list[float]] = {name: [] for name in PIPELINES}

    def teardown(self) -> None:
        self.stack.close()

    @initialize()
    def begin(self) -> None:
        """Draw the noise; a copy of it is what nobody disturbs."""
        DurableColumns.open(self.folder / "state", PIPELINES, source="trips").close()
        shutil.copytree(self.folder, self.place / "base")
        undisturbed = self.place / "undisturbed"
        shutil.copytree(self.place / "base", undisturbed)
        run(undisturbed, Trips(COUNT))
        self.expected = {name: values.tolist() for name, values in rows(undisturbed).items()}

    @rule(more=st.integers(1, 15))
    def rows_come(self, more: int) -> None:
        self.end = min(COUNT, self.end + more)

    @rule(size=st.integers(3, 30))
    def whole_run(self, size: int) -> None:
        run(self.folder, Trips(self.end, size))
        self.ran = self.end

    @rule(line=st.integers(0, 4000), kill=st.booleans(), size=st.integers(3, 30))
    def stopped_run(self, line: int, kill: bool, size: int) -> None:
        """Raise at a line, or leave what a kill there would: then the same command goes on."""
        self.number += 1
        left, copy = line, self.place / f"copy {self.number}"

        def reached() -> None:
            nonlocal left
            left -= 1
            if left == -1:
                if kill:
                    image(self.folder, copy)
                sys.settrace(None)
                raise Interrupted

        with suppress(Interrupted):
            traced(PLACES, reached, lambda: run(self.folder, Trips(self.end, size)))
        if left < 0 and not kill:  # files that were open when it happened are locked still
            image(self.folder, copy)
        self.folder = copy if left < 0 else self.folder
        if left >= 0:
            self.ran = self.end

    @rule()
    def a_column_is_lost(self) -> None:
        """Its noise would be new, and the others' old: refused, until it is put back."""
        if not self.ran:
            return
        lost = next((self.folder / "state").glob("1-*"))
        aside = self.place / "aside"
        shutil.rmtree(aside, ignore_errors=True)
        shutil.move(lost, aside)
        before = charges(self.folder)
        with pytest.raises(StateError):
            run(self.folder, Trips(self.end))
        assert charges(self.folder) == before
        shutil.rmtree(lost, ignore_errors=True)
        shutil.move(aside, lost)

    @invariant()
    def files_are_those_of_an_undisturbed_run(self) -> None:
        found: dict[str, Any] = {name: [] for name in PIPELINES}
        with suppress(OSError, ValueError):
            found = {name: values.tolist() for name, values in rows(self.folder).items()}
        for name, values in found.items():
            assert values == self.expected[name][: len(values)]
            assert len(values) <= self.end
            self.published[name] = max(values, self.published[name], key=len)
            assert np.array_equal(
                self.published[name], self.expected[name][: len(self.published[name])]
            )

    @invariant()
    def the_ledger_has_one_charge_of_the_sum(self) -> None:
        if self.ran:
            assert charges(self.folder) == [(0, None, 1)]


Columns.TestCase.settings = settings(
    max_examples=examples(4), stateful_step_count=8, deadline=None, print_blob=True
)
test_any_order_of_runs_and_faults = Columns.TestCase
