"""Sums by time: an index of times, ranges of time, and tables with a row for each interval."""
