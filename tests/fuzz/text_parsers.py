"""Targets: what people type, and rows of files."""

from __future__ import annotations

import io
import json
import random
import tempfile
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzz.mutation import atom, number_text, refused, scrambled
from tests.io.test_io_text_sources import outcome
from tidegate.cli.pipeline_from_options import build_pipeline, options_with_config, unit_from_option
from tidegate.cli.query import _read_query_ranges
from tidegate.cli.release_options import KINDS
from tidegate.errors import InputError, TidegateError
from tidegate.exact_numbers import exact, whole
from tidegate.guarantee import Guarantee
from tidegate.io import open_source, read_metadata, read_released
from tidegate.io.column_choice import WantedColumn
from tidegate.io.csv_rows import CsvRows
from tidegate.io.json_rows import JsonRows
from tidegate.lattice import Lattice

_FOLDER = tempfile.TemporaryDirectory(prefix="tidegate-fuzz-")
_LATTICES = [
    Lattice(Fraction(100), Fraction(1)),
    Lattice(Fraction(30), Fraction(1, 100)),
    Lattice(Fraction(30), Fraction(1, 100), Fraction(-7)),
]
_CELLS = ["", "nan", "1", "2.5", "-3", "1e400", "null", '"7"', '"', "ann", " 7 ", "1_0", "٣", "\r"]
_OPTIONS = [
    "epsilon", "bound", "delta", "resolution", "holdout", "horizon", "fanout", "skipped", "preset",
    "estimator", "unit", "rethreshold", "start-early", "non-negative", "column", "header", "follow",
    "lower", "period",
]  # fmt: skip


def numbers(rng: random.Random) -> None:
    """Numbers of settings: exact, and the same when they are printed and read again."""
    text = number_text(rng)
    value: Any = text
    if rng.random() < 0.3:
        value = rng.choice([atom(rng), rng.getrandbits(rng.choice([8, 60, 20_000])), rng.random()])
    with suppress(ArithmeticError):
        value = Decimal(text) if rng.random() < 0.2 else value
    with refused(300):
        number = exact("epsilon", value)
        assert exact("epsilon", str(number)) == number
        plain = Guarantee(epsilon=number, delta=Fraction(0)).plain()
        assert Guarantee.from_plain(plain).epsilon == number
        assert whole("horizon", value, 1) == number


def options(rng: random.Random) -> None:
    """The command line's options, and a config that says them."""
    given = {name: number_text(rng) for name in rng.sample(_OPTIONS, rng.randint(0, 4))}
    for name in ("epsilon", "bound"):
        given.setdefault(name, "1")
    given["unit"] = rng.choice(["event", "window:", "user-horizon:"]) + number_text(rng)
    with refused():
        unit_from_option(given["unit"])
        build_pipeline({**given, "holdout": 4, "horizon": 64})


def config(rng: random.Random) -> None:
    """TOML files."""
    lines = [f"{name} = {rng.choice(['', chr(34)])}{number_text(rng)}" for name in _OPTIONS[:4]]
    text = "\n".join([*lines, "epsilon = 0.1", 'bound = "10"', "holdout = 4", "horizon = 64"])
    path = Path(_FOLDER.name) / "config.toml"
    path.write_bytes(scrambled(rng, text.encode()) if rng.random() < 0.9 else text.encode())
    with refused():
        found = options_with_config(dict.fromkeys([*_OPTIONS, "quiet"]), path, KINDS)
        if found.get("preset", "tops") == "tops":
            build_pipeline(found)


def lattice(rng: random.Random) -> None:
    """Values of any kind: one alone means what it means in a list, and in an array."""
    values = [atom(rng) if rng.random() < 0.3 else rng.uniform(-50, 500) for _ in range(3)]
    for grid in _LATTICES:
        try:
            units = grid.units(grid.numbers(values))
        except InputError:
            continue
        assert units.dtype == np.int64
        assert ((units >= -grid.bottom) & (units <= grid.top)).all()
        alone = [grid.unit(value) for value in values]
        assert alone == units.tolist()


