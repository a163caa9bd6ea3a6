"""`Client`: the device's side: it trusts nobody, checks questions, and answers each round once.

    announcement → known round? → checks → draw → memory ║ report
                                           value         ║ one column of a public table

**What is released** is one report per round, drawn from integer weights that the device has checked
itself (`Question.check`): its distribution differs by at most e^ε between any two values. A round
that comes again gets the same report, whatever the value is by then, so asking again tells nothing.

**What it costs** a value is the ε of its one report: a value, called by the name of its event, is
reported on in one round, so in one phase. **What it costs the device** is the sum over its reports,
which never exceeds `lifetime`, exactly added: this holds whatever the server asks, in whatever
order, and whatever it makes its next question depend on (adaptive composition of pure ε).

Every check but the last reads the announcement and the memory only: a refusal tells nothing about
the value. The last is that the value is a number within the bounds: a device that may meet others
sets `clamp`, for an error is silence, and silence can be seen.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from tidegate.errors import InputError, RefusedError, SettingError
from tidegate.exact_numbers import Number, exact, positive, said
from tidegate.guarantee import Guarantee, cost
from tidegate.lattice import Lattice, one_number
from tidegate.local import report_delivery
from tidegate.local.announcements_and_reports import Announcement, Report
from tidegate.local.canonical_json import json_name
from tidegate.local.device_memory import Memory, Pin
from tidegate.local.integer_weights import fresh_words
from tidegate.local.question_assignment import of_one_round, slot_of
from tidegate.local.questions import Words
from tidegate.local.report_delivery import DeliveredReport
from tidegate.randomness import Randomness, secure
from tidegate.settings import flag


class Client:
    """One device.

    Args:
        epsilon: the most that one report may cost.
        lower, bound: the least and the largest value there is, public.
        resolution: the step between values, public; None: that of the round. (Privacy: how a value
            is rounded before the draw changes nothing about what the draw costs.)
        lifetime: the most that all reports of this device may cost together; by default as much as
            one report.
        memory: where reports are remembered: a path, or a `Memory`.
        name: a fixed name for reports. By default a new one for every round, made from a key that
            never leaves the device: a round takes one report from it, and rounds cannot be linked.
        clamp: take values beyond the bounds for the bounds; otherwise they are an error.
        randomness: `seeded` only to simulate, with a volatile memory.

    >>> from tidegate.local.questions import TailQuestion
    >>> client = Client(epsilon=1, bound=100, memory=Memory.volatile())
    >>> asked = Announcement(
    ...     round="r1",
    ...     phase="threshold",
    ...     epsilon=Fraction(1),
    ...     bound=Fraction(100),
    ...     resolution=Fraction(1),
    ...     slot=0,
    ...     question=TailQuestion.at(20.0, Fraction(1), dither=1.0),
    ... )
    >>> report = client.answer(asked.json(), 17)
    >>> client.answer(asked, 99) == report  # the same round: the same report
    True
    >>> client.left
    Fraction(0, 1)
    >>> print(client.guarantee)
    ε = 1 per event (exact arithmetic, local model)
    """

    def __init__(
        self,
        *,
        epsilon: Number,
        bound: Number,
        lower: Number = 0,
        resolution: Number | None = None,
        lifetime: Number | None = None,
        memory: Memory | str | Path,
        name: str | None = None,
        clamp: bool = False,
        randomness: Randomness | None = None,
    ) -> None:
        self.epsilon = positive("epsilon", epsilon)
        self.lifetime = self.epsilon if lifetime is None else positive("lifetime", lifetime)
        if self.lifetime < self.epsilon:
            raise SettingError("lifetime", f"must not be less than epsilon {said(self.epsilon)}")
        self.bound = positive("bound", bound)
        self.lower = exact("lower", lower)
        if self.lower > 0:
            raise SettingError("lower", f"must be 0 or below, not {said(lower)}")
        self.resolution = None if resolution is None else positive("resolution", resolution)
        if self.resolution is not None:  # refused now rather than in the first round
            Lattice(self.bound, self.resolution, self.lower)
        self.name = None if name is None else json_name({"name": name}, "name")
        self.clamp = flag("clamp", clamp)
        self._randomness = secure() if randomness is None else randomness
        self._simulation = self._randomness.new_epoch().simulation
        if self._simulation and not (isinstance(memory, Memory) and memory.path is None):
            raise SettingError("randomness", "a seeded client needs Memory.volatile()")
        self.memory = memory if isinstance(memory, Memory) else Memory.open(memory)

    def __repr__(self) -> str:
        return f"<Client {self.left} of {self.lifetime} left; {self.guarantee}>"

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for every single value; the device as a whole has `lifetime`."""
        return cost(Guarantee(epsilon=self.epsilon, model="local"), simulation=self._simulation)

    @property
    def ledger(self) -> tuple[Pin, ...]:
        """Every report so far: its time, round and cost."""
        return self.memory.pins

    @property
    def left(self) -> Fraction:
        """The unspent part of `lifetime`."""
        return self.lifetime - self.memory.spent

    def report(
        self,
        url: str,
        value: object,
        *,
        event: str = "",
        token: str | None = None,
        patience: float = 10.0,
    ) -> DeliveredReport:
        """Answer the open round of a service's task, and send waiting reports for it.

        Args:
            url: of the task: `https://host/v1/tasks/ID`.
            value, event: as for `answer`.
            token: of a device.
            patience: for how many seconds to try again. A report that was drawn and did not arrive
                is "queued": the next call sends the same one.

        Raises:
            UnreachableError, NotAskedError: nothing was drawn. And as for `answer`.
        """
        return report_delivery.report_to(
            self, report_delivery.DeliveryTask(url, token, patience), value, event
        )

    def deliver(
        self, url: str, *, token: str | None = None, patience: float = 10.0
    ) -> list[DeliveredReport]:
        """Send the reports of a task that are not acknowledged."""
        return report_delivery.deliver_to(self, report_delivery.DeliveryTask(url, token, patience))

    def answer(
        self,
        announcement: Announcement | str | bytes,
        value: object,
        *,
        event: str = "",
        round: str | None = None,  # noqa: A002  # as in messages
    ) -> Report:
        """Answer a round: check the question, draw the report, remember it on disk, return it.

        Args:
            announcement: what the server asks, as it came.
            value: a number within the bounds.
            event: what the value is called, such as a date. A value answers one round: the same
                event in another round is refused. Without a name, the device has one value.
            round: refuse an announcement of any other; None: any.

        Raises:
            MessageError: the announcement is malformed or of another version.
            RefusedError: it asks for too much, or the round, the event or the lifetime is used up.
            InputError: the value is no number, or outside the bounds.
            SettingError: the event is no text.
        """
        if not isinstance(event, str):  # 17 and "17" would be two values
            raise SettingError("event", "must be text")
        asked = _parsed_by_client(announcement)
        if round is not None and asked.round != round:
            raise RefusedError("the announcement is of another round")
        digest = asked.digest
        if self.memory.pin(asked.round) is None:  # outside of the turn: tables may be large
            asked.check_allowed(
                epsilon=self.epsilon,
                lower=self.lower,
                bound=self.bound,
                resolution=self.resolution,
            )
        with self.memory.turn:
            known = self.memory.pin(asked.round)
            if known is not None:
                return self._again(known, asked)
            event_digest = self._keyed("event", event)
            if self.memory.knows(event_digest):
                raise RefusedError("this value was reported on in another round")
            if self.memory.spent + asked.epsilon > self.lifetime:
                raise RefusedError(
                    f"this device has {self.left} of its lifetime epsilon left; the round asks for "
                    f"{asked.epsilon}"
                )
            self.memory.check()
            steps = self._steps(value, asked.resolution)
            pin = Pin(
                round=asked.round,
                phase=asked.phase,
                slot=asked.slot,
                epsilon=asked.epsilon,
                digest=digest,
                event=event_digest,
                client=self.name_in(asked.round),
                report=asked.question.answer(steps, self._words(asked)),
                time=datetime.now(UTC).isoformat(timespec="seconds"),
            )
            self.memory.add(pin, self.lifetime)
            return _client_report(pin)

    def pick(self, announcements: Iterable[Announcement | str | bytes]) -> Announcement:
        """Choose this client's announcement, if questions are assigned by name.

        Raises:
            MessageError: one is malformed, or they are not all those of one round.
        """
        asked = of_one_round(map(_parsed_by_client, announcements))
        name = asked[0].round
        return asked[slot_of(name, self.name_in(name), len(asked))]

    def name_in(self, name: str) -> str:
        """The name of this device in the reports of a round."""
        return self.name or self._keyed("client", name)[:32]

    def sent(self, name: str) -> Report | None:
        """The report of a round, for sending it again; None if there was none."""
        pin = self.memory.pin(name)
        return None if pin is None else _client_report(pin)

    @property
    def unacknowledged(self) -> tuple[Report, ...]:
        """The reports that are not acknowledged, for sending them again.

        The same reports: sending one twice costs and tells nothing more.
        """
        return tuple(_client_report(pin) for pin in self.memory.unacknowledged)

    def acknowledge(self, name: str) -> None:
        """Remember that the report of a round arrived, or never will: the server has taken it, had
        it already, or has closed the round."""
        self.memory.acknowledge(name)

    def _again(self, known: Pin, asked: Announcement) -> Report:
        if known.digest != asked.digest:
            raise RefusedError("this round was answered under another announcement")
        return _client_report(known)

    def _steps(self, value: object, resolution: Fraction) -> int:
        """The value in whole steps. An error does not show the value."""
        number = one_number(value)
        if number is None:
            raise InputError("the value is not a number: nothing was reported")
        if not self.clamp and not float(self.lower) <= number <= float(self.bound):
            raise InputError(
                f"the value is not between {self.lower} and {self.bound}: nothing was reported"
            )
        return Lattice(self.bound, resolution, self.lower).unit(number)

    def _words(self, asked: Announcement) -> Words:
        """Fresh random words for one report."""
        return fresh_words(self._randomness.new_epoch(), bytes.fromhex(asked.digest))

    def _keyed(self, purpose: str, text: str) -> str:
        named = f"tidegate/1/{purpose}/{text}".encode("utf-8", "surrogatepass")
        return hmac.digest(self.memory.key, named, "sha256").hex()


def _parsed_by_client(announcement: Announcement | str | bytes) -> Announcement:
    """Parse an announcement as if it came over the network: an object may be made by hand."""
    if isinstance(announcement, Announcement):
        announcement = announcement.json()
    return Announcement.from_json(announcement)


def _client_report(pin: Pin) -> Report:
    return Report(
        round=pin.round,
        phase=pin.phase,
        epsilon=pin.epsilon,
        slot=pin.slot,
        client=pin.client,
        report=pin.report,
    )
