"""Sums by time: where which time is, ranges of time, and tables with a row for each of them."""
