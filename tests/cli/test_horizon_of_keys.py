"""`release --by` takes its horizon from the keys in which rows lie, not from the average key."""

import json
from pathlib import Path

import numpy as np

from tests.cli.invoking import run
from tidegate.io.metadata_files import read_metadata

RARE, BUSY = 30, 12_000


def rows_by_zone(path: Path) -> float:
    """Sixty zones with a few rows each, and one with nearly all; the sum of that."""
    generator = np.random.default_rng(8)
    zones = np.repeat([f"z{at}" for at in range(60)] + ["busy"], [RARE] * 60 + [BUSY])
    values = generator.gamma(2, 10, zones.size).round(2)
    order = generator.permutation(zones.size)
    rows = zip(zones[order].tolist(), values[order].tolist(), strict=True)
    path.write_text("zone,fare\n" + "".join(f"{zone},{value}\n" for zone, value in rows))
    path.with_name("keys.txt").write_text("\n".join([*dict.fromkeys(zones.tolist()), "none"]))
    return float(values[zones == "busy"].sum())


def test_a_busy_key_among_rare_ones_is_known_well(tmp_path: Path) -> None:
    """With the rows of an average key (228, so 1,000) the interval of `busy` was 0.6 to 1.5 times
    its sum wide: the threshold was chosen from a few dozen values.
    """
    truth = rows_by_zone(tmp_path / "in.csv")
    words = ("--column", "fare", "--by", "zone", "--keys", tmp_path / "keys.txt")
    settings = ("--epsilon", 1, "--bound", 200, "--lower", -50, "-o", tmp_path / "out.csv")
    assert run("release", tmp_path / "in.csv", *words, *settings).exit_code == 0
    settings = read_metadata(tmp_path / "out.csv")["settings"]
    horizon = json.dumps(settings).partition('"horizon": ')[2].partition(",")[0]
    assert int(horizon.rstrip("}")) == (60 * RARE**2 + BUSY**2) // (60 * RARE + BUSY)
    answer = json.loads(run("query", tmp_path / "out.csv", "--key", "busy", "--json").stdout)
    (found,) = [one for one in answer["answers"] if one["key"] == "busy"]
    assert found["high"] - found["low"] < 0.45 * truth  # 0.04 to 0.17 in six runs
    shown = run("check", tmp_path / "in.csv", "--column", "fare", "--by", "zone").stdout
    assert f"--horizon {horizon}" in shown
