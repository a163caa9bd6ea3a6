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

from tidegate import estimate, perturb, plan, synthetic, threshold, units
from tidegate._version import __version__
from tidegate.errors import (
    InputError,
    QueryError,
    RefusedError,
    SettingError,
    SnapshotError,
    TidegateError,
)
from tidegate.guarantee import Guarantee, parallel, sequential
from tidegate.methods.presets import (
    adaptive,
    pak,
    pak_with_tops_stream,
    pak_with_tops_threshold,
    topl,
    tops,
)
from tidegate.randomness import secure, seeded
from tidegate.record.answer import Answer, Answers
from tidegate.record.record import Record
from tidegate.run.pipeline import Pipeline, load_record
from tidegate.run.release import Release
from tidegate.run.reselection import Reselection

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
    "Reselection",
    "SettingError",
    "SnapshotError",
    "TidegateError",
    "__version__",
    "adaptive",
    "estimate",
    "load_record",
    "pak",
    "pak_with_tops_stream",
    "pak_with_tops_threshold",
    "parallel",
    "perturb",
    "plan",
    "secure",
    "seeded",
    "sequential",
    "synthetic",
    "threshold",
    "topl",
    "tops",
    "units",
]


def __dir__() -> list[str]:
    """The public API, and not whatever modules were imported on the way."""
    return list(__all__)
