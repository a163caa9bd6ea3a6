"""`tidegate release --by COLUMN`: a stream for each key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

import tidegate as tg
from tidegate.cli import file_options, release_events
from tidegate.cli.exit_codes_and_signals import NOTHING, complain, stopping_on_signal
from tidegate.cli.file_options import output_format, refuse_bad_rows_in_file, unpacked_file_size
from tidegate.cli.pipeline_from_options import (
    DEFAULT_PRESET,
    FEW_ROWS,
    SHORTEST_KEY,
    build_pipeline,
    rows_of_an_average_row,
)
from tidegate.cli.release_summary import summarise_release_of_keys, summary_of_what_is_left
from tidegate.cli.rounding_note import RoundingNote
from tidegate.cli.sealing_key import READABLE, read_sealing_key
from tidegate.errors import MissingError, SettingError, TidegateError
from tidegate.keyed import Keyed, KeyedRelease

if TYPE_CHECKING:  # files are imported when they are needed: start-up counts
    from tidegate.io import Batch
    from tidegate.io.held_source import HeldSource
    from tidegate.keyed.passage_to_file import KeyedTransferred
    from tidegate.lattice import IntArray

_GO_WITHOUT = ("user-column", "stdin", "emit")
_HELD = 1 << 26  # bytes of a file that is read once; in memory a row takes 16, with a time 24
ENDLESS = 1 << 60  # what a file says about the past is not forgotten


def check_by_key(options: Mapping[str, Any]) -> None:
    """Refuse options that contradict each other, before anything is read."""
    if "by" not in options:
        for name in ("keys", "keys-are-public", "shared-threshold"):
            if name in options:
                raise SettingError(name, "needs --by, the column with the keys")
        return
    if "keys-are-public" in options and "every" in options:
        raise SettingError(
            "keys-are-public",
            "cannot be used with --every: that a key has events is protected. Declare all possible "
            "keys with --keys FILE; each gets a row for every tick",
        )
    if "shared-threshold" in options and "every" in options:
        raise SettingError(
            "shared-threshold", "cannot be used with --every: each key chooses its own"
        )
    if "keys" in options and "keys-are-public" in options:
        raise SettingError("keys", "cannot be used with --keys-are-public: choose one")
    if "keys" not in options and "keys-are-public" not in options:
        raise SettingError(
            "by",
            "needs --keys FILE with all possible keys, one a line (rows of other keys are "
            "dropped), or --keys-are-public, which publishes all keys that occur and how many "
            "rows each has",
        )
    for name in _GO_WITHOUT:
        if name in options:
            raise SettingError(name, "cannot be used with --by")


def run_by_key(source: str, options: dict[str, Any]) -> None:
    """Release a file with keys, and write the output."""
    from tidegate.cli.progress import Progress
    from tidegate.io import open_source
    from tidegate.keyed.transfer import transfer_keyed

    with_ticks = release_events.of_events(options)
    quiet, follow = bool(options.get("quiet")), bool(options.get("follow"))
    names = ("format", "column", "by", "time", "zone", "header", "delimiter", "decimal")
    opening: dict[str, Any] = {
        **{name: options.get(name) for name in names},
        "time_format": options.get("time-format"),
        "late": "keep",  # order matters within a key, and is checked there
        "count": bool(options.get("count")),
        "events": with_ticks,
        "follow": follow,
    }
    if "keys-are-public" in options:
        file_options.refuse_key_for_each_row(source, opening)
    specification, held = _keyed_specification(source, options, opening)
    if held is None:
        refuse_bad_rows_in_file(source, opening, options)
    with (
        held or open_source(source, **opening) as opened,
        Progress(opened, quiet=quiet, output=options.get("output")) as progress,
        stopping_on_signal(opened if follow else None) as stop,
    ):
        read = RoundingNote(opened, [specification.pipeline.lattice])
        into: dict[str, Any] = {
            "format": output_format(opened, source, options),
            "late": options.get("late", "refuse"),
            "progress": stop.then(progress.advance),
            "until": release_events.clock(options) if with_ticks else None,
        }
        if "state" in options:
            release, result = _durably_by_key(read, specification, options, into)
        else:
            # Values that add up are asked in the file; others need the record, for the file.
            release = specification.start(record=not specification.pipeline.estimator.adds_up)
            with summary_of_what_is_left([release], options.get("output")):
                result = transfer_keyed(read, release, options.get("output"), **into)
        progress.close()
    tell_dropped(result, options, events=with_ticks)
    if not result.released:
        complain(why_release_by_key_is_empty(result, events=with_ticks))
        raise typer.Exit(NOTHING)
    if not quiet:
        summarise_release_of_keys(release, result)
        read.tell()
    if doubt := getattr(opened, "doubt", ""):
        complain(f"warning: {doubt}")


def tell_dropped(result: KeyedTransferred, options: Mapping[str, Any], *, events: bool) -> None:
    """Tell the operator how many rows had no declared key."""
    if not result.dropped:
        return
    complain(
        f"dropped {result.dropped:,} rows whose key is not in {options['keys']}. This number "
        "is for you: it is not private, and is not in the output"
    )
    if events and result.dropped == result.read:
        complain(
            "warning: no event has a declared key. Are they spelt as in the input (leading "
            "zeros, spaces, another column)? This is for you, too"
        )


def _durably_by_key(
    opened: RoundingNote, specification: Keyed, options: dict[str, Any], into: dict[str, Any]
) -> tuple[KeyedRelease, KeyedTransferred]:
    """Release with durable state: every row is released once, also across crashes."""
    from tidegate.keyed.durable_folder import DurableKeyed
    from tidegate.keyed.transfer import transfer_durably

    key = read_sealing_key(options.get("key-file"))
    named: dict[str, Any] = {"source": options.get("ledger-source"), "cap": options.get("cap")}
    named["new_epoch"] = bool(options.get("new-epoch"))
    with DurableKeyed.open(options["state"], specification, key=key, **named) as state:
        if key is None and not state.release.seen and not options.get("quiet"):
            complain(
                f"the state in {options['state']} is not sealed (no --key-file, no TIDEGATE_KEY): "
                f"{READABLE}"
            )
        result = transfer_durably(opened, state, options.get("output") or "-", **into)
        return state.release, result


def _keyed_specification(
    source: str, options: dict[str, Any], opening: dict[str, Any]
) -> tuple[Keyed, HeldSource | None]:
    """The keyed specification for `--by`; and the input, if it had to be read for that."""
    held = None
    keys = read_keys(options["keys"]) if "keys" in options else None
    shared = "shared" if options.get("shared-threshold") else "per key"
    if release_events.of_events(options):
        pipeline = release_events.build_event_pipeline(options)
    else:
        options, held = _keys_with_length(options, source, keys, opening)
        pipeline = build_pipeline(options)
    if shared == "shared" and pipeline.reselect is not None:
        raise SettingError(
            "shared-threshold",
            "needs --holdout, such as --holdout 4096: the first 4096 rows of all keys choose "
            "the threshold, and are not released",
        )
    specification = tg.keyed(
        replace(pipeline, history=ENDLESS),
        keys=keys,
        keys_are_public=keys is None,
        threshold=shared,
    )
    return specification, held


def read_keys(path: Path | str) -> list[str]:
    """The keys of a file, one a line; blank lines do not count."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise MissingError(f"keys: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingError("keys", f"{path} is not a text file in UTF-8") from None
    found = [line.strip() for line in text.splitlines()]
    return [line for line in found if line]


