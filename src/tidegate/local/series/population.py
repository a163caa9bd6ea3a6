"""LDP-IDS by population division: of any w steps, a user reports in one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tidegate.guarantee import Guarantee
from tidegate.settings import Choice, Epsilon, Spec, Whole
from tidegate.units import Window


@dataclass(frozen=True, kw_only=True, repr=False)
class PopulationDivision(Spec):
    """The mean of users' bits at every step, from a few users at a time with all of ε.

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
