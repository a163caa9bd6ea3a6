"""The options of `tidegate release`; a file for --config uses the same names."""

from __future__ import annotations

from typing import Any

from tidegate.cli.file_options import (
    DecimalSign,
    Delimiter,
    Header,
    InputFormat,
    OutputFile,
    OutputFormat,
)
from tidegate.cli.option_builders import (
    EMITTED,
    GAPS,
    LATE,
    PIPES,
    flag_option,
    option_kinds,
    path_option,
    text_option,
    texts_option,
    whole_option,
    with_options,
)
from tidegate.cli.pipeline_from_options import DEFAULT_PRESET, PRESETS, SMOOTHERS

OPTIONS: dict[str, Any] = {
    # What nearly every run gives.
    "output": OutputFile,
    "column": texts_option(
        "Column that holds the values: a name, a number from 0 (CSV), a key (JSONL). Give it "
        "several times to release several columns, each into a file of its own."
    ),
    "time": text_option("Column or key with the time of a row: carried through, and public."),
    # The pipeline.
    "epsilon": text_option("Privacy budget, e.g. 0.1 or 1/10."),
    "bound": texts_option("Public upper bound of a value. For several columns: COLUMN=BOUND each."),
    "lower": texts_option(
        "Public lower bound of a value, 0 or below (default 0: smaller ones count as 0)."
    ),
    "resolution": texts_option("Values are rounded to multiples of this (default: by the bound)."),
    "share": texts_option(
        "Part of epsilon for one of several columns (default: equal parts).",
        metavar="COLUMN=PART",
    ),
    "holdout": whole_option(
        "Values that choose the threshold and are not released (default 65536; with --preset "
        "adaptive none)."
    ),
    "horizon": whole_option("Longest range to answer well (default 1048576, or the input's rows)."),
    "period": text_option(
        "A cycle to learn: rows in a day, such as 1440 or 1440,10080; with times 1d or 1d,1w."
    ),
    "preset": text_option(
        f"Method: {', '.join(PRESETS)} (default {DEFAULT_PRESET}; tops is the paper's). See "
        "`tidegate methods`.",
        PRESETS,
    ),
    "estimator": text_option(
        f"How values inside a block are estimated: {', '.join(SMOOTHERS)} (default recent).",
        SMOOTHERS,
    ),
    "fanout": whole_option("Children per tree node (default 16)."),
    "skipped": whole_option("Tree levels left to the smoother (default: by epsilon)."),
    "delta": text_option("The delta of presets with an (epsilon, delta) guarantee."),
    "set": text_option(
        "Arguments that only this method has (`tidegate methods NAME`).",
        metavar="NAME=VALUE,…",
    ),
    "non_negative": flag_option("--non-negative", help="Publish no negative values."),
    "unit": text_option("What epsilon protects: event, window:W or user-horizon:K."),
    "rethreshold": text_option("Choose the threshold again: every=N or every=N,share=F."),
    "start_early": whole_option("Begin after this many values, refine the threshold later."),
    # The input and the output.
    "user_column": text_option("Column or key that names the user (user-horizon)."),
    "by": text_option("Column with the key of a row: a stream for each key (see --keys)."),
    "keys": path_option("With --by: file with all keys, one a line. Rows of others are dropped."),
    "keys_are_public": flag_option(
        "--keys-are-public", help="With --by: accept every key; their names become public."
    ),
    "shared_threshold": flag_option(
        "--shared-threshold", help="With --by: one threshold for all keys (needs --holdout)."
    ),
    "zone": text_option("Where times without a zone were written, e.g. Europe/Berlin."),
    "time_format": text_option("How times are written, unless ISO 8601: e.g. '%d.%m.%Y %H:%M'."),
    "late": text_option(
        "Rows older than one before: refuse (default), or keep at their place.", LATE
    ),
    "order": text_option("For a broker: the key with the number of a message (mqtt:// needs it)."),
    "gaps": text_option(
        "If a broker deleted messages unread: refuse (default), or close the gap and continue.",
        GAPS,
    ),
    "every": text_option("Rows are events: release their sum per tick of this length, e.g. 15min."),
    "start": text_option("When the first tick begins; public, e.g. 2024-01-01."),
    "until": text_option("Release the ticks up to this time, `now` or `now-5min`; public, too."),
    "count": flag_option("--count", help="Release the number of events; no column, no bound."),
    "mean": flag_option(
        "--mean",
        help="With --every: release the number of events, too, so that means can be asked; it gets "
        "a fifth of epsilon (--share count=PART).",
    ),
    "header": Header,
    "delimiter": Delimiter,
    "decimal": DecimalSign,
    "format": InputFormat,
    "output_format": OutputFormat,
    "follow": flag_option("--follow", help="Wait for more at the end of a growing file."),
    "config": path_option("TOML file with any of these options, by their names."),
    # Durable state.
    "state": path_option(
        "Folder for durable state, which survives kills and restarts. Without it, every run "
        "spends epsilon again."
    ),
    "key_file": path_option("Key that seals the state (or TIDEGATE_KEY); none: unsealed."),
    "ledger_source": text_option("Whose values these are, for the ledger (default: folder)."),
    "cap": text_option("The most epsilon this source may ever spend."),
    "new_epoch": flag_option(
        "--new-epoch", help="Give up lost state and release again, charged again."
    ),
    "stdin": text_option(
        "After a restart, a pipe is resent from its start (default) or continues.", PIPES
    ),
    "emit": text_option("On standard output after a restart: all (default) or new.", EMITTED),
    "overwrite": flag_option(
        "--overwrite", help="Replace an existing output. The new release spends epsilon again."
    ),
    "quiet": flag_option(
        "--quiet", "-q", help="No progress bar, no summary; errors are still printed."
    ),
}
KINDS = option_kinds(OPTIONS)  # of the values that a file for --config may have
with_release_options = with_options(OPTIONS)
