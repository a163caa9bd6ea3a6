"""Segments: the leaves and blocks released with one threshold; stored, encoded and joined."""
