"""Streams are what they are said to be: twins match the table, files are checked."""

from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from experiments import datasets
from experiments.errors import ExperimentError
from experiments.registry import dataset, registry
from experiments.twins import twin
from tests.depth import in_turn

PAPER = ["dns", "fare", "kosarak", "pos"]


def store(folder: Path, stem: str, values: object, column: str = "value") -> Path:
    path = folder / f"{stem}.parquet"
    pyarrow.parquet.write_table(pyarrow.table({column: values}), path)
    return path


@pytest.mark.parametrize("name", in_turn(PAPER, 0))
def test_a_twin_has_the_quantiles_of_the_table(name: str) -> None:
    entry = dataset(name)
    values = twin(entry)
    found = datasets.statistics(values)
    assert entry.table is not None
    assert (found.n, found.p85, found.p95) == (entry.table.n, entry.table.p85, entry.table.p95)
    assert (found.p995, found.p100) == (entry.table.p995, entry.table.p100)
    assert abs(found.mean - entry.table.mean) < 0.05
    assert datasets.check(entry, values) == []


def test_a_twin_is_the_same_at_every_call_and_in_no_order_of_size() -> None:
    first, again = twin(dataset("pos")), twin(dataset("pos"))
    assert (first == again).all()
    assert (np.diff(first) < 0).mean() > 0.3


def test_the_twin_of_dns_has_a_daily_course() -> None:
    values = twin(dataset("dns"))
    hours = values[: 13 * 86_400].reshape(13, 24, 3600).mean(axis=2)
    assert hours.mean(axis=0).std() > 5 * hours.std(axis=0).mean() / np.sqrt(13)


def test_without_a_file_the_twin_is_used_and_says_so(no_data: Path) -> None:
    stream = datasets.stream("pos", 1000)
    assert stream.label == "POS (synthetic twin)"
    assert "synthetic twin" in stream.note
    assert not datasets.at_hand("twitter")
    with pytest.raises(ExperimentError, match="Twitter is not at hand"):
        datasets.stream("twitter", 1000)


def test_a_stream_is_mirrored_only_where_that_is_asked_for_and_says_so(no_data: Path) -> None:
    own = datasets.whole("pos").values
    short = datasets.stream("pos", own.size + 3)
    assert short.values.size == own.size
    assert "mirrored" not in short.label + short.note
    longer = datasets.stream("pos", own.size + 3, pad="mirror")
    assert longer.values[-3:].tolist() == own[::-1][:3].tolist()
    assert "mirrored" in longer.label
    assert "records recur" in longer.note
    with pytest.raises(ExperimentError, match='"never" or "mirror"'):
        datasets.stream("pos", 10, pad="repeat")


def test_a_file_that_is_not_the_papers_is_refused_by_its_statistics(no_data: Path) -> None:
    values = twin(dataset("pos"))
    values[values == 13] = 12
    store(no_data, "pos_length", values)
    with pytest.raises(ExperimentError, match="p85 is 12, not 13"):
        datasets.whole("pos")


def test_a_file_with_the_papers_statistics_is_real_in_any_order(no_data: Path) -> None:
    store(no_data, "pos", np.sort(twin(dataset("pos"))))
    assert datasets.stream("pos", 100).origin == datasets.REAL


def test_a_companion_with_another_checksum_is_refused(no_data: Path) -> None:
    store(no_data, "twitter_per_sec", np.arange(100))
    with pytest.raises(ExperimentError, match="another checksum"):
        datasets.whole("twitter")


@pytest.mark.parametrize(
    ("values", "message"),
    [([1, None, 3], "gaps"), ([1, -2, 3], "none below 0"), (["a", "b"], "not Parquet with")],
)
def test_a_damaged_file_is_named(no_data: Path, values: list[object], message: str) -> None:
    store(no_data, "pos", values)
    with pytest.raises(ExperimentError, match=message) as caught:
        datasets.whole("pos")
    assert "pos.parquet" in str(caught.value)


def test_a_file_without_the_column_or_without_parquet_is_named(no_data: Path) -> None:
    path = store(no_data, "pos", [1, 2], column="other")
    with pytest.raises(ExperimentError, match="column `value`"):
        datasets.read(path)
    path.write_bytes(b"PAR1 no")
    with pytest.raises(ExperimentError, match="not Parquet"):
        datasets.read(path)


def test_another_unit_multiplies_values_and_bound(no_data: Path) -> None:
    one, hundred = datasets.stream("pos", 500), datasets.stream("pos", 500, times=100)
    assert (hundred.values == 100 * one.values).all()
    assert hundred.bound == 100 * one.bound


def test_the_folder_is_the_users_cache_unless_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEGATE_DATA", raising=False)
    assert datasets.folder().name == "tidegate"
    monkeypatch.setenv("TIDEGATE_DATA", "/some/where")
    assert datasets.folder() == Path("/some/where")


def test_the_streams_at_hand_are_as_known(data_directory: Path) -> None:
    present = [name for name, entry in registry().items() if datasets.find(entry)]
    assert "pos" in present
    for name in present:
        assert datasets.whole(name).origin == datasets.REAL
    assert "shuffled" in datasets.stream("pos", 1000).note
