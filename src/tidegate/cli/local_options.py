"""The settings of `topl` as options, declared once for all commands that take them."""

from __future__ import annotations

from tidegate.cli.option_builders import flag, text, whole, with_options

with_topl_options = with_options(
    {
        "epsilon": text("What a report costs, e.g. 1 or 1/2."),
        "bound": text("Public upper bound of a value."),
        "lower": text("Public lower bound of a value: 0 (the default), or below it."),
        "resolution": text("Values are rounded to multiples of this (default: by the bound)."),
        "fleet": whole("Reports expected in a round, such as a day's devices, if known."),
        "holdout": whole(
            "Devices asked for the threshold first and left out (default: some hundreds to "
            "thousands, none left out)."
        ),
        "horizon": whole("Longest range to answer well (default 1048576)."),
        "threshold_epsilon": text("What an answer for the threshold costs (default: epsilon)."),
        "threshold": text("Use this threshold; no device is asked about it."),
        "scheme": text(
            "How the threshold is found: adaptive (default), published or published-authors."
        ),
        "smoothing": flag("--smoothing", help="Smooth the density of the published schemes."),
        "report": text(
            "How values are reported: optimal (default), hybrid, piecewise, "
            "generalised-piecewise, stochastic-rounding, laplace."
        ),
        "keep_asking": flag(
            "--keep-asking/--no-keep-asking",
            help="Ask for the threshold at the start of every horizon too (default: yes).",
        ),
    }
)
