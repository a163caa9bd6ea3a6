"""`tidegate serve` and `tidegate token`: the service, and who may use it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.exits import complain, plain_errors
from tidegate.cli.keys import READABLE, read_key
from tidegate.errors import MissingError

if TYPE_CHECKING:  # imported when it is needed: start-up counts
    from tidegate.service.server import Service

Folder = Annotated[Path, typer.Argument(help="Folder of the service: lock, anchor, database.")]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database", help="PostgreSQL, as postgresql://…; default: SQLite in the folder."
    ),
]
KeyFile = Annotated[
    Path | None, typer.Option("--key-file", help="Key that seals states (or TIDEGATE_KEY).")
]
Role = Annotated[str, typer.Argument(help="producer, reader, device, shuffler, auditor or admin.")]
Label = Annotated[str, typer.Option(help="Who gets it; `--revoke` finds it by this.")]
Cap = Annotated[str | None, typer.Option(help="The most ε that any one source may spend.")]


def serve(
    folder: Folder,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 8000,
    database: DatabaseUrl = None,
    key_file: KeyFile = None,
    cap: Cap = None,
    public_reading: Annotated[
        bool, typer.Option("--public-reading", help="Released data can be read without a token.")
    ] = False,
    certificate: Annotated[Path | None, typer.Option(help="TLS certificate, PEM.")] = None,
    private_key: Annotated[Path | None, typer.Option(help="TLS private key, PEM.")] = None,
) -> None:
    """Serve many streams over HTTP, with a live page.

    Examples:

    \b
      tidegate serve gate/
      tidegate serve gate/ --key-file gate.key --cap 1
      tidegate serve gate/ --database postgresql://tidegate@db/tidegate --host 0.0.0.0
    """  # noqa: D301  # \b keeps the lines of the examples
    with plain_errors():
        key = read_key(key_file)
        service = _service(folder, database, key, cap)
        if key is None:
            complain(f"warning: states are not sealed (--key-file): {READABLE}")
        if not service.tokens.listed():
            token = service.gate.call(lambda: service.tokens.make("admin", "first")).result()
            typer.echo(f"A token for an admin, shown once: {token}")
        scheme = "http" if certificate is None else "https"
        complain(f"the live page is at {scheme}://{host}:{port}/")
        service.run(
            host,
            port,
            public_reading=public_reading,
            certificate=certificate,
            private_key=private_key,
        )


def token(
    folder: Folder,
    role: Role,
    label: Label,
    database: DatabaseUrl = None,
    revoke: Annotated[
        bool, typer.Option("--revoke", help="Remove the tokens with this label instead.")
    ] = False,
) -> None:
    """Make a token for a service that is not running; it is shown once.

    A running service makes tokens itself: POST /v1/tokens, for admins.

    Examples:

    \b
      tidegate token gate/ producer --label meters
      tidegate token gate/ producer --label meters --revoke
    """  # noqa: D301  # \b keeps the lines of the examples
    with plain_errors():
        service = _service(folder, database, None, None)
        try:
            if revoke:
                gone = service.gate.call(lambda: service.tokens.revoke(label)).result()
                typer.echo(f"{gone} tokens with the label {label!r} were removed")
            else:
                typer.echo(service.gate.call(lambda: service.tokens.make(role, label)).result())
        finally:
            service.gate.close()


def _service(folder: Path, database: str | None, key: bytes | None, cap: str | None) -> Service:
    try:
        from tidegate.service.server import Service
    except ModuleNotFoundError as error:
        raise MissingError(
            f"the service needs the extra 'service' ({error.name} is missing). Run pip install "
            "'.[service]' in the checkout"
        ) from None
    return Service.opened(folder, database, key, cap)
