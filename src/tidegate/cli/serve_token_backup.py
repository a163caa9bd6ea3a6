"""`tidegate serve` and `tidegate token`: run the service, and manage who may use it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.exit_codes_and_signals import complain, errors_as_exit_codes
from tidegate.cli.sealing_key import READABLE, read_sealing_key, sealing_key_of_command
from tidegate.errors import MissingError

if TYPE_CHECKING:  # imported when it is needed: start-up counts
    from tidegate.service.service_process import Service

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
KeyCommand = Annotated[
    str | None,
    typer.Option("--key-command", help="Command that prints the key in hex, such as one of a KMS."),
]
Issuer = Annotated[
    str | None, typer.Option("--openid-issuer", help="OpenID Connect provider, as https://….")
]
Audience = Annotated[str, typer.Option("--openid-audience", help="This service's name there.")]
RoleClaim = Annotated[str, typer.Option("--openid-claim", help="Claim that holds the role.")]
LogFormat = Annotated[
    str, typer.Option("--log-format", help="Format of the log on standard error: text or json.")
]
NewEpoch = Annotated[
    bool,
    typer.Option(
        "--new-epoch", help="The database was restored: every stream begins anew, charged on top."
    ),
]
Rate = Annotated[
    float | None, typer.Option(help="Requests a second that each token may send.", min=0.01)
]


def serve(
    folder: Folder,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 8000,
    database: DatabaseUrl = None,
    key_file: KeyFile = None,
    key_command: KeyCommand = None,
    cap: Cap = None,
    rate: Rate = None,
    new_epoch: NewEpoch = False,
    public_reading: Annotated[
        bool, typer.Option("--public-reading", help="Released data can be read without a token.")
    ] = False,
    certificate: Annotated[Path | None, typer.Option(help="TLS certificate, PEM.")] = None,
    private_key: Annotated[Path | None, typer.Option(help="TLS private key, PEM.")] = None,
    openid_issuer: Issuer = None,
    openid_audience: Audience = "tidegate",
    openid_claim: RoleClaim = "tidegate_role",
    log_format: LogFormat = "text",
) -> None:
    """Serve many streams over HTTP, with a live page.

    Examples:

    \b
      tidegate serve gate/
      tidegate serve gate/ --key-file gate.key --cap 1
      tidegate serve gate/ --database postgresql://tidegate@db/tidegate --host 0.0.0.0
    """  # noqa: D301  # \b keeps the lines of the examples
    with errors_as_exit_codes():
        from tidegate.service.logs_and_traces import LogLineFormatter

        LogLineFormatter(log_format)  # which refuses what it does not know
        key = (
            read_sealing_key(key_file)
            if key_command is None
            else sealing_key_of_command(key_command)
        )
        service = _service_to_serve(folder, database, key, cap, new_epoch=new_epoch)
        openid = None
        if openid_issuer is not None:
            from tidegate.service.openid_tokens import OpenIdTokens

            openid = OpenIdTokens(openid_issuer, openid_audience, openid_claim)
        if key is None:
            complain(f"warning: states are not sealed (--key-file): {READABLE}")
        if not service.tokens.listed():
            token = service.make_token("admin", "first")
            typer.echo(f"A token for an admin, shown once: {token}")
        scheme = "http" if certificate is None else "https"
        complain(f"the live page is at {scheme}://{host}:{port}/")
        service.run(
            host,
            port,
            public_reading=public_reading,
            rate=rate,
            openid=openid,
            certificate=certificate,
            private_key=private_key,
            log_format=log_format,
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
    with errors_as_exit_codes():
        service = _service_to_serve(folder, database, None, None)
        try:
            if revoke:
                gone = service.revoke_tokens(label)
                typer.echo(f"{gone} tokens with the label {label!r} were removed")
            else:
                typer.echo(service.make_token(role, label))
        finally:
            service.gate.close()


def backup(
    folder: Folder,
    target: Annotated[Path, typer.Argument(help="A new folder for the copy.")],
) -> None:
    """Copy the SQLite database of a service (PostgreSQL: use pg_dump).

    Examples:

    \b
      tidegate backup gate/ backup-2024-02-01/
    """  # noqa: D301  # \b keeps the lines of the examples
    with errors_as_exit_codes():
        from tidegate.service.backup import make_backup

        make_backup(folder, target)
        complain(f"the copy in {target} is as secret as the database")


def restore(
    copy: Annotated[Path, typer.Argument(help="The folder of a backup.")], folder: Folder
) -> None:
    """Restore a backup; every stream begins a new, charged epoch.

    Examples:

    \b
      tidegate restore backup-2024-02-01/ gate/
    """  # noqa: D301  # \b keeps the lines of the examples
    with errors_as_exit_codes():
        from tidegate.service.backup import restore_from_backup

        restore_from_backup(copy, folder)
        complain("every stream begins a new epoch when the service starts; its values are charged")


@contextmanager
def extra_to_serve() -> Iterator[None]:
    """Name the extra to install where an import of the service fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingError(
            f"the service needs the extra 'service' ({error.name} is missing). Run pip install "
            "'.[service]' in the checkout"
        ) from None


def _service_to_serve(
    folder: Path,
    database: str | None,
    key: bytes | None,
    cap: str | None,
    *,
    new_epoch: bool = False,
) -> Service:
    with extra_to_serve():
        from tidegate.service.service_process import Service
    return Service.opened(folder, database, key, cap, new_epoch=new_epoch)
