"""Sources and sinks: CSV, JSON Lines and Parquet; files of any size, and pipes.

Sources yield raw values; sinks see released values only. Errors name the place of a row, never its
content.

>>> import pathlib, tempfile
>>> folder = tempfile.TemporaryDirectory()
>>> path = pathlib.Path(folder.name) / "released.csv"
>>> with open_sink(path, metadata={"note": "public"}) as sink:
...     sink.write(0, [10.5, 12.0])
>>> print(path.read_text(), end="")
position,value
0,10.5
1,12
>>> with open_source(path) as source:
...     for batch in source.batches():
...         print(batch.values)
[10.5 12. ]
>>> read_metadata(path)
{'note': 'public'}
>>> folder.cleanup()
"""

from tidegate.io.batches import Batch, Source
from tidegate.io.errors import ClosedPipeError, SinkError, SourceError
from tidegate.io.file_kind_and_row_count import KINDS
from tidegate.io.metadata_files import read_metadata
from tidegate.io.open_sink import FunctionSink, Sink, open_sink
from tidegate.io.open_source import open_source
from tidegate.io.output_recovery import Recovered, recover, recover_rows, recoverable
from tidegate.io.released_reader import read_released, read_rows, read_rows_by

__all__ = [
    "KINDS",
    "Batch",
    "ClosedPipeError",
    "FunctionSink",
    "Recovered",
    "Sink",
    "SinkError",
    "Source",
    "SourceError",
    "open_sink",
    "open_source",
    "read_metadata",
    "read_released",
    "read_rows",
    "read_rows_by",
    "recover",
    "recover_rows",
    "recoverable",
]
