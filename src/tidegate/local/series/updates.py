"""Joseph et al.: users vote whether the estimate is out of date, and answer again if it is."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from tidegate.guarantee import Guarantee
from tidegate.local.series.whole_series import WHOLE_SERIES
from tidegate.settings import Epsilon, Exact, Spec, Whole


@dataclass(frozen=True, kw_only=True, repr=False)
class Updates(Spec):
    """The mean of users' bits, epoch by epoch, published anew only when enough users have moved.

    At the end of an epoch a user compares its own mean of the epoch with the last published one and
    votes, by randomized response, whether they differ by more than `moved`. If the share of yes is
    above `quorum`, an update is made: every user reports its mean, rounded at random to a bit, by
    randomized response.

    **Privacy.** Released: a vote in every epoch, a report in every update. Along any course of
    public messages

    - a user votes yes truthfully at most `votes` times, then always no. Two series differ in at
      most 2·`votes` votes, each worth ε/(4·votes): ε/2;
    - a user's report depends on its data in the first `updates` updates, and is a fair coin in
      later ones: ε/(2·updates) each, ε/2 together.

    All weights are integers with truth ≤ e^·lie. The means that votes and reports are made from are
    compared in exact fractions. What is published decides which epochs are updates, which both
    neighbours see alike.

    Args:
        epsilon: for the whole series of a user.
        epoch: steps between votes.
        votes: how often a user may say that the estimate is out of date.
        updates: in how many updates a user takes part.
        moved: by how much a mean must differ from the published one to be out of date.
        quorum: the share of yes above which an update is made.
    """

    KIND: ClassVar[str] = "local.series.Updates"

    epsilon: Epsilon = Epsilon()
    epoch: Whole = Whole(minimum=1, default=16)
    votes: Whole = Whole(minimum=1, default=4)
    updates: Whole = Whole(minimum=1, default=4)
    moved: Exact = Exact(default="1/4")
    quorum: Exact = Exact(default="1/4")

    @property
    def vote_epsilon(self) -> Fraction:
        """Of one vote."""
        return self.epsilon / (4 * self.votes)

    @property
    def report_epsilon(self) -> Fraction:
        """Of one report."""
        return self.epsilon / (2 * self.updates)

    @property
    def guarantee(self) -> Guarantee:
        """The sum of what votes and reports cost."""
        spent = 2 * self.votes * self.vote_epsilon + self.updates * self.report_epsilon
        return Guarantee(epsilon=spent, unit=WHOLE_SERIES, model="local")
