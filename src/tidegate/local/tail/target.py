"""How far out in the tail a good threshold lies, before anything is known about the data."""

from __future__ import annotations

import math

_HIGHEST_TOP = 0.12
_VISIBLE = 2.0  # standard deviations from which on a share can be told from none
_MIDDLE = 0.5


def best_share(variance: float, horizon: int) -> float:
    """s*: the share of values above the best threshold.

    With a mean excess of θ/3, a share s of values above θ costs (r²/6)·(sθ/3)², and reports of
    variance V on [−1, 1] cost (r/3)·V·θ²/4. As θ moves out, s falls as θ^(−k), and the sum is
    least near s* = sqrt(3V/(2r)), for any tail that thins out about like θ^(−3).

    >>> round(best_share(100.7, 2**20), 4)  # ε = 0.2
    0.012
    """
    return min(0.25, math.sqrt(1.5 * variance / horizon))


def ladder_shares(best: float, seen: float = 0.0) -> tuple[float, ...]:
    """The shares whose levels are worth asking about: from where a bit still tells something, down
    to three times the best share.

    The last is asked about twice as often: nearest to the threshold, and the least known. Where a
    round has few answers, only larger shares can be told from none: `seen` is the standard
    deviation of a small share.

    >>> [round(share, 4) for share in ladder_shares(0.0025)]
    [0.075, 0.0237, 0.0075, 0.0075]
    >>> [round(share, 2) for share in ladder_shares(0.1, seen=0.2)]
    [0.4, 0.3, 0.3]
    """
    top = min(max(min(30 * best, _HIGHEST_TOP), _VISIBLE * seen), _MIDDLE)
    bottom = max(3 * best, seen / 2)
    if bottom >= top:
        return (top,)
    if top / bottom < 5:
        return (top, bottom, bottom)
    return (top, math.sqrt(top * bottom), bottom, bottom)
