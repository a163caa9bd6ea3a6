"""A few characters of input never cause work or memory without limit, and no traceback."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from typer.testing import CliRunner

import tidegate as tg
from tests.depth import in_turn
from tests.fuzz.harness import limited
from tidegate.cli.app import app
from tidegate.errors import SettingError, TidegateError
from tidegate.exact_numbers import exact
from tidegate.guarantee import Guarantee
from tidegate.io import SourceError, open_sink, read_metadata
from tidegate.io.metadata_files import metadata_sidecar
from tidegate.released import ReleasedFile
from tidegate.run.hold_out import HoldOut

BASE = {"epsilon": 1, "bound": 100, "holdout": 4, "horizon": 64}
ABSURD = [
    "1e3000000000", "1e-3000000000", "1e99999999999999999999999", "9" * 10**6, "0." + "1" * 10**6,
    "1/" + "9" * 10**5, "1e1001", "1/1e9", "\uff19", "1_0", "٣", "nan", "inf", "1e", "", "0x10",
    Decimal("1e3000000000"), Decimal("1e-3000000000"), Decimal("sNaN"), 10**5000, -(10**5000),
    Fraction(1, 10**5000), Fraction(10**5000, 3), np.longdouble("1e4000"), float("inf"), [1], None,
]  # fmt: skip


@pytest.mark.parametrize("value", ABSURD, ids=lambda value: repr(type(value)))
def test_an_absurd_number_is_refused_at_once_and_not_repeated(value):
    # Catches: Fraction("1e3000000000"), which is a gigabyte; str(10**5000), which Python refuses.
    with limited():
        for name in ("epsilon", "bound", "resolution", "holdout", "horizon"):
            if name in ("horizon", "holdout", "resolution") and value is None:
                continue  # None stands for "decide for me"
            with pytest.raises(SettingError) as caught:
                tg.tops(**{**BASE, name: value})
            assert len(str(caught.value)) < 200


def test_what_is_read_as_a_number_is_written_as_one():
    for text in ("1e1000", "1e-1000", "1/" + "7" * 1200, "0." + "3" * 1200, " 5. ", "+.5"):
        number = exact("epsilon", text)
        assert exact("epsilon", str(number)) == number
        promise = Guarantee(epsilon=number)
        assert Guarantee.from_plain(promise.plain()) == promise
        assert str(promise)


@pytest.mark.parametrize("preset", [tg.tops, tg.adaptive])
@pytest.mark.parametrize("setting", ["holdout", "horizon", "rethreshold_every", "bound"])
@pytest.mark.parametrize("value", in_turn([10**9, 10**12, 10**15, 10**18], 1))
def test_memory_grows_with_the_data_and_not_with_the_settings(preset, setting, value):
    # Catches: a hold-out of 10^12 values as an array; the noise of one tree over 10^15.
    tracemalloc.start()
    try:
        with limited(), suppress(SettingError):
            release = preset(**{**BASE, setting: value}).start()
            release.push(np.arange(10))
        assert tracemalloc.get_traced_memory()[1] < 300 << 20
    finally:
        tracemalloc.stop()


def test_an_outgrown_hold_out_is_wiped():
    # What is given back to the system must not hold raw values.
    held = HoldOut(10**12)
    seen = []
    for start in range(0, 5000, 500):
        held.add(np.arange(start, start + 500) + 1)
        if not any(held._units is array for array in seen):
            seen.append(held._units)
    assert np.array_equal(held.units, np.arange(5000) + 1)
    assert len(seen) > 2
    assert not any(array.any() for array in seen[:-1])
    held.wipe()
    assert not seen[-1].any()


def deep(text: str, times: int = 100_000) -> str:
    return text * times


@pytest.mark.parametrize(
    "text",
    [deep("["), deep('{"a":'), '{"settings":' + deep('{"kind":', 900) + "1" + "}" * 901, "9" * 5000,
     '{"settings":{"epsilon":"1e3000000000"}}', "null", "[]", '{"phases":' + "9" * 9000 + "}"],
    ids=range(8),
)  # fmt: skip
def test_hostile_metadata_is_refused(tmp_path, text):
    path = tmp_path / "out.csv"
    with open_sink(path, metadata={}) as sink:
        sink.write(0, [1.0])
    metadata_sidecar(path).write_text(text)
    with limited(), pytest.raises(TidegateError):
        ReleasedFile.open(path)
    result = CliRunner().invoke(app, ["query", str(path), "0", "1"])
    assert result.exit_code in (2, 4)
    assert isinstance(result.exception, SystemExit)


def test_a_number_in_metadata_is_limited_too(tmp_path):
    # Catches: ε = "1e3000000000" in a released file, opened by whoever got it.
    source, path = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("5\n" * 50)
    settings = ["--epsilon", "1", "--bound", "100", "--holdout", "4", "--horizon", "64"]
    assert (
        CliRunner().invoke(app, ["release", str(source), "-o", str(path), *settings]).exit_code == 0
    )
    facts = read_metadata(path)
    for stage, name in (("perturber", "epsilon"), ("threshold", "bound"), ("perturber", "horizon")):
        changed = json.loads(json.dumps(facts))
        changed["settings"][stage][name] = "1e3000000000"
        metadata_sidecar(path).write_text(json.dumps(changed))
        with limited(), pytest.raises(SourceError, match=rf"out\.csv: .* {name}: "):
            ReleasedFile.open(path)


@pytest.mark.parametrize(
    "text",
    [
        deep("a = ["), "a = " + deep("["), "epsilon = " + "9" * 9999, "é",
        # Hexadecimal numbers are read, however long they are.
        *(f"{form}0x" + "f" * 9999 for form in ("epsilon = ", "horizon = ", "bound.a = ")),
        "column = [0b" + "1" * 99_999 + "]",
    ],
    ids=range(8),
)  # fmt: skip
def test_hostile_config(tmp_path, text):
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="latin-1")
    with limited():
        result = CliRunner().invoke(app, ["release", "-", "--config", str(path)])
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    assert len(result.output) < 300


@pytest.mark.parametrize(
    "words",
    [["--holdout", "1000000000000"], ["--horizon", "1000000000000000000"], ["--bound", "1e300"],
     ["--resolution", "1e-300"], ["--epsilon", "1e3000000000"], ["--fanout", "9" * 25],
     ["--skipped", "9" * 18], ["--unit", "window:" + "9" * 999], ["--unit", "user-horizon:1e99"],
     ["--rethreshold", "every=" + "9" * 5000], ["--start-early", "1" + "0" * 18],
     ["--column", "9" * 5000]],
    ids=lambda words: words[0],
)  # fmt: skip
def test_no_option_makes_a_traceback(tmp_path, words):
    options = ["--epsilon", "1", "--bound", "100", "--holdout", "4", "--horizon", "64"]
    options += ["--preset", "tops", *words]
    with limited():
        result = CliRunner().invoke(app, ["release", *options], input="5\n" * 50)
    assert result.exit_code in (0, 2, 5), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
