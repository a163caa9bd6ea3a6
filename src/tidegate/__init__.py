"""Tidegate: release a stream of sensitive numbers under differential privacy, continuously.

    source → Release.push → first values: threshold → truncate → perturb ║ smooth → record, queries
             raw integers, in memory or sealed                           ║ released data only
                                                            the privacy barrier: `Noisy`

>>> import tidegate as tg
>>> pipeline = tg.adaptive(epsilon=0.5, bound=500, horizon=2**16)
>>> release = pipeline.start()  # or start(tg.seeded(7)) to simulate
>>> released = release.push(tg.synthetic.baskets(40_000))
>>> len(released)  # one row for each value
40000
>>> answer = release.query(1_000, 30_000)
>>> answer.low < answer.estimate < answer.high
True
>>> print(release.guarantee)
ε = 0.5 per event (exact arithmetic, central model)
"""

import importlib
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from tidegate._version import __version__
from tidegate.keyed import keyed  # now: later, the attribute would be the package of that name
from tidegate.run.more_stages import more_stages as _more_stages

if TYPE_CHECKING:  # at run time everything is imported when it is first asked for: `__getattr__`
    from tidegate import estimate, methods, perturb, plan, synthetic, threshold, units
    from tidegate.errors import (
        InputError,
        QueryError,
        RefusedError,
        SettingError,
        SnapshotError,
        TidegateError,
    )
    from tidegate.guarantee import Guarantee, parallel, sequential
    from tidegate.keyed.keyed_file import open_released as open  # noqa: A004  # as in `tg.open`
    from tidegate.methods._events import event_means, events
    from tidegate.methods.adaptive import adaptive
    from tidegate.methods.adaptive_gaussian import adaptive_gaussian
    from tidegate.methods.banded_root import banded_root
    from tidegate.methods.binary_tree import binary_tree
    from tidegate.methods.budget_absorption import budget_absorption
    from tidegate.methods.budget_distribution import budget_distribution
    from tidegate.methods.fast import fast
    from tidegate.methods.flat import flat
    from tidegate.methods.honaker import honaker
    from tidegate.methods.hybrid_counter import hybrid_counter
    from tidegate.methods.pak import pak
    from tidegate.methods.pak_with_tops_stream import pak_with_tops_stream
    from tidegate.methods.pak_with_tops_threshold import pak_with_tops_threshold
    from tidegate.methods.pegasus import pegasus
    from tidegate.methods.rescue_dp import rescue_dp
    from tidegate.methods.sampling import sampling
    from tidegate.methods.signed_digit_tree import signed_digit_tree
    from tidegate.methods.smooth_binary import smooth_binary
    from tidegate.methods.sparse_partition import sparse_partition
    from tidegate.methods.square_root import square_root
    from tidegate.methods.topl import topl
    from tidegate.methods.tops import tops
    from tidegate.methods.zeros import zeros
    from tidegate.randomness import secure, seeded
    from tidegate.record.answer import Answer
    from tidegate.record.range_queries_and_answers import Answers
    from tidegate.record.record import Record
    from tidegate.released import Released, release
    from tidegate.run.pipeline import Pipeline
    from tidegate.run.release import Release
    from tidegate.run.snapshot import load_record
    from tidegate.run.threshold_schedule_and_reselection import Reselection
    from tidegate.service.client import connect
    from tidegate.timestamps import read_times

__all__ = [
    "Answer",
    "Answers",
    "Guarantee",
    "InputError",
    "Pipeline",
    "QueryError",
    "Record",
    "RefusedError",
    "Release",
    "Released",
    "Reselection",
    "SettingError",
    "SnapshotError",
    "TidegateError",
    "__version__",
    "adaptive",
    "adaptive_gaussian",
    "banded_root",
    "binary_tree",
    "budget_absorption",
    "budget_distribution",
    "connect",
    "estimate",
    "event_means",
    "events",
    "fast",
    "flat",
    "honaker",
    "hybrid_counter",
    "keyed",
    "load_record",
    "methods",
    "open",
    "pak",
    "pak_with_tops_stream",
    "pak_with_tops_threshold",
    "parallel",
    "pegasus",
    "perturb",
    "plan",
    "read_times",
    "release",
    "rescue_dp",
    "sampling",
    "secure",
    "seeded",
    "sequential",
    "signed_digit_tree",
    "smooth_binary",
    "sparse_partition",
    "square_root",
    "synthetic",
    "threshold",
    "topl",
    "tops",
    "units",
    "zeros",
]

# Where names are that are neither modules nor methods.
_HOMES = {
    "Answer": "record.answer",
    "Answers": "record.range_queries_and_answers",
    "Guarantee": "guarantee",
    "InputError": "errors",
    "Pipeline": "run.pipeline",
    "QueryError": "errors",
    "Record": "record.record",
    "RefusedError": "errors",
    "Release": "run.release",
    "Released": "released",
    "Reselection": "run.threshold_schedule_and_reselection",
    "SettingError": "errors",
    "SnapshotError": "errors",
    "TidegateError": "errors",
    "connect": "service.client",
    "event_means": "methods._events",
    "events": "methods._events",
    "load_record": "run.snapshot",
    "parallel": "guarantee",
    "read_times": "timestamps",
    "release": "released",
    "secure": "randomness",
    "seeded": "randomness",
    "sequential": "guarantee",
}
_MODULES = ("estimate", "methods", "perturb", "plan", "synthetic", "threshold", "units")


_more_stages(lambda: importlib.import_module("tidegate.methods").stages())


def __dir__() -> list[str]:
    """The public names only, not modules that happen to be imported."""
    return list(__all__)


def _methods() -> list[str]:
    """The names of the files of `tidegate.methods`, without importing it."""
    return [found.name for found in iter_modules([f"{folder}/methods" for folder in __path__])]


if not TYPE_CHECKING:  # a type checker would believe that every name exists

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used.

        Modules of the package ask for each other here too, so a name that is none must cost little.
        """
        if name in _MODULES:
            found = importlib.import_module(f"tidegate.{name}")
        elif name == "open":
            found = importlib.import_module("tidegate.keyed.keyed_file").open_released
        elif name in _HOMES:
            found = getattr(importlib.import_module(f"tidegate.{_HOMES[name]}"), name)
        elif not name.startswith("_") and name in _methods():
            found = importlib.import_module("tidegate.methods").find(name).preset
        else:
            raise AttributeError(f"module 'tidegate' has no attribute {name!r}")
        globals()[name] = found
        return found
