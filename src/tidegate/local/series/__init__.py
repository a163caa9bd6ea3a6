"""Series of users: a yes or no at every step; ε protects a window or the whole series.

| scheme | ε protects | published as |
|---|---|---|
| `Changes` | a user's whole series | Erlingsson et al., *Amplification by Shuffling*, SODA 2019 |
| `Updates` | a user's whole series | Joseph et al., *Local Differential Privacy for Evolving Data*, NeurIPS 2018 |
| `Patterns` | any w steps of a user | after Wang et al., *Pattern-aware Privacy-preserving Real-time Data Collection*, INFOCOM 2020 |
| `PopulationDivision` | any w steps of a user | Ren et al., *LDP-IDS*, SIGMOD 2022 |

A scheme (`schemes`) is a frozen specification that both sides know. `devices` holds what users do: it sees values and gives reports.
`collectors` holds what the server does: it sees reports alone. The two never import each other. Many users are one array; a single device is an array of one.
"""  # noqa: E501  # a table

from __future__ import annotations

from tidegate.local.series.schemes import Changes, Patterns, PopulationDivision, Updates
from tidegate.local.series.series_simulation import simulate

__all__ = ["Changes", "Patterns", "PopulationDivision", "Updates", "simulate"]
