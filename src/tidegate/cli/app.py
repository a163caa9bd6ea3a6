"""The command `tidegate`: each subcommand is a thin module."""

from __future__ import annotations

from typing import Annotated

try:
    import typer
except ModuleNotFoundError:  # the core alone is installed, and this script with it
    raise SystemExit(
        "tidegate: the command line needs the extra 'cli'. Run pip install '.[cli]' in the checkout"
    ) from None

from tidegate import __version__
from tidegate.cli import (
    check,
    demo_and_sample,
    ledger,
    local_announce_collect_query,
    local_simulate,
    methods,
    plan,
    query,
    release,
    serve_token_backup,
    show,
    shuffle,
    state,
)
from tidegate.cli.option_builders import examples_after_options, option_context_settings

app = typer.Typer(
    name="tidegate",
    help="Release streams of sensitive numbers under differential privacy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: rich would add a tenth of a second to every start
    context_settings=option_context_settings(),
)


def _app_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tidegate {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_app_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Release streams of sensitive numbers under differential privacy."""


app.command("check")(check.check)
app.command("release")(release.release)
app.command("query")(query.query)
app.command("show")(show.show)
app.command("plan")(plan.plan)
app.command("methods")(methods.methods)
app.command("sample")(demo_and_sample.sample)
app.command("demo")(demo_and_sample.demo)
app.command("ledger")(ledger.ledger)
app.add_typer(state.app, name="state")
app.command("serve")(serve_token_backup.serve)
app.command("token")(serve_token_backup.token)
app.command("shuffle")(shuffle.shuffle)
app.command("backup")(serve_token_backup.backup)
app.command("restore")(serve_token_backup.restore)
local_announce_collect_query.app.command("simulate")(local_simulate.simulate)
app.add_typer(local_announce_collect_query.app, name="local")
examples_after_options(app)