def _keys_with_length(
    options: dict[str, Any], source: str, keys: list[str] | None, opening: dict[str, Any]
) -> tuple[dict[str, Any], HeldSource | None]:
    """The options, with the rows of the key that an average row lies in as horizon; and the input,
    if held.

    That is Σn²/Σn for keys of n rows, and their number of rows where they are alike. A key that is
    far longer than the horizon stops choosing its threshold while that cuts many values.

    Privacy: settings are published. How many rows a key has is public; how many rows have a key
    that was not declared is not, so they do not count here either.
    """
    fixed = {"horizon", "holdout", "state", "follow", "start-early", "rethreshold"}
    if fixed & options.keys() or options.get("preset", DEFAULT_PRESET) != DEFAULT_PRESET:
        return options, None
    from tidegate.io.file_kind_and_row_count import file_kind_of, is_standard, row_count_at_most
    from tidegate.methods._preset import HORIZON

    kind, held = file_kind_of(source, options.get("format")), None
    lines = kind.recoverable and not is_standard(source) and Path(source).is_file()
    if lines and keys is not None:  # then its lines need not be counted first
        held = _held_file_with_keys(source, opening)
    rows = held.rows if held is not None else row_count_at_most(source, options.get("format"))
    if rows is not None and keys is not None:
        held = held if lines else _held_file_with_keys(source, opening)
        each = _rows_of_declared_keys(source, options, keys, held)
        rows = None if each is None else sum(each)
    else:
        each = None if rows is None else [rows]
    if not each or rows is None or rows < FEW_ROWS:
        return options, held
    expected = max(SHORTEST_KEY, rows_of_an_average_row(each))
    return (options if expected >= HORIZON else {**options, "horizon": expected}), held


