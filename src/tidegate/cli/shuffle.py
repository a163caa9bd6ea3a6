"""`tidegate shuffle`: run the shuffler between devices and a service."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.exit_codes_and_signals import complain, errors_as_exit_codes
from tidegate.errors import MissingError, SettingError


def shuffle(
    folder: Annotated[Path, typer.Argument(help="Folder of the shuffler: reports that wait.")],
    to: Annotated[str, typer.Option(help="Address of the service, such as https://host.")],
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with a token of the role shuffler (or TIDEGATE_TOKEN)."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 8001,
    batch: Annotated[int, typer.Option(help="Reports that leave together.", min=1)] = 1000,
    every: Annotated[float, typer.Option(help="Seconds between checks.", min=0.1)] = 60.0,
    certificate: Annotated[Path | None, typer.Option(help="TLS certificate, PEM.")] = None,
    private_key: Annotated[Path | None, typer.Option(help="TLS private key, PEM.")] = None,
) -> None:
    """Strip names from reports of devices, mix them, send them on.

    Devices call it as they would call the service. Let somebody else run the shuffler: an
    operator of both the shuffler and the service knows who reported what.

    Examples:

    \b
      tidegate shuffle mixing/ --to https://collect.example --token-file shuffler.token
    """  # noqa: D301  # \b keeps the lines of the examples
    with errors_as_exit_codes():
        token = _shuffler_token(token_file)
        try:
            from tidegate.service.shuffler.shuffler_app import run_shuffler
        except ModuleNotFoundError as error:
            raise MissingError(
                f"the shuffler needs the extra 'service' ({error.name} is missing). Run pip "
                "install '.[service]' in the checkout"
            ) from None
        complain(
            f"devices report to {'https' if certificate else 'http'}://{host}:{port}/v1/tasks/ID"
        )
        run_shuffler(
            folder,
            to,
            token,
            host=host,
            port=port,
            size=batch,
            every=every,
            certificate=certificate,
            private_key=private_key,
        )


def _shuffler_token(path: Path | None) -> str:
    if path is None:
        token = os.environ.get("TIDEGATE_TOKEN", "")
    else:
        try:
            token = path.read_text(encoding="utf-8")
        except (OSError, UnicodeError):
            raise SettingError("token-file", f"{path} cannot be read") from None
    if not token.strip():
        raise SettingError("token-file", "a token of the role shuffler is needed")
    return token.strip()
