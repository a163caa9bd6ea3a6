"""The settings of `topl` as options, declared once for all commands that take them."""

from __future__ import annotations

from tidegate.cli.option_builders import flag_option, text_option, whole_option, with_options

with_topl_options = with_options(
    {
        "epsilon": text_option("What a report costs, e.g. 1 or 1/2."),
        "bound": text_option("Public upper bound of a value."),
        "lower": text_option("Public lower bound of a value: 0 (the default), or below it."),
        "resolution": text_option(
            "Values are rounded to multiples of this (default: by the bound)."
        ),
        "fleet": whole_option("Reports expected in a round, such as a day's devices, if known."),
        "holdout": whole_option(
            "Devices asked for the threshold first and left out (default: some hundreds to "
            "thousands, none left out)."
        ),
        "horizon": whole_option("Longest range to answer well (default 1048576)."),
        "threshold_epsilon": text_option(
            "What an answer for the threshold costs (default: epsilon)."
        ),
        "threshold": text_option("Use this threshold; no device is asked about it."),
        "scheme": text_option(
            "How the threshold is found: adaptive (default), published or published-authors."
        ),
        "smoothing": flag_option(
            "--smoothing", help="Smooth the density of the published schemes."
        ),
        "report": text_option(
            "How values are reported: optimal (default), hybrid, piecewise, "
            "generalised-piecewise, stochastic-rounding, laplace."
        ),
        "keep_asking": flag_option(
            "--keep-asking/--no-keep-asking",
            help="Also ask for the threshold at the start of every horizon (default: yes).",
        ),
    }
)
