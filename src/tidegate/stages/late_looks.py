"""Late looks: whether values lie far above θ that no choice of it has seen; public settings.

├─ windows: θ ─┤── look: s of ε ───────────────┤─ far? a window: 2/3 of ε ─┤
0            n/3                            3/4 n                      15/16 n

A choice of θ finds a second scale of values, f times above it, from (6 + 3·ln f)/ε′ of them on: it
must fear a θ that is far too high, whose noise grows as f². By a third of the horizon n that is one
value in a hundred from ε·n = 45,000 on, for f = 40. A yes or no fears less: values above 4·θ are
counted in half of the stream, with a small part s of ε, and compared with 4/ε′. One in a hundred is
mostly found from ε·n = 8,500 on, and one run in a hundred says yes by chance.

Privacy: budgets and positions follow from ε and the horizon. `tidegate.run.refinement_looks` has
the argument for what is released.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from tidegate.stages.late_choices import LONG

# The part of ε that a look has, from which ε × horizon on: a hundredth of half of the values are
# 5 to 12 times 1/ε′ then. With less than the last one, and from `LONG` on, there are no looks.
LOOK_SHARES = (
    (150_000, Fraction(1, 96)),
    (64_000, Fraction(1, 48)),
    (28_000, Fraction(1, 24)),
    (14_000, Fraction(1, 12)),
    (11_500, Fraction(1, 10)),
    (8_500, Fraction(1, 8)),
)
_SHARES = tuple(share for _, share in LOOK_SHARES)
# Of ε, for the next choice of θ where values were found far above it. No other window has this
# share, so that a record tells what was found.
FAR_SHARE = Fraction(2, 3)
FAR = 4  # times θ
FOUND = 4  # values above that, in 1/ε′, that are found in half of the runs
# Of the horizon: looks end here, and are as long as this at least; and the window that follows.
LOOK_UNTIL, SHORTEST, FAR_UNTIL = Fraction(3, 4), Fraction(1, 4), Fraction(15, 16)


def room_far_above(theta: Any, top: int) -> Any:
    """Whether values can lie so far above θ, of one stream or of many; `top`: the bound."""
    return FAR * theta < top


def looks_pay(epsilon: Fraction, horizon: int) -> bool:
    """Whether a late look finds more than it costs.

    >>> looks_pay(Fraction(1), 16_384), looks_pay(Fraction(1), 4096), looks_pay(Fraction(1), 2**20)
    (True, False, False)
    """
    return horizon < LONG and epsilon * horizon >= LOOK_SHARES[-1][0]


def is_look(share: Fraction) -> bool:
    """Whether a window with this part of ε is a late look."""
    return share in _SHARES


def look_share(epsilon: Fraction, horizon: int) -> Fraction:
    """The part of ε that a look has.

    >>> look_share(Fraction(1), 16_384), look_share(Fraction(1), 65_536)
    (Fraction(1, 12), Fraction(1, 48))
    """
    known = epsilon * horizon
    return next((share for least, share in LOOK_SHARES if known >= least), LOOK_SHARES[-1][1])
