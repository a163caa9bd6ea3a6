"""Messages that a broker deleted before they were read: detect them, and tell the operator.

Brokers delete by age, size or count, whether somebody has read or not. Privacy does not suffer:
a message that never comes is in no release. Sums do, in silence, so the run ends by default.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.errors import SettingError
from tidegate.io.errors import SourceError

REFUSE, CLOSE = "refuse", "close"
GAPS = (REFUSE, CLOSE)


def _quiet(text: str) -> None:
    pass


@dataclass(frozen=True)
class Gaps:
    """The policy for missing messages.

    Attributes:
        policy: "refuse": the run ends, nothing after the gap is released. "close": it warns and
            continues; the next value gets the next position, as if nothing were missing.
        warn: where warnings go.
    """

    policy: str = REFUSE
    warn: Callable[[str], None] = _quiet

    def __post_init__(self) -> None:
        if self.policy not in GAPS:
            raise SettingError("gaps", f"must be one of {', '.join(GAPS)}")

    def found(self, what: str, place: str) -> None:
        """End the run, or warn: `what` was deleted before it was read."""
        if self.policy == REFUSE:
            raise SourceError(
                None,
                f"{what} deleted before they were read. Nothing after them was released. Use "
                "--gaps close to continue without them",
                place,
            )
        self.warn(f"{place}: {what} deleted before they were read: left out")

    def perhaps(self, what: str, place: str) -> None:
        """Warn under any policy: the broker cannot tell whether the messages were ours."""
        self.warn(f"{place}: {what}")


def gap_of_stream_begun_anew(place: str) -> SourceError:
    """The gap if what was read lies beyond the stream's end: new messages may reuse numbers."""
    return SourceError(
        None,
        "ends before what was read of it: it was deleted, or has lost its newest messages. Use "
        "another state folder for what it holds now",
        place,
    )