def csv_rows(rng: random.Random) -> None:
    """CSV: the fast reader and the slow one agree, whatever the bytes are."""
    settings: dict[str, Any] = rng.choice(
        [{}, {"column": "0"}, {"column": "1"}, {"column": "load"}, {"header": True},
         {"header": False}, {"column": "load", "user_column": "who"}]
    )  # fmt: skip
    width = rng.choice([1, 1, 2])
    rows = [["load", "who"][:width]] if rng.random() < 0.5 else []
    rows += [[rng.choice(_CELLS) for _ in range(width)] for _ in range(rng.randint(0, 5))]
    data = "".join(",".join(row) + rng.choice(["\n", "\n", "\r\n"]) for row in rows).encode()
    if rng.random() < 0.5:
        data = scrambled(rng, data)
    sizes = [rng.randint(1, 20) for _ in range(rng.randint(0, 3))]
    wanted = [WantedColumn(settings.get("column"))]
    if "user_column" in settings:
        wanted.append(WantedColumn("who", "user_column", numeric=False))
    results = []
    for size, small in (([], 1 << 30), ([], 0), (sizes, 0)):
        try:
            results.append(outcome(CsvRows(wanted, settings.get("header")), data, size, small))
        except TidegateError as error:  # of the file as a whole, by its first bytes
            results.append(("", str(error)))
    assert results[0] == results[1] == results[2]


def json_rows(rng: random.Random) -> None:
    """JSON Lines, in the same way."""
    rows = []
    for _ in range(rng.randint(0, 4)):
        row = {"value": rng.choice([1, 2.5, None, atom(rng)]), "who": rng.choice(["a", 7, None])}
        try:
            rows.append(json.dumps(row))
        except (RecursionError, ValueError):
            rows.append("[" * 50_000)
    data = "".join(row + rng.choice(["\n", "\r\n"]) for row in rows).encode()
    if rng.random() < 0.5:
        data = scrambled(rng, data)
    wanted = [WantedColumn("value"), WantedColumn("who", "user_column", numeric=False)][
        : rng.randint(1, 2)
    ]
    results = []
    for small in (1 << 30, 0):
        try:
            results.append(outcome(JsonRows(wanted), data, [], small))
        except TidegateError as error:
            results.append(("", str(error)))
    assert results[0] == results[1]


def released_rows(rng: random.Random) -> None:
    """Rows of a released file."""
    kind = rng.choice(["csv", "jsonl"])
    if kind == "csv":
        text = "position,value\n" + "".join(f"{at},{at / 4:g}\n" for at in range(5))
    else:
        text = "".join(f'{{"position":{at},"value":{at / 4:g}}}\n' for at in range(5))
    path = Path(_FOLDER.name) / f"rows.{kind}"
    path.write_bytes(scrambled(rng, text.encode()))
    with refused():
        pieces = list(read_released(path))
        positions = [first + at for first, values in pieces for at in range(values.size)]
        assert not positions or positions == list(range(positions[0], positions[-1] + 1))


@cache
def table() -> bytes:
    """A Parquet file with values, users, and metadata of ours."""
    columns = {"value": [1.5, None, 3.0] * 20, "who": ["ann", None, "bo"] * 20}
    out = io.BytesIO()
    pq.write_table(pa.table(columns).replace_schema_metadata({"tidegate": '{"phases":[]}'}), out)
    return out.getvalue()


def parquet(rng: random.Random) -> None:
    """A Parquet file with other bytes in it, most of them in its footer."""
    data, start = table(), rng.choice([0, len(table()) - 700])
    path = Path(_FOLDER.name) / "rows.parquet"
    path.write_bytes(data[:start] + scrambled(rng, data[start:]))
    with refused():
        read_metadata(path)
    with refused(), open_source(path, column="value", user_column="who") as source:
        assert sum(len(batch) for batch in source.batches()) >= 0


def ranges(rng: random.Random) -> None:
    """A file of ranges."""
    text = "start,end\n" + "".join(f"{number_text(rng)},{number_text(rng)}\n" for _ in range(3))
    data = scrambled(rng, text.encode()) if rng.random() < 0.5 else text.encode()
    stream = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="")
    with refused():
        starts, ends = _read_query_ranges(stream, "ranges.csv")
        assert len(starts) == len(ends) > 0


TARGETS = {
    "numbers": numbers,
    "options": options,
    "config": config,
    "lattice": lattice,
    "csv-rows": csv_rows,
    "json-rows": json_rows,
    "released-rows": released_rows,
    "parquet": parquet,
    "ranges": ranges,
}
