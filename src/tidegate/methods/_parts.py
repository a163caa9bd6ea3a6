"""Published mechanisms that are parts of a method: thresholds, reports, post-processing.

`tidegate methods` lists them below the methods. Guarantees are derived where a class has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from tidegate import threshold
from tidegate.guarantee import Guarantee
from tidegate.methods._registration import promise_of

_DELTA = {"delta": "1e-6"}
_LAPLACE_MAX = {"selection": "laplace"}


@dataclass(frozen=True)
class Part:
    """A published mechanism: a threshold, a report, a survey or post-processing.

    Attributes:
        name: how it is written in a program.
        kind: "threshold", "report" (of a device), "survey" (of devices, for a threshold) or
            "afterwards" (post-processing of what was released).
        guarantee: what it costs; None: a function of released data.
        summary, when, reference: as of a method.
    """

    name: str
    kind: str
    guarantee: Guarantee | None
    summary: str
    when: str
    reference: str

    @property
    def promise(self) -> str:
        """The kind of guarantee, in short."""
        if self.guarantee is None or not self.guarantee.epsilon:
            return "free"
        return promise_of(self.guarantee)


_WANG = "Wang et al., CCS 2021"
_NISSIM = "Nissim, Raskhodnikova, Smith, Smooth Sensitivity and Sampling, STOC 2007"
_DUCHI = (
    "Duchi, Jordan, Wainwright, Minimax Optimal Procedures for Locally Private Estimation, 2018"
)
_WANG_LOCAL = (
    "Wang, Xiao, Yang, Zhao, Hui, Shin, Shin, Yu, Collecting and Analyzing Multidimensional Data "
    "with Local Differential Privacy, ICDE 2019"
)

# Class, other settings, summary, when, reference.
_THRESHOLDS: tuple[tuple[str, dict[str, Any], str, str, str], ...] = (
    ("Fixed", {}, "θ is given", "a good θ is public knowledge; no value is spent", "folklore"),
    (
        *("NoisyMax", {}, "NM-E, by permute-and-flip: noise against values above θ"),
        *("the default of `tops`; depends on the unit of the data", _WANG),
    ),
    (
        *("NoisyMax", {"selection": "exponential"}, "NM-E, by the exponential mechanism"),
        *("comparison: permute-and-flip is never worse", "McSherry, Talwar, FOCS 2007"),
    ),
    ("NoisyMax", _LAPLACE_MAX, "NM-E, by Laplace noise", "comparison: as published", _WANG),
    (
        *("ScaleFree", {}, "a price for every factor of θ, against values above it"),
        *("the unit of the data should not matter; part of `adaptive(holdout=…)`", "this project"),
    ),
    (
        *("TailQuantile", {}, "few values above θ, by how far they reach"),
        *("few values or little ε choose; part of `adaptive`", "this project"),
    ),
    (
        *("AboveThreshold", {}, "the first of growing candidates that is above a percentile"),
        "the bound is a guess, perhaps a million times too large",
        "Durfee, Unbounded Differentially Private Quantile and Maximum Estimation, NeurIPS 2023",
    ),
    (
        *("LogHistogram", {}, "the highest well-filled bin of a histogram of logarithms"),
        "the order of magnitude is enough; the bound is a guess",
        "Wilson et al., Differentially Private SQL with Bounded User Contribution, PoPETs 2020",
    ),
    (
        *("SmoothQuantile", _DELTA, "a percentile, Laplace noise by smooth sensitivity"),
        *("comparison: S-P, and S-PAK with `failure`", "Perrier, Asghar, Kaafar, NDSS 2019"),
    ),
    (
        *("CauchyQuantile", {}, "a percentile, Cauchy noise by smooth sensitivity"),
        *("comparison: smooth sensitivity without δ", _NISSIM),
    ),
    (
        *("GaussianQuantile", _DELTA, "a percentile, Gaussian noise by smooth sensitivity"),
        *("comparison: smooth sensitivity with δ", _NISSIM),
    ),
)
# Name of the mechanism, summary, when, reference.
_REPORTS = (
    (
        *("optimal", "the table of least mean variance"),
        *("the default; its worst case is up to 1.5 times that of `hybrid`", "this project"),
    ),
    ("hybrid", "Piecewise or Stochastic Rounding, drawn", "by worst case: HM", _WANG_LOCAL),
    ("piecewise", "likelier near the value", "large ε: PM", _WANG_LOCAL),
    ("stochastic-rounding", "one of two numbers", "small ε: SR, one bit a report", _DUCHI),
    ("laplace", "Laplace noise on the value", "the baseline", "Dwork et al., TCC 2006"),
    (
        *("generalised-piecewise", "the plateau of least distance, made unbiased"),
        "comparison: the same table as `piecewise`",
        "Zheng, Mishra, Hu, Optimal Piecewise-based Mechanism for Collecting Bounded Numerical "
        "Data under Local Differential Privacy, 2025",
    ),
)
_SURVEYS = (
    ("published", "Square Wave reports and their density: SW-W", "comparison: as published", _WANG),
    (
        *("percentile", "Square Wave reports, and the 90th percentile of their density"),
        "comparison",
        "Wang, Li, Jha, Locally Differentially Private Frequent Itemset Mining, S&P 2018",
    ),
)
_AFTERWARDS = (
    (
        *("DecayedSum", "sums in which a value counts less as it ages"),
        "what is recent matters most",
        "after Bolot et al., Private Decayed Predicate Sums on Streams, ICDT 2013",
    ),
    (
        *("SlidingSum", "sums over the last values"),
        "a running sum over a window is asked for at every step",
        "after Bolot et al., ICDT 2013",
    ),
    (
        *("WholeCounts", "whole counts that never fall"),
        "what reads the release expects a counter",
        "after Chan, Shi, Song, TISSEC 2011",
    ),
)


@cache
def parts() -> tuple[Part, ...]:
    """The published mechanisms: thresholds, reports and surveys of `topl`, post-processing."""
    from tidegate.local.topl import Topl  # on demand: the central model needs none of it

    found = []
    for name, more, *said in _THRESHOLDS:
        spec = getattr(threshold, name)
        made = spec(100) if name == "Fixed" else spec(epsilon=1, bound=100, **more)
        chosen = "".join(f'({key}="{value}")' for key, value in more.items() if key == "selection")
        found.append(Part(f"threshold.{name}{chosen}", "threshold", made.guarantee, *said))
    local = Topl(epsilon=1, bound=100).guarantee
    found += [Part(f'topl(report="{name}")', "report", local, *said) for name, *said in _REPORTS]
    found += [Part(f'topl(scheme="{name}")', "survey", local, *said) for name, *said in _SURVEYS]
    found += [Part(f"released.{name}", "afterwards", None, *said) for name, *said in _AFTERWARDS]
    return tuple(found)
