"""Simulate all users and their server: what a scheme would publish about known series."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidegate.errors import InputError, SettingError
from tidegate.lattice import FloatArray
from tidegate.local.series.collectors import (
    ChangeCollector,
    PatternCollector,
    PopulationCollector,
    UpdateCollector,
)
from tidegate.local.series.devices import (
    ChangeDevices,
    PatternDevices,
    PopulationDevices,
    UpdateDevices,
)
from tidegate.local.series.randomized_response import Bits
from tidegate.local.series.schemes import Changes, Patterns, PopulationDivision, Updates
from tidegate.randomness import Randomness, WordSource, secure
from tidegate.settings import digest


def simulate(scheme: Any, series: Bits, randomness: Randomness | None = None) -> FloatArray:
    """The published means, one for each step. `series` has a row per step, a column per user.

    Users have a yes or no at every step; for `Patterns` they may have whole numbers up to `top`.

    >>> import tidegate as tg
    >>> series = tg.synthetic.user_series(users=20_000, steps=64, seed=1)
    >>> scheme = PopulationDivision(epsilon=2, window=8)
    >>> published = simulate(scheme, series, tg.seeded(1))
    >>> bool(np.abs(published - series.mean(axis=1)).mean() < 0.03)
    True
    """
    array = np.asarray(series)
    numbers = isinstance(scheme, Patterns) and np.issubdtype(array.dtype, np.integer)
    if array.ndim != 2 or not array.size or not (numbers or array.dtype == np.bool_):
        raise InputError("series must be a table of booleans: a row for every step")
    runs: dict[type, Any] = {
        Changes: _simulated_changes,
        Patterns: _simulated_patterns,
        PopulationDivision: _simulated_population,
        Updates: _simulated_updates,
    }
    if type(scheme) not in runs:
        raise SettingError("scheme", "must be Changes, Patterns, PopulationDivision or Updates")
    epoch = (secure() if randomness is None else randomness).new_epoch()
    words = epoch.keystream("local/series", digest(scheme.settings())).at()
    published: FloatArray = runs[type(scheme)](scheme, array, words)
    return published


def _simulated_changes(scheme: Changes, series: Bits, words: WordSource) -> FloatArray:
    if len(series) > scheme.horizon:
        raise SettingError("horizon", f"is shorter than the series of {len(series)} steps")
    users = series.shape[1]
    devices, server = ChangeDevices(scheme, users, words), ChangeCollector(scheme, users)
    published = []
    for values in series:
        sent = devices.push(values)
        published.append(server.collect(devices.levels[sent.users], sent.plus))
    return np.array(published)


def _simulated_updates(scheme: Updates, series: Bits, words: WordSource) -> FloatArray:
    users = series.shape[1]
    devices, server = UpdateDevices(scheme, users, words), UpdateCollector(scheme)
    published = []
    for step, values in enumerate(series, start=1):
        devices.push(values)
        if step % scheme.epoch == 0:
            if server.wanted(devices.vote(server.published)):
                server.collect(devices.report())
            devices.close()
        published.append(float(server.published))
    return np.array(published)


def _simulated_patterns(scheme: Patterns, series: Bits, words: WordSource) -> FloatArray:
    users = series.shape[1]
    devices, server = (
        PatternDevices(scheme, users, words),
        PatternCollector(scheme, users, words),
    )
    published = []
    for values in series:
        devices.push(values)
        server.collect(devices.report(server.begin()))
        published.append(server.mean * scheme.top)
    return np.array(published)


def _simulated_population(
    scheme: PopulationDivision, series: Bits, words: WordSource
) -> FloatArray:
    users = series.shape[1]
    devices, server = (
        PopulationDevices(scheme, users, words),
        PopulationCollector(scheme, users, words),
    )
    if not server.group:
        raise SettingError("window", f"is too long for {users} users: some steps would ask nobody")
    published = []
    for values in series:
        devices.push(values)
        asked = server.collect(devices.report(server.begin()))
        server.publish(devices.report(asked))
        published.append(server.mean)
    return np.array(published)
