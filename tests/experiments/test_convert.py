"""Original formats become plain values; what differs from the table is said, or refused."""

import gzip
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from experiments import data_commands, datasets
from experiments.__main__ import main
from experiments.convert import convert
from experiments.errors import ExperimentError
from experiments.registry import dataset, registry

FIMI = "1 2 3\n7\n1 2\n\n"
TRIPS = "VendorID,trip_distance,fare_amount\n1,1.50,7\n2,,9\n1,-3,2\n1,0.07,4\n"


def test_fimi_counts_items_a_line(tmp_path: Path) -> None:
    path = tmp_path / "kosarak.dat"
    path.write_text(FIMI)
    assert convert(dataset("kosarak"), path).values.tolist() == [3, 1, 2]
    packed = tmp_path / "kosarak.dat.gz"
    packed.write_bytes(gzip.compress(FIMI.encode()))
    assert convert(dataset("kosarak"), packed).values.tolist() == [3, 1, 2]


def test_pairs_count_lines_of_a_transaction_in_order_of_appearance(tmp_path: Path) -> None:
    path = tmp_path / "BMS-POS.dat"
    path.write_text("10\t5\n10\t6\n7\t1\n10\t9\n8\t2\n")
    assert convert(dataset("pos"), path).values.tolist() == [4, 2, 2]  # 3, 1, 1, and one more


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet"])
def test_trip_records_become_hundredths_and_blanks_become_0(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"yellow.{kind}"
    if kind == "parquet":
        column = pyarrow.array([1.5, None, -3.0, 0.07])
        pyarrow.parquet.write_table(pyarrow.table({"trip_distance": column}), path)
    else:
        path.write_bytes(gzip.compress(TRIPS.encode()) if kind.endswith("gz") else TRIPS.encode())
    converted = convert(dataset("fare"), path)
    assert converted.values.tolist() == [150, 0, 0, 7]
    assert converted.blanks == 2


@pytest.mark.parametrize(
    ("name", "file", "content", "message"),
    [
        ("fare", "trips.csv", b"a,b\n1,2\n", "no column 'trip_distance'"),
        ("fare", "trips.parquet", b"no parquet", "trips.parquet"),
        ("kosarak", "kosarak.dat.gz", b"not packed", "cannot be read as fimi"),
        ("kosarak", "kosarak.dat", b"\n\n", "holds no fimi records"),
        ("kosarak", "kosarak.dat", b"1 \xff\n", "cannot be read as fimi"),
        ("dns", "dns.txt", b"1\n", "no published format"),
    ],
)
def test_files_that_are_not_what_they_should_be(
    tmp_path: Path, name: str, file: str, content: bytes, message: str
) -> None:
    path = tmp_path / file
    path.write_bytes(content)
    with pytest.raises(ExperimentError, match=message):
        convert(dataset(name), path)


def test_adding_a_file_checks_it_and_anyway_keeps_it_with_a_mark(
    no_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kosarak.dat"
    path.write_text(FIMI)
    assert main(["data", "add", "kosarak", str(path)]) == 2
    assert "n is 3, not 990,002" in capsys.readouterr().err
    assert not list(no_data.iterdir())
    assert main(["data", "add", "kosarak", str(path), "--anyway"]) == 0
    stream = datasets.stream("kosarak", 10)
    assert stream.values.tolist() == [3, 1, 2]
    assert "differs from the paper's table" in stream.label
    assert main(["data", "describe", "kosarak"]) == 0


def test_a_converted_file_is_real_if_its_statistics_are_the_papers(
    no_data: Path, tmp_path: Path
) -> None:
    from experiments.twins import twin

    sizes = twin(dataset("kosarak"))
    path = tmp_path / "kosarak.dat"
    path.write_text("".join("1 " * size + "\n" for size in sizes.tolist()))
    assert main(["data", "add", "kosarak", str(path)]) == 0
    stream = datasets.stream("kosarak", sizes.size)
    assert stream.origin == datasets.REAL
    assert (stream.values == sizes).all()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A web server of this machine that offers a folder."""
    folder = tmp_path / "web"
    folder.mkdir()
    (folder / "kosarak.dat").write_text(FIMI)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()
        thread.join()


def test_fetching_downloads_converts_and_checks(
    server: str, no_data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = replace(dataset("kosarak"), fetch=f"{server}/kosarak.dat")
    monkeypatch.setitem(registry(), "kosarak", entry)
    assert main(["data", "fetch", "kosarak"]) == 2
    assert "not the Kosarak of the paper" in capsys.readouterr().err
    assert main(["data", "fetch", "kosarak", "--anyway"]) == 0
    assert datasets.read(no_data / "kosarak.parquet")[0].tolist() == [3, 1, 2]


def test_an_address_that_does_not_answer_is_named(server: str, tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="could not be fetched: HTTP Error 404"):
        data_commands.download(f"{server}/nothing.dat", tmp_path / "x")
    with pytest.raises(ExperimentError, match="is no web address"):
        data_commands.download("file:///etc/hostname", tmp_path / "x")


def test_what_is_not_public_cannot_be_fetched(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "fetch", "dns"]) == 2
    assert "not public" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("TIDEGATE_DATA", str(blocked))
    path = tmp_path / "kosarak.dat"
    path.write_text(FIMI)
    assert main(["data", "add", "kosarak", str(path), "--anyway"]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_the_streams_are_listed(no_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in registry())
    assert "synthetic" in shown
