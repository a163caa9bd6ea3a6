"""The local model: every value is perturbed on the device where it arises; no server is trusted."""

from __future__ import annotations
