"""Demonstrations: one made-up stream as a table and a picture; a made-up city behind a service."""

from __future__ import annotations
