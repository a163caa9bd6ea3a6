"""Columns of other libraries, in and out: pandas, polars, pyarrow, DuckDB, and Arrow's protocol.

None of these libraries is imported unless an object of it is at hand, or is asked for.

| module | what it is |
| --- | --- |
| `incoming` | a column of any of them → what numpy reads; a missing value keeps its place |
| `arrow_column`, `pandas_column`, `polars_column` | one library each |
| `series` | a pandas or polars Series went in: one comes out, with its index or name |
| `outgoing` | named arrays → a table of any of them |
"""
