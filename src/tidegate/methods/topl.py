"""ToPL: the local model, in which every value is perturbed where it is born."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.exact_numbers import Number
from tidegate.methods._registration import Method

if TYPE_CHECKING:
    from tidegate.local.topl import Topl


def topl(
    epsilon: Number,
    bound: Number,
    *,
    lower: Number = 0,
    resolution: Number | None = None,
    fleet: int | None = None,
    holdout: int | None = None,
    horizon: int = 2**20,
    threshold_epsilon: Number | None = None,
    scheme: str = "adaptive",
    smoothing: bool = False,
    report: str | None = None,
    keep_asking: bool = True,
    threshold: Number | None = None,
) -> Topl:
    """Devices perturb their values; the server collects reports.

    The local model: every value is perturbed where it is born (see `tidegate.local.topl.Topl`).
    `scheme="published"` is the paper's ToPL with its objective corrected, "published-authors" with
    the authors' objective, "percentile" takes the density's 90th percentile (S&P 2018).

    When: nobody may see raw values: each device perturbs its own.
    Reference: Wang et al., CCS 2021, section on ToPL; the default scheme is this project's.

    Args:
        lower: public lower bound of a value: 0, or below it; smaller values count as this.
        fleet: how many reports are expected in a round, such as a day's devices; None: not known.
        threshold_epsilon: what an answer that helps to choose the threshold costs; None: `epsilon`.
        scheme: "adaptive", "published", "published-authors" or "percentile".
        smoothing: smooth the published schemes' density (EMS instead of EM).
        report: the mechanism of the stream; None: the scheme's own.
        keep_asking: continue to ask some devices about the tail (adaptive scheme only).
        threshold: given instead of chosen: nobody is asked.

    >>> print(topl(epsilon=1.0, bound=1657).guarantee)
    ε = 1 per event (exact arithmetic, local model)
    """
    from tidegate.local.topl import Topl  # on demand: the central model needs none of it

    return Topl(
        epsilon=epsilon,
        bound=bound,
        lower=lower,
        resolution=resolution,
        fleet=fleet,
        holdout=holdout,
        horizon=horizon,
        threshold_epsilon=threshold_epsilon,
        scheme=scheme,
        smoothing=smoothing,
        report=report,
        keep_asking=keep_asking,
        threshold=threshold,
    )


METHOD = Method(topl, model="local", example={"holdout": 100})
