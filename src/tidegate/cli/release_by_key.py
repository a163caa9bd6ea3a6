"""`tidegate release --by COLUMN`: a stream for each key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

import tidegate as tg
from tidegate.cli import file_options, release_events
from tidegate.cli.declared_keys_and_rows import (
    options_with_rows_of_keys,
    read_keys,
    rows_with_declared_keys,
)
from tidegate.cli.exit_codes_and_signals import NOTHING, complain, stopping_on_signal
from tidegate.cli.file_options import output_format, refuse_bad_rows_in_file
from tidegate.cli.pipeline_from_options import build_pipeline
from tidegate.cli.release_summary import summarise_release_of_keys, summary_of_what_is_left
from tidegate.cli.rounding_note import RoundingNote
from tidegate.cli.sealing_key import READABLE, read_sealing_key
from tidegate.errors import SettingError
from tidegate.keyed import Keyed, KeyedRelease

if TYPE_CHECKING:  # files are imported when they are needed: start-up counts
    from tidegate.io.held_source import HeldSource
    from tidegate.keyed.passage_to_file import KeyedTransferred
    from tidegate.run.pipeline import Pipeline

_GO_WITHOUT = ("user-column", "stdin", "emit")
_ENDLESS = 1 << 60  # what a file says about the past is not forgotten


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
    if "keys" in options:
        opening["declared"] = rows_with_declared_keys(read_keys(options["keys"]))
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
    """What `--by` releases; and the input, if it had to be read for that."""
    if release_events.of_events(options):
        return keyed_by_options(release_events.build_event_pipeline(options), options), None
    keys = read_keys(options["keys"]) if "keys" in options else None
    options, held = options_with_rows_of_keys(options, source, keys, opening)
    return keyed_by_options(build_pipeline(options), options), held


def keyed_by_options(pipeline: Pipeline, options: Mapping[str, Any]) -> Keyed:
    """A stream of this pipeline for each key that the options declare, or that comes."""
    keys = read_keys(options["keys"]) if "keys" in options else None
    shared = "shared" if options.get("shared-threshold") else "per key"
    if shared == "shared" and pipeline.reselect is not None:
        raise SettingError(
            "shared-threshold",
            "needs --holdout, such as --holdout 4096: the first 4096 rows of all keys choose "
            "the threshold, and are not released",
        )
    return tg.keyed(
        replace(pipeline, history=_ENDLESS),
        keys=keys,
        keys_are_public=keys is None,
        threshold=shared,
    )


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