def _held_file_with_keys(source: str, opening: dict[str, Any]) -> HeldSource | None:
    """Read a file once, for its length and its release, if it fits into memory.

    None: it is too large, or has a row that cannot be read; its rows are released up to there.
    """
    from tidegate.io import open_source
    from tidegate.io.held_source import HeldSource

    if unpacked_file_size(source, opening["format"]) > _HELD:
        return None
    try:
        with open_source(source, **opening) as opened:
            return HeldSource(opened)
    except TidegateError:  # whoever reads it next says what is wrong with it
        return None


def _rows_of_declared_keys(
    source: str, options: dict[str, Any], keys: list[str], held: HeldSource | None
) -> list[int] | None:
    """The number of rows of each declared key. None: the file cannot be read twice."""
    from tidegate.io.open_source import open_keys
    from tidegate.keyed.key_names import KeyNames, declared_keys
    from tidegate.tables.repeated_items import RepeatedItems

    names = ("format", "by", "header", "delimiter", "decimal")
    reading: dict[str, Any] = {name: options.get(name) for name in names}

    def declared_in(batches: Iterable[Batch]) -> list[int]:
        found: IntArray = np.zeros(len(keys) + 1, dtype=np.int64)  # last: undeclared
        for items in (RepeatedItems.of(batch.users) for batch in batches):
            codes = declared.codes(items.distinct, len(items.distinct), 0)
            np.add.at(found, codes, np.bincount(items.places, minlength=len(items.distinct)))
        return [int(rows) for rows in found[:-1]]

    try:
        declared = KeyNames(declared_keys(keys), more=False)
        if held is not None:
            return declared_in(held.held)
        with open_keys(source, **reading) as opened:
            return declared_in(opened.batches())
    except TidegateError:  # whoever reads it next says what is wrong with it
        return None


def why_release_by_key_is_empty(result: Any, *, events: bool) -> str:
    """The reason why the output has no rows."""
    if events:  # their number is secret
        return "nothing was released: no tick is over at --until. No output was written"
    if not result.read:
        return "nothing was released: the input has no rows. No output was written"
    if result.held:
        return (
            f"nothing was released: the shared threshold takes {result.held:,} more rows "
            "(--holdout). No output was written"
        )
    if result.dropped == result.read:
        return (
            "nothing was released: no row has a declared key. Are they spelt as in the input "
            "(leading zeros, spaces, another column)? No output was written"
        )
    return (
        "nothing was released: no key has more rows than the threshold takes (--holdout), or all "
        "were dropped. No output was written. Use --shared-threshold"
    )
