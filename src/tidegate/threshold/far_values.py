"""Whether many values lie far above θ: yes or no, for so little of ε that it can be asked late.

Privacy: the two scores are minus the number of values that lie so high, which is "no", and minus
4/ε, which is "yes". A value counts between 0 and 1 (in part where it is hardly above, rounded down
to a 256th, by itself), so replacing one moves the first score by at most 1, and the second not at
all: scores are monotone with sensitivity 1, and permute-and-flip at rate ε costs ε. Where the
number is counted is a function of what was released before. Exact: integers decide every coin.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tidegate.lattice import IntArray
from tidegate.noise import permute_and_flip
from tidegate.randomness import Keystream
from tidegate.stages.late_looks import FOUND
from tidegate.threshold.tail_quantile import PARTS


def far_values_scores(above: int, epsilon: Fraction) -> IntArray:
    """The scores of "no" and "yes", in 256ths of a value; `above`: how many values, in these."""
    return np.array([-above, -round(FOUND * PARTS / epsilon)], dtype=np.int64)


def far_values_found(above: int, epsilon: Fraction, keystream: Keystream) -> bool:
    """Whether there are many: half of the time if there are 4/ε, e⁻⁴/2 of it if there are none."""
    scores = far_values_scores(above, epsilon)
    return permute_and_flip(keystream.at(), scores, epsilon / PARTS) == 1
