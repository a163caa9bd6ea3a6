"""Demonstrations: a synthetic stream as table and picture; a synthetic city behind a service."""

from __future__ import annotations
