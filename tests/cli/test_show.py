"""`tidegate show`: a line of text, the facts above it, and a picture."""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

import tidegate as tg
from tidegate.cli import show
from tidegate.io import open_sink
from tidegate.run.public_facts import describe_facts

app = typer.Typer()
app.command("show")(show.show)
RAMP = np.repeat([5, 50], 10_000)


def write(path: Path, values: Any = RAMP, **settings: Any) -> tg.Release:
    pipeline = tg.tops(epsilon=2, bound=500, horizon=2**13, holdout=1024, **settings)
    release = pipeline.start(tg.seeded(5))
    with open_sink(path) as sink:
        sink.write(0, release.push(np.concatenate((np.full(1024, 50), values))))
        sink.set_metadata(describe_facts(pipeline, release, release.phases))
    return release


@pytest.fixture
def look() -> Callable[..., Result]:
    return lambda *words: CliRunner().invoke(app, list(map(str, words)))


def test_facts_and_a_line_that_rises(tmp_path: Path, look: Callable[..., Result]) -> None:
    release = write(tmp_path / "private.parquet")
    result = look(tmp_path / "private.parquet", "--width", 40, "--window", 500)
    assert result.exit_code == 0
    for fact in (str(release.guarantee), f"threshold  {release.threshold:g}", "20,000", "500"):
        assert fact in result.stdout
    (line,) = [line for line in result.stdout.splitlines() if set(line) & set("▁▂▃▄▅▆▇█")]
    assert len(line) == 40
    assert set(line[:15]) <= set("▁▂")
    assert set(line[-15:]) <= set("▇█")


def test_thresholds_are_listed(tmp_path: Path, look: Callable[..., Result]) -> None:
    release = write(tmp_path / "a.csv", rethreshold_every=8192)
    for phase in release.phases:
        assert f"{phase.threshold:g} from {phase.start:,} on" in look(tmp_path / "a.csv").stdout
    release = write(tmp_path / "b.csv", rethreshold_every=1024)
    assert f"and {len(release.phases) - 6} more" in look(tmp_path / "b.csv").stdout


def test_few_values_and_flat_ones(tmp_path: Path, look: Callable[..., Result]) -> None:
    write(tmp_path / "few.csv", values=[1, 2, 3])
    result = look(tmp_path / "few.csv")
    assert result.exit_code == 0
    assert "moving average of 3 values" in result.stdout


def test_a_terminal_without_unicode(
    tmp_path: Path, look: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert show.sparkline([1.0, 2.0, 3.0]) == "_+#"


def test_a_picture(tmp_path: Path, look: Callable[..., Result]) -> None:
    write(tmp_path / "private.csv", rethreshold_every=8192)
    result = look(tmp_path / "private.csv", "--png", tmp_path / "private.png")
    assert result.exit_code == 0
    assert (tmp_path / "private.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_cannot_be_drawn(
    tmp_path: Path, look: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "private.csv")
    result = look(tmp_path / "private.csv", "--png", tmp_path / "no folder" / "private.png")
    assert result.exit_code == 4
    assert "no such file" in result.stderr
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = look(tmp_path / "private.csv", "--png", tmp_path / "private.png")
    assert result.exit_code == 4
    assert "pip install '.[cli]'" in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--window", 0), "window"),
        (("--window", 10**9), "window"),
        (("--width", 0), "width"),
        (("--confidence", 2), "confidence"),
    ],
)
def test_bad_options(
    tmp_path: Path, look: Callable[..., Result], words: tuple[Any, ...], message: str
) -> None:
    write(tmp_path / "private.csv")
    result = look(tmp_path / "private.csv", *words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_debts_are_mentioned(tmp_path: Path, look: Callable[..., Result]) -> None:
    write(tmp_path / "private.csv", non_negative=True)
    assert "debt" in look(tmp_path / "private.csv").stdout
