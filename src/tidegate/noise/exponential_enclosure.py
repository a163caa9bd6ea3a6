"""Integer bounds of 2**bits·exp(−n/d): the only exponential that decides anything."""

from __future__ import annotations

_REDUCED_BITS = 6
_FIRST_GUARD_BITS = 32


def exponential_bounds(numerator: int, denominator: int, bits: int) -> tuple[int, int]:
    """The integers around E = 2**bits·exp(−numerator/denominator): its floor and its ceiling.

    For numerator = 0 both are 2**bits. Otherwise exp of a non-zero rational is irrational
    (Lindemann), hence so is E, and upper = lower + 1 with lower < E < upper.

    **Proof.** Write x = numerator/denominator > 0.

    *Far tail.* If x ≥ bits then 0 < E < 2**bits·2**−bits = 1, so the bounds are 0 and 1.

    *Enclosure.* Choose `halvings` with y = x/2**halvings ≤ 2**−6, a number `precision` of binary
    places, one = 2**precision, and let τ_j = one·y^j/j! be the true terms of the series. The
    computed terms are T_0 = one and T_j = ⌊T_{j−1}·y/j⌋. Their errors e_j = τ_j − T_j satisfy
    e_0 = 0 and 0 ≤ e_j < e_{j−1}·y/j + 1, so 0 ≤ e_j < 2, for y/j ≤ 1/2. We stop at the first
    T_J = 0, so τ_J < 2. The series one·exp(−y) = Σ(−1)^j·τ_j alternates and its terms decrease,
    so cutting it before τ_J costs less than τ_J < 2. Hence

        |one·exp(−y) − Σ_{j<J} (−1)^j·T_j| < 2·J + 2 = slack.

    *Squaring.* If low ≤ one·z ≤ high with low ≥ 0 then ⌊low²/one⌋ ≤ one·z² ≤ ⌈high²/one⌉.
    After `halvings` squarings z = exp(−x). (low starts non-negative: the sum is at least
    one·(1−y) − 2·J, and `precision` ≥ 32 while J ≤ precision, as each term loses a factor 2⁶.)

    *Decision.* Dividing by 2**(precision−bits), floor below and ceiling above keeps the enclosure.
    If the two integers differ by one they are the floor and the ceiling of E. If not, an integer
    lies inside the enclosure; E is not that integer, so more precision separates them eventually.

    >>> exponential_bounds(1, 1, 10)  # 1024/e = 376.7…
    (376, 377)
    >>> exponential_bounds(0, 1, 10)
    (1024, 1024)
    """
    if numerator == 0:
        return 1 << bits, 1 << bits
    if numerator >= bits * denominator:
        return 0, 1
    halvings = max(0, numerator.bit_length() - denominator.bit_length() + 1 + _REDUCED_BITS)
    # Each squaring doubles the relative error: `halvings` of the guard bits are lost to that.
    guard = halvings + _FIRST_GUARD_BITS
    while True:
        low, high = _enclosure(numerator, denominator, halvings, bits + guard)
        lower, upper = low >> guard, -(-high >> guard)
        if upper - lower == 1:
            return lower, upper
        guard *= 2


def _enclosure(numerator: int, denominator: int, halvings: int, precision: int) -> tuple[int, int]:
    """Integers low ≤ 2**precision·exp(−x) ≤ high, from the series and the squarings above."""
    divisor = denominator << halvings
    total, term, index = 0, 1 << precision, 0
    while term:
        total += -term if index & 1 else term
        index += 1
        term = term * numerator // (divisor * index)
    slack = 2 * index + 2
    low, high = total - slack, total + slack
    for _ in range(halvings):
        low, high = low * low >> precision, -(-high * high >> precision)
    return low, high
