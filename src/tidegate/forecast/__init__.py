"""Stage 3 for adaptive perturbers: from noisy leaf sums to running totals, and the next tree.

`models` has the constants, `noise_path` and `beliefs` the algebra, `costs` what a tree is worth
under each model, `retrospect` what is known of the past once more was released (`stretches` and
`joints` how that is found fast).
"""

from tidegate.forecast.mixture import Mixture

__all__ = ["Mixture"]
