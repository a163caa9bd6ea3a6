"""Schemes for series of users: which users are asked what, and what ε protects.

Erlingsson et al.: each user reports one of its changes, at one level of a binary tree. Joseph et
al.: users vote whether the estimate is out of date, and answer again if it is. LDP-IDS by
population division: of any w steps, a user reports in one. Wang et al.: users report more often
where their series leaves the line that earlier reports have drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from tidegate.guarantee import OF_USERS, Guarantee
from tidegate.local.mechanisms import hybrid
from tidegate.local.questions import ValueQuestion
from tidegate.settings import Choice, Epsilon, Exact, Spec, Whole
from tidegate.units import Window

WHOLE_SERIES = f"{OF_USERS}'s whole series"
REPORTS = 2  # of a user of `Patterns`, within a window


@dataclass(frozen=True, kw_only=True, repr=False)
class Changes(Spec):
    """Counts of users whose bit is set, for bits that rarely change.

    When: means of all steps are asked, for ever at one ε; assumes few changes a user.
    Reference: Erlingsson, Feldman, Mironov, Raghunathan, Talwar, Thakurta, Amplification by
        Shuffling, SODA 2019.

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
        """The number of levels of the tree: nodes of 1, 2, 4, … steps, up to the horizon."""
        return (self.horizon - 1).bit_length() + 1


@dataclass(frozen=True, kw_only=True, repr=False)
class Patterns(Spec):
    """The series of every user as a line that bends, and their mean, from reports where lines bend.

    When: what single users' series look like is asked too, at a large ε for a window; assumes that
        series move in straight lines for a while.
    Reference: after Wang, Liu, Pang, Ren, Liu, Chen, Towards Pattern-aware Privacy-preserving
        Real-time Data Collection, INFOCOM 2020 (not as published: see **Privacy**).

    The server keeps a line for each user: level and slope, from this user's reports. A report is
    the value by the Hybrid Mechanism at ε/2. A user gives two of them within a window, at most:

    - one *in turn*, every w steps, from a first step that is drawn once for each user;
    - one *of interest*, with a chance of ½ to 2 times 1/w at a step, more often where the last
      reports lay off the line on one side (a controller with a proportional, an integral and a
      differential part, as in the paper). Then none for w − 1 steps.

    All reports bend lines. The published mean is that of the reports in turn: turns were drawn
    without a look at any value, so it is unbiased. The mean of lines is not: users who agree with
    their line are heard less often, and a line is oldest when its turn comes.

    **Privacy.** Released: a column of a table of integer weights for each report. A device counts
    its reports of the last w − 1 steps, and refuses a third, or a second one in a step. A report
    costs its value at most ε/2, which the device checks of the weights in integers. Two series that
    differ in w consecutive steps differ in reports of these steps only, given the same reports
    before: two at most. Whom the server asks depends on reports and on its own coins. So any w
    steps cost at most ε, whatever the server asks.

    As published, devices choose by their raw values at which points to report, and the moments of
    reports are seen: those moments are not covered by the noise of the values. And there the
    guarantee is one for near values (ε times their distance); here it is for any two.

    Args:
        epsilon: for any `window` consecutive steps of a user.
        window: w.
        top: the largest value; values are whole numbers from 0 on. 1: a yes or no.
    """

    KIND: ClassVar[str] = "local.series.Patterns"

    epsilon: Epsilon = Epsilon()
    window: Whole = Whole(minimum=1)
    top: Whole = Whole(minimum=1, default=1)

    @property
    def guarantee(self) -> Guarantee:
        """ε for a window, enforced by devices."""
        unit = Window(length=self.window).name
        return Guarantee(epsilon=REPORTS * self.report_epsilon, unit=unit, model="local")

    @property
    def report_epsilon(self) -> Fraction:
        """The ε of one report."""
        return self.epsilon / REPORTS

    def question(self) -> ValueQuestion:
        """The question that reports a value."""
        return hybrid(self.top, self.report_epsilon)


@dataclass(frozen=True, kw_only=True, repr=False)
class PopulationDivision(Spec):
    """The mean of users' bits at every step, from few users at a time with all of ε.

    When: any `window` steps of a user are protected; assumes many users, w of them for each report.
    Reference: Ren, Shi, Yu, Yang, Zhao, Xu, LDP-IDS: Local Differential Privacy for Infinite Data
        Streams, SIGMOD 2022.

    `uniform` (LPU): a w-th of the users reports at each step. `absorption` (LPA): a 2w-th reports
    how far the mean has moved; if it seems further than a new estimate would be off, as many users
    as the skipped steps have left over report for a new one.

    **Privacy.** Released: the reports, each by randomized response at ε. A device refuses to report
    twice within `window` steps, whatever the server asks: any `window` consecutive values of a user
    have at most one report that depends on them. So it is ε for a window of steps, in the local
    model. Whom the server asks depends on earlier reports only.

    Args:
        epsilon: for any `window` consecutive steps of a user.
        window: w.
        division: "absorption" or "uniform".
    """

    KIND: ClassVar[str] = "local.series.PopulationDivision"

    epsilon: Epsilon = Epsilon()
    window: Whole = Whole(minimum=1)
    division: Choice = Choice("absorption", "uniform", default="absorption")

    @property
    def guarantee(self) -> Guarantee:
        """ε for a window, from at most one report in it."""
        unit = Window(length=self.window).name
        return Guarantee(epsilon=self.epsilon, unit=unit, model="local")


@dataclass(frozen=True, kw_only=True, repr=False)
class Updates(Spec):
    """The mean of users' bits, epoch by epoch; a new one only when enough users have moved.

    When: the mean jumps a few times and rests between; assumes that users move together, seldom.
    Reference: Joseph, Roth, Ullman, Waggoner, Local Differential Privacy for Evolving Data, NeurIPS
        2018.

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
        """The ε of one vote."""
        return self.epsilon / (4 * self.votes)

    @property
    def report_epsilon(self) -> Fraction:
        """The ε of one report."""
        return self.epsilon / (2 * self.updates)

    @property
    def guarantee(self) -> Guarantee:
        """The sum of the costs of votes and reports."""
        spent = 2 * self.votes * self.vote_epsilon + self.updates * self.report_epsilon
        return Guarantee(epsilon=spent, unit=WHOLE_SERIES, model="local")
