"""Erlingsson et al.: each user reports one of its changes, at one level of a binary tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tidegate.guarantee import Guarantee
from tidegate.local.series.whole_series import WHOLE_SERIES
from tidegate.settings import Epsilon, Spec, Whole


@dataclass(frozen=True, kw_only=True, repr=False)
class Changes(Spec):
    """Counts of users whose bit is set, if nobody's bit changes often.

    A user keeps one of its first `changes` changes (which one is drawn once; there may be none) and
    one level of the binary tree over time. Whenever a node of that level ends, it reports +1 or −1:
    a coin at ε for the kept change, if it lies in the node, a fair coin otherwise. The server
    multiplies by levels · changes / contrast and adds the nodes that a prefix is made of.

    **Privacy.** Released: the level, and one sign for each of its nodes. Level and number of the
    kept change are drawn without a look at the data. Given both, the kept change of a series lies
    in at most one node. If it is the same node for two series, one sign differs: truth/lie at most.
    If there are two nodes, each is a coin with a change in one series and a fair coin in the other:
    (truth/½)·(½/lie), the same. In integers truth ≤ e^ε·lie, so all that a user ever sends costs ε.
    (The paper gives ε/2 to each sign; the product above shows that this is twice too careful.)
    Changes after the first `changes` are not looked at, so this holds for every series; the
    estimate misses them.

    Args:
        epsilon: for the whole series of a user.
        horizon: steps; a power of two, or rounded up to one.
        changes: the most changes of a user that count, the first value being one if it is set.
    """

    KIND: ClassVar[str] = "local.series.Changes"

    epsilon: Epsilon = Epsilon()
    horizon: Whole = Whole(minimum=1)
    changes: Whole = Whole(minimum=1, default=4)

    @property
    def guarantee(self) -> Guarantee:
        """ε for a whole series."""
        return Guarantee(epsilon=self.epsilon, unit=WHOLE_SERIES, model="local")

    @property
    def levels(self) -> int:
        """Of the tree: nodes of 1, 2, 4, … steps, up to the horizon."""
        return (self.horizon - 1).bit_length() + 1
