"""A subscription that dies at any line, without a broker: every message is released once."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import numpy as np

import tidegate as tg
from tests.depth import depth
from tests.interruptions import all_interruptions
from tests.keyed.test_keyed_ownership import HOME
from tidegate.durable import DurableRelease
from tidegate.durable.broker_subscription import subscribe_to_broker
from tidegate.io.brokers import Message
from tidegate.io.brokers.payloads import Payloads

PIPELINE = tg.tops(epsilon=1, bound=9, holdout=2, horizon=64)
MESSAGES = [Message(str(number), b"[3, 4, null]" if number % 2 else b"5") for number in range(5)]
# A push, a commit and an output have tests of their own, at every line and system call.
OTHERS = tuple(
    str(path.relative_to(HOME))
    for path in (*HOME.glob("*.py"), *HOME.glob("*/"), *HOME.glob("durable/*.py"))
    if path.name not in ("__pycache__", "durable", "broker_subscription.py")
)


class Kept:
    """A broker that has all messages, and hands them out in twos or threes."""

    numbered = True

    def read(self, after: str | None, wait: float) -> Sequence[Message]:
        start = 0 if after is None else int(after) + 1
        return MESSAGES[start : start + 2 + start % 2]

    def ended(self, after: str | None) -> bool:
        return after == MESSAGES[-1].offset

    def taken(self, messages: Sequence[Message]) -> None:
        pass

    def close(self) -> None:
        pass


class Subscriber:
    """A folder with a state, and the file that rows go to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self) -> None:
        with DurableRelease.open(self.folder / "state", PIPELINE) as run:
            subscribe_to_broker(
                Kept(), Payloads(), run, self.folder / "rows.csv", warn=lambda _: None
            )


def test_an_exception_at_any_line(tmp_path: Path) -> None:
    numbers = count()
    base = tmp_path / "base"
    base.mkdir()
    with DurableRelease.open(base / "state", PIPELINE):
        pass  # the noise is known: every copy releases the same

    def make() -> Subscriber:
        return Subscriber(Path(shutil.copytree(base, tmp_path / str(next(numbers)))))

    undisturbed = make()
    undisturbed.run()
    expected = (undisturbed.folder / "rows.csv").read_bytes()
    assert len(expected.splitlines()) == 1 + 3 + 2 * 3 - 2  # header; 3 single values, 2 arrays
    events = 0
    for at, subscriber in all_interruptions(make, Subscriber.run, pure=OTHERS):
        subscriber.run()  # the same command again
        assert (subscriber.folder / "rows.csv").read_bytes() == expected, at
        events += 1
    assert events > depth(10, 30)
    with DurableRelease.existing(tmp_path / "5" / "state") as run:
        assert np.concatenate([values for _, values in run.replay()]).size == 7
