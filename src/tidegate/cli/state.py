"""`tidegate state`: inspect durable state, change its key, erase its secrets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.exit_codes_and_signals import errors_as_exit_codes
from tidegate.cli.sealing_key import READABLE, read_sealing_key
from tidegate.errors import SettingError

if TYPE_CHECKING:  # imported when it is needed: start-up counts
    from tidegate.durable import DurableRelease

app = typer.Typer(
    help="Inspect durable state, change its key, erase its secrets.",
    rich_markup_mode=None,
)
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of the durable state.")]
KeyFile = Annotated[
    Path | None, typer.Option("--key-file", help="Key that seals the state (or TIDEGATE_KEY).")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@app.command()
def show(folder: Folder, key_file: KeyFile = None) -> None:
    """Verify state, journal and ledger; show how far they have come.

    Examples:

    \b
      tidegate state show state/
      tidegate state show state/ --key-file key
    """  # noqa: D301  # \b keeps the lines of the examples
    with errors_as_exit_codes(), _opened_state(folder, read_sealing_key(key_file)) as run:
        replayed = sum(values.size for _, values in run.replay())
        typer.echo(f"source     {run.source}")
        typer.echo(f"sealed     {'yes' if run.sealed else f'no; {READABLE}'}")
        left = f"{0 if run.phases else run.holding:,} more to hold out"
        if run.pipeline.warm_up:
            left = f"{run.warming:,} more in the first warm-up"
        if run.pipeline.ticks is None:  # the number of events is secret
            typer.echo(f"read       {run.seen:,} values, {left}")
        typer.echo(f"released   {run.position:,} values; the journal holds {replayed:,}")
        for phase in run.phases:
            ends = f"{f'{phase.floor:g} to ' if phase.floor else ''}{phase.threshold:g}"
            typer.echo(f"threshold  {ends} from {phase.start:,}, epoch {phase.epoch}")
        typer.echo(f"guarantee  {run.pipeline.guarantee}")


@app.command()
def rekey(
    folder: Folder,
    key_file: KeyFile = None,
    new_key_file: Annotated[
        Path | None, typer.Option(help="Required: the new key, different from the old one.")
    ] = None,
) -> None:
    """Seal the state with another key; the old one opens it no more.

    Examples:

    \b
      tidegate state rekey state/ --key-file old --new-key-file new
    """  # noqa: D301  # \b keeps the lines of the examples
    with errors_as_exit_codes():
        if new_key_file is None:
            raise SettingError(
                "new-key-file",
                "is missing: give the file of the new key. To keep the state without any key, "
                "use `tidegate state unseal`",
            )
        old = read_sealing_key(key_file)  # each once: they may be pipes
        new = read_sealing_key(new_key_file, "new-key-file")
        if new is None or new == old:
            raise SettingError("new-key-file", "is the old key: give another one")
        with _opened_state(folder, old) as run:
            before = "open with the old key" if run.sealed else "are not sealed"
            run.change_key(new)
        typer.echo(f"done: the state opens with the new key only; earlier backups {before}")


@app.command()
def unseal(folder: Folder, key_file: KeyFile = None, yes: Yes = False) -> None:
    """Remove the key: the state can then be read without it.

    Whoever can read the folder can then read held-out values and raw sums.

    Examples:

    \b
      tidegate state unseal state/ --key-file key
    """  # noqa: D301  # \b keeps the lines of the examples
    with errors_as_exit_codes(), _opened_state(folder, read_sealing_key(key_file)) as run:
        if not run.sealed:
            typer.echo("the state is not sealed: nothing was changed")
            return
        if not yes:
            typer.confirm(f"leave raw data of {run.source!r} readable in {folder}?", abort=True)
        run.unseal()
        typer.echo(f"done: the state is no longer sealed; {READABLE}")


@app.command()
def erase(folder: Folder, key_file: KeyFile = None, yes: Yes = False) -> None:
    """Remove everything secret, for good.

    Raw sums, held-out values and the noise key are removed. This is final.

    Examples:

    \b
      tidegate state erase state/ --key-file key
    """  # noqa: D301  # \b keeps the lines of the examples
    with errors_as_exit_codes(), _opened_state(folder, read_sealing_key(key_file)) as run:
        if not yes:
            typer.confirm(f"erase the secret state of {run.source!r} for good?", abort=True)
        run.erase()
        typer.echo("erased: the output stays valid; a new release here needs --new-epoch")


def _opened_state(folder: Path, key: bytes | None) -> DurableRelease:
    from tidegate.durable import DurableRelease

    if (folder / "columns.json").is_file():
        inside = ", ".join(sorted(path.name for path in folder.iterdir() if path.is_dir()))
        raise SettingError("folder", f"holds several columns: name the folder of one ({inside})")
    return DurableRelease.existing(folder, key=key)
