"""Numbers and tables for people, in plain text."""

from __future__ import annotations

from tidegate.tables.text import percent, shown, table

__all__ = ["percent", "shown", "table"]
