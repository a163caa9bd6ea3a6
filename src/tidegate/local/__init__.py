"""The local model: every value is perturbed where it is born, and no server is trusted."""

from __future__ import annotations
