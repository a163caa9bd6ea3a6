"""The record: released data, kept, encoded and queried."""
