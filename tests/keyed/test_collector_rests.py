"""Ticks of many keys make few objects at once, so Python's collector stays out of them."""

import gc

import numpy as np

import tidegate as tg

KEYS, TICKS = 60_000, 30


def test_noise_of_many_keys_is_made_without_many_objects_at_once() -> None:
    """About 230 keys get noise in a tick, twice. With an object and a method for each of them the
    collector ran in most ticks, and in some through all objects of the process: they took ten times
    as long.
    """
    method = tg.Pipeline(
        threshold=tg.threshold.Fixed(50),
        perturber=tg.perturb.Hierarchy(epsilon="0.1", horizon=4096),
    )
    release = tg.keyed(method, keys=range(KEYS)).start(record=False)
    keys, values = np.arange(KEYS), np.ones(KEYS)
    release.push(keys, values)
    gc.collect()
    runs = []
    gc.callbacks.append(lambda phase, info: runs.append(info) if phase == "start" else None)
    try:
        for _ in range(TICKS):
            release.push(keys, values)
    finally:
        gc.callbacks.pop()
    assert len(runs) <= 3
