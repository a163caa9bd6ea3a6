"""`python -m experiments data list|describe|add|fetch`: the streams and their files."""

from __future__ import annotations

import argparse
import shutil
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlparse

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from experiments import datasets
from experiments.convert import convert
from experiments.errors import ExperimentError
from experiments.registry import Dataset, dataset, registry
from experiments.twins import twin

_COLUMNS = ("n", "p85", "p95", "p995", "p100", "mean")
_SECONDS = 60  # without an answer


def add_data_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command `data` and what is below it."""
    data = commands.add_parser("data", help="the streams: where they are, how they get here")
    below = data.add_subparsers(required=True, metavar="COMMAND")
    listing = below.add_parser("list", help="all streams, and which are at hand")
    listing.set_defaults(action=_list)
    describe = below.add_parser("describe", help="one stream beside the paper's table")
    describe.set_defaults(action=_describe)
    add = below.add_parser("add", help="convert a file, check it, and keep it")
    add.set_defaults(action=_add)
    fetch = below.add_parser("fetch", help="download from the public home, then the same")
    fetch.set_defaults(action=_fetch)
    for command in (describe, add, fetch):
        command.add_argument("name", metavar="NAME", help="from `data list`")
    add.add_argument("file", type=Path, metavar="FILE", help="in its original format, or Parquet")
    for command in (add, fetch):
        command.add_argument(
            "--anyway", action="store_true", help="keep it although it differs from the table"
        )


def _list(_options: argparse.Namespace, console: Console) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("name", "at hand", "what", "home"):
        table.add_column(column, overflow="fold")
    for name, entry in registry().items():
        path = datasets.find(entry)
        have = path.name if path else "synthetic twin" if entry.table else "no"
        table.add_row(name, have, f"{entry.title}: {entry.what}", entry.home)
    console.print(f"Folder: {datasets.folder()}")
    console.print(table)


def _describe(options: argparse.Namespace, console: Console) -> None:
    entry = dataset(options.name)
    console.print(f"{entry.title}: {entry.what}\nHome: {entry.home}\nBound: {entry.bound:,}")
    table = Table("", *_COLUMNS, box=None, padding=(0, 2, 0, 0))
    path = datasets.find(entry)
    values = None if path is None else datasets.read(path)[0]
    if entry.table is not None:
        table.add_row("the paper's table", *_cells(entry.table))
        table.add_row("synthetic twin", *_cells(datasets.statistics(twin(entry))))
    if path is not None and values is not None:
        table.add_row(path.name, *_cells(datasets.statistics(values)))
    console.print(table)
    if values is None:
        console.print(
            f"No file in {datasets.folder()}; it has {'a' if entry.table else 'no'} twin."
        )
    else:
        differences = datasets.check(entry, values)
        console.print(f"Values: sha256 {datasets.digest(values)}")
        console.print("; ".join(differences) if differences else "As expected.")


def _add(options: argparse.Namespace, console: Console) -> None:
    entry = dataset(options.name)
    values, blanks = _values(entry, options.file)
    _keep(entry, values, blanks, options.anyway, console)


def _fetch(options: argparse.Namespace, console: Console) -> None:
    entry = dataset(options.name)
    if entry.fetch is None:
        raise ExperimentError(
            f"{entry.title} cannot be fetched: {entry.home}. "
            f"If you have it, use `data add {entry.name} FILE`"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / Path(urlparse(entry.fetch).path).name
        console.print(f"Fetching {entry.fetch} ...")
        download(entry.fetch, path)
        values, blanks = _values(entry, path)
    _keep(entry, values, blanks, options.anyway, console)


def download(address: str, path: Path) -> None:
    """One file over HTTP, whole or not at all."""
    if urlparse(address).scheme not in ("http", "https"):
        raise ExperimentError(f"{address} is no web address")
    try:
        with urllib.request.urlopen(address, timeout=_SECONDS) as answer, path.open("wb") as file:
            shutil.copyfileobj(answer, file)
            wanted = answer.headers.get("Content-Length")
    except (urllib.error.URLError, OSError) as error:
        raise ExperimentError(f"{address} could not be fetched: {error}") from None
    if wanted is not None and path.stat().st_size != int(wanted):
        raise ExperimentError(f"{address} broke off after {path.stat().st_size:,} bytes")


def _values(entry: Dataset, path: Path) -> tuple[NDArray[np.int64], int]:
    """From Parquet with a column `value` as it is, from anything else by conversion."""
    if path.suffix == ".parquet" and path.is_file():
        import pyarrow
        import pyarrow.parquet

        try:
            names = pyarrow.parquet.read_schema(path).names
        except (pyarrow.ArrowException, OSError) as error:
            raise ExperimentError(f"{path} is no Parquet file ({error})") from None
        if "value" in names:
            return datasets.read(path)[0], 0
    converted = convert(entry, path)
    return converted.values, converted.blanks


def _keep(
    entry: Dataset, values: NDArray[np.int64], blanks: int, anyway: bool, console: Console
) -> None:
    import pyarrow
    import pyarrow.parquet

    differences = datasets.check(entry, values)
    if differences and not anyway:
        raise ExperimentError(
            f"this is not the {entry.title} of the paper: {'; '.join(differences)}. "
            "With --anyway it is kept, and results say that it differs"
        )
    metadata = {"tidegate.differs": "; ".join(differences)} if differences else {}
    table = pyarrow.table({"value": values}).replace_schema_metadata(metadata)
    path = datasets.folder() / f"{entry.files[0]}.parquet"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".part")
        pyarrow.parquet.write_table(table, temporary, compression="zstd")
        temporary.replace(path)
    except OSError as error:
        raise ExperimentError(f"cannot write {path}: {error.strerror or error}") from None
    console.print(
        f"{path}: {values.size:,} values, {blanks:,} of them missing or negative, taken as 0."
    )
    console.print(
        "It differs: " + "; ".join(differences) if differences else "As the paper's table."
    )


def _cells(found: object) -> list[str]:
    return [
        f"{getattr(found, column):,.1f}" if column == "mean" else f"{getattr(found, column):,}"
        for column in _COLUMNS
    ]
