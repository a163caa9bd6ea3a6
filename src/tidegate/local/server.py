"""`Server`: announcements out, reports in; one report for each client and round.

    report → well formed? → of the open round? → in the domain? → first of its client? ║ collection

It sees only reports, which devices have drawn under their own ε. So nothing here protects privacy,
only the collection from broken or malicious clients. A rejected report changes its count alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tidegate._context_managers import Closed
from tidegate.errors import QueryError, SnapshotError
from tidegate.exact_numbers import Number
from tidegate.guarantee import Guarantee
from tidegate.lattice import IntArray
from tidegate.local.announcements_and_reports import Announcement, Report, parsed_report
from tidegate.local.canonical_json import json_name
from tidegate.local.poisoning import PoisoningBound, poisoning_bound_of
from tidegate.local.question_assignment import announced, slot_of
from tidegate.local.questions import ValueQuestion
from tidegate.local.report_checks import Received, RejectedError, admitted, code, has_closed
from tidegate.local.server_collection import ServerCollection
from tidegate.local.server_store import ServerStateError, ServerStore
from tidegate.local.shuffle import Shuffled, amplified, least_hidden
from tidegate.ownership import NotCopied
from tidegate.randomness import random_bytes
from tidegate.record.answer import Answer
from tidegate.record.range_queries_and_answers import Answers

_BATCH = 1 << 14  # reports in one transaction
_MOST_NAMED = 10_000  # rejected reports of which a call says where they were


class Server(Closed, NotCopied):
    """A collection and its checks: made by `Topl.server()`. Threads may share it, one at a time.

    Args:
        collection: fresh, made from `settings`.
        settings: what the collection was made from, as plain data; kept in the file.
        guarantee: what the devices are promised.
        lower, bound, resolution: of the devices' values.
        path: the state's file; None: in memory only.
        by_name: which question a client is asked goes by its name, and reports to others are
            rejected (`question_assignment`); None: as the file says, and else in rotation.

    Attributes:
        accepted: reports taken so far.
        rejected: reports rejected so far, by reason.

    A call that is cut short (full disk, signal) leaves the object ahead of its file. It takes and
    says nothing then, until the file is opened again.
    """

    def __init__(
        self,
        collection: ServerCollection,
        *,
        settings: Mapping[str, Any],
        guarantee: Guarantee,
        bound: Fraction,
        resolution: Fraction,
        lower: Fraction = Fraction(0),
        path: str | Path | None = None,
        by_name: bool | None = None,
    ) -> None:
        self.collection = collection
        self.guarantee = guarantee
        self._lower, self._bound, self._resolution = lower, bound, resolution
        self.path = None if path is None else Path(path)
        self._store = ServerStore(self.path, create=self.path is None or not self.path.exists())
        try:
            if self._store.fact("settings") is None:  # new, or its maker was killed
                self._begin(settings, by_name=bool(by_name))
            else:
                self._load(settings, by_name)
        except BaseException:
            self._store.close()
            raise
        self._settings = settings
        self._round_closed = False  # since the state was written
        self._open_round()
        self._store.reload = self._reload

    def __repr__(self) -> str:
        return f"<Server round={self.round} accepted={self.accepted}; {self.guarantee}>"

    def _begin(self, settings: Mapping[str, Any], *, by_name: bool) -> None:
        self.by_name = by_name
        self._id, self._repeat = random_bytes(8).hex(), 0
        self.accepted, self.rejected = 0, Counter[str]()
        with self._store.transaction():
            self._store.set_facts({"settings": dict(settings), "id": self._id})
            self._store.set_facts({"repeat": 0, "accepted": 0, "by_name": by_name})
            # The questions as announced: computed anew elsewhere, they might differ in a bit.
            self._store.write_state(self.collection.plain())

    def _load(self, settings: Mapping[str, Any], by_name: bool | None) -> None:
        self.by_name = self._store.kept("by_name", bool)
        asked_otherwise = by_name is not None and by_name != self.by_name
        if self._store.plain("settings") != dict(settings) or asked_otherwise:
            raise ServerStateError(f"{self.path} is of a collection with other settings")
        self._id, self._repeat = self._store.kept("id", str), self._store.kept("repeat", int)
        self.accepted, self.rejected = self._store.kept("accepted", int), self._store.rejected()
        state = self._store.plain("state")
        try:
            if state is not None:
                self.collection.restore(state)
            # All of one round: the state is written in the step in which a round closes.
            self.collection.receive(*self._store.journal())
        except (SnapshotError, ValueError):
            raise ServerStateError(f"{self.path} is damaged") from None

    def _reload(self) -> None:
        """Take over what another process has written, such as a closed round."""
        self._load(self._settings, self.by_name)
        self._open_round()

    def _open_round(self) -> None:
        self.round = f"{self._id}.{self.collection.round}.{self._repeat}"
        self._handed_out = 0
        self._announcements = announced(
            self.collection.slots,
            name=self.round,
            lower=self._lower,
            bound=self._bound,
            resolution=self._resolution,
        )

    # -- asking ----------------------------------------------------------------------------------

    @property
    def announcements(self) -> tuple[Announcement, ...]:
        """The questions of the open round. Hand them out in rotation, whoever comes; where
        questions go by name, hand out all of them, for each device to pick its own."""
        with self._store.latest:
            return self._announcements

    def announcement(self, client: str | None = None) -> Announcement:
        """The question for the next device; where questions go by name, for this `client`."""
        with self._store.latest:
            if self.by_name:
                name = json_name({"client": client}, "client")
                return self._announcements[slot_of(self.round, name, len(self._announcements))]
            self._handed_out += 1
            return self._announcements[(self._handed_out - 1) % len(self._announcements)]

    def next_round(self) -> str:
        """Close the round; ask the same under a new name, so that every device may report again."""
        with self._store.turn, self._store.transaction():
            self._repeat += 1
            self._store.set_facts({"repeat": self._repeat})
            self._store.forget_clients()
            self._open_round()
        return self.round

    # -- receiving -------------------------------------------------------------------------------

    def collect(self, report: Report | str | bytes) -> None:
        """Take one report.

        Raises:
            RejectedError: it was not taken; nothing has changed but the count of the reason.
        """
        for reason in self.collect_many([report]).rejected:
            raise RejectedError(reason)

    def collect_many(self, reports: Iterable[Report | str | bytes]) -> Received:
        """Take many reports, each batch durably. Sending a report again is safe: a duplicate."""
        accepted, codes = 0, bytearray()
        rejected, rejected_at = Counter[str](), dict[int, str]()
        messages = iter(reports)
        # Read before the lock is taken: a malformed message makes nobody else wait.
        while batch := [parsed_report(message) for message in islice(messages, _BATCH)]:
            received = self._collect_batch(batch)
            accepted += received.accepted
            rejected.update(received.rejected)
            room = _MOST_NAMED - len(rejected_at)
            for place, reason in islice(received.rejected_at.items(), room):
                rejected_at[len(codes) + place] = reason
            codes += received.codes
        return Received(accepted, rejected, rejected_at=rejected_at, codes=bytes(codes))

    def collect_shuffled(self, shuffled: Shuffled, delta: Number = "1/1000000000") -> Received:
        """Take the reports of a shuffler, which has accepted one report of each client.

        An array at once: all of it is one transaction, on the disk when this returns. A hundred
        thousand reports a call are enough to hide what that costs.

        What comes back also says, for information, what a report costs in the central model, with
        this δ, if the shuffler kept names and order to itself.
        """
        amplified(1, 1, delta)  # a wrong delta is refused before anything is taken
        with self._store.turn, self._store.transaction():
            asked = self._announcements
            left = self.collection.left if shuffled.round == self.round else 0
            slots, reports, rejected = admitted(shuffled.slots, shuffled.reports, asked, left)
            counts = np.bincount(slots, minlength=len(asked))
            mixed = least_hidden([one.epsilon for one in asked], counts, delta)
            self._take(slots, reports)
            self._finish(slots.size, rejected)
        return Received(slots.size, rejected, mixed)

    def _collect_batch(self, batch: list[Report | str]) -> Received:
        accepted, rejected_at, codes = 0, dict[int, str](), bytearray(len(batch))
        with self._store.turn, self._store.transaction():
            waiting: list[tuple[int, int]] = []
            for place, given in enumerate(batch):
                try:
                    waiting.append(self._admitted(given))
                except RejectedError as error:
                    rejected_at[place] = error.reason
                    codes[place : place + 1] = code(error.reason)
                    continue
                accepted += 1
                if len(waiting) == self.collection.left:  # the round closes with this one
                    self._take(*np.array(waiting, dtype=np.int64).reshape(-1, 2).T)
                    waiting = []
            self._take(*np.array(waiting, dtype=np.int64).reshape(-1, 2).T)
            rejected = Counter(rejected_at.values())
            self._finish(accepted, rejected)
        return Received(accepted, rejected, rejected_at=rejected_at, codes=bytes(codes))

    def _admitted(self, given: Report | str) -> tuple[int, int]:
        if isinstance(given, str):
            raise RejectedError(given)
        asked = self._announcements
        if problem := given.problem(asked):
            late = problem == "round" and has_closed(given.round, self.round)
            raise RejectedError("late" if late else problem)
        if self.by_name and given.slot != slot_of(self.round, given.client, len(asked)):
            raise RejectedError("assignment")
        if not self._store.is_new(given.client):
            raise RejectedError("duplicate")
        return given.slot, given.report

    def _take(self, slots: IntArray, reports: IntArray) -> None:
        if not slots.size:
            return
        number = self.collection.round
        self._store.append(slots, reports)
        self.collection.receive(slots, reports)
        if self.collection.round != number:
            self._round_closed = True
            self._store.forget_clients()
            self._open_round()

    def _finish(self, accepted: int, rejected: Counter[str]) -> None:
        self.accepted += accepted
        self.rejected.update(rejected)
        self._store.set_facts({"accepted": self.accepted})
        self._store.count_rejected(rejected)
        if self._round_closed or self._store.state_is_old:  # a round is slow to close a second time
            self._store.write_state(self.collection.plain())
            self._round_closed = False

    # -- answers ---------------------------------------------------------------------------------

    @property
    def threshold(self) -> float | None:
        """θ, in units of the data; None before it is chosen."""
        with self._store.committed:
            return self.collection.threshold

    def query(self, start: int, end: int, confidence: float = 0.95) -> Answer:
        """The sum over the published positions [start, end)."""
        return self.queries([start], [end], confidence)[0]

    def queries(self, starts: ArrayLike, ends: ArrayLike, confidence: float = 0.95) -> Answers:
        """The sums over many ranges."""
        with self._store.committed:
            self._store.whole(self.collection.settle)  # cut short, it would lose reports
            return self.collection.queries(starts, ends, confidence)

    def poisoning_bound(self, fraction: float) -> PoisoningBound:
        """How far a fraction of malicious clients can shift a sum, at the largest θ so far."""
        with self._store.committed:
            self._store.whole(self.collection.settle)
            used = np.array([one[1:] for one in self.collection.collected.thresholds])
        for slot in self.collection.slots:
            if isinstance(slot.question, ValueQuestion):
                steps = np.rint(used / float(self._resolution)).astype(np.int64)
                widest = slot.question.at(int(steps[:, 0].max()), int(steps[:, 1].min()))
                return poisoning_bound_of(widest, fraction, float(self._resolution))
        raise QueryError("no threshold was chosen yet: there is no stream to move")

    # -- the file --------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the file; everything accepted is on the disk already."""
        self._store.close()
