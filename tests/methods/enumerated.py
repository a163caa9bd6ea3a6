"""Privacy losses of mechanisms whose inputs and outputs can all be listed."""

import numpy as np


def worst_loss(table):
    """The largest log-ratio between streams of bits that differ in one value.

    `table`: from each stream to the probabilities of all outputs. An output that is as good as
    impossible for both tells nothing: its digits are rounding.
    """
    worst = 0.0
    for values, chances in table.items():
        for place, value in enumerate(values):
            other = table[(*values[:place], 1 - value, *values[place + 1 :])]
            both = (chances > 1e-12) | (other > 1e-12)
            worst = max(worst, float(np.abs(np.log(chances[both] / other[both])).max()))
    return worst
