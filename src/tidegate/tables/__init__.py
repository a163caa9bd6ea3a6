"""Columns of other libraries, in and out: pandas, polars, pyarrow, DuckDB, and Arrow's protocol.

None of these libraries is imported unless an object of it is at hand, or is asked for.

| module | what it is |
| --- | --- |
| `to_numpy` | a column of any of them → what numpy reads; a missing value keeps its place |
| `arrow` | columns of Arrow as arrays, and back |
| `tables_from_numpy` | named arrays → a table of any of them; a Series comes out as a Series |
| `table_input` | pick named columns out of a table |
| `plain_text`, `html` | tables and pictures for people |
"""
