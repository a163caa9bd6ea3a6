"""The run: raw values in, private values out, online and for ever.

push → lattice → hold-out → Threshold.choose → θ
               → PerturberRun.push → Noisy ║ Publisher → output
                                           ║ Record → query
"""

from __future__ import annotations

import math
import os
import threading
from dataclasses import asdict
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn, overload
from weakref import WeakSet

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tidegate.answers import Answer, Answers
from tidegate.errors import InputError, SnapshotError, TidegateError
from tidegate.guarantee import Guarantee, sequential, simulated
from tidegate.lattice import FloatArray, IntArray
from tidegate.phases import Phase, Phases, Piece, segment_state
from tidegate.queries import Record
from tidegate.randomness import Epoch, Randomness, secure
from tidegate.sealing import restore, seal, state_of, unseal
from tidegate.settings import digest
from tidegate.units import UserCap, UserHorizon, checked_users

if TYPE_CHECKING:
    from tidegate.pipeline import Pipeline

# Values handled at once: small enough to stay in the cache, large enough to hide fixed costs.
_PIECE = 1 << 16
_CUT_SHORT = (
    "an earlier push was cut short, so what it published is not known: resume the last snapshot "
    "and push exactly the same values again, or start a new release"
)
_COPIED = (
    "this process was forked, and the release with it: only the parent may go on, or two streams "
    "would share noise"
)
_SCALARS = (np.generic, Decimal, Fraction, str, bytes, type(None), bool)


class Release:
    """A pipeline at work on one stream. Made by `Pipeline.start`, `Pipeline.resume` or `fork`.

    Holds raw values (the hold-out, the open block's sum) and the noise key: as secret as the data.
    Its `repr` shows public facts only; it can be neither pickled nor copied.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        epoch: Epoch,
        *,
        threshold: int | None = None,
        origin: int = 0,
        charges: list[Guarantee] | None = None,
    ) -> None:
        self.pipeline = pipeline
        self._epoch = epoch
        self._lattice = pipeline.lattice
        # Shared by all branches of one source; the first entry is the original release.
        self._charges = [_cost(pipeline.guarantee, epoch)] if charges is None else charges
        self._origin = origin
        self._seen = origin  # inputs taken, the hold-out included
        self._holdout: IntArray = np.empty(0, dtype=np.int64)  # room for it, once needed
        self._held = 0  # how many values are in it
        self._lock = threading.Lock()  # two threads in one push would share noise
        self._refusal: str | None = None  # why nothing more can be released
        self._journalled = False  # someone keeps a journal
        unit = pipeline.unit
        self._cap = UserCap(unit.most) if isinstance(unit, UserHorizon) else None
        self._run: Phases | None = None
        _releases.add(self)
        if threshold is not None:
            self._run = Phases(pipeline, epoch, threshold, origin)
        elif pipeline.threshold.holdout == 0:
            self._choose_threshold()

    # -- facts -----------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """How many values have been released."""
        return self._run.position if self._run else self._origin

    @property
    def seen(self) -> int:
        """How many values have been taken, the hold-out included."""
        return self._seen

    @property
    def holding(self) -> int:
        """How many more values the hold-out will take before anything is released."""
        return 0 if self._run else self.pipeline.threshold.holdout - self._held

    @property
    def threshold(self) -> float | None:
        """θ in the unit of the data; None during the hold-out. Public once chosen."""
        return self._run.phases[-1].threshold if self._run else None

    @property
    def phases(self) -> list[Phase]:
        """The thresholds within the history: from which position on, and in which epoch."""
        return list(self._run.phases) if self._run else []

    @property
    def epoch(self) -> str:
        """The public id of this run's noise."""
        return self._epoch.id.hex()

    @property
    def guarantee(self) -> Guarantee:
        """What is promised to every value of the source, forks included."""
        return sequential(*self._charges)

    @property
    def record(self) -> Record:
        """The released block sums that queries are answered from."""
        return Record(self._released().segments, str(self.guarantee))

    def __repr__(self) -> str:
        state = f"threshold={self.threshold:g}" if self._run else f"holding {self.holding} more"
        return f"<Release position={self.position} {state}; {self.guarantee}>"

    # -- data ------------------------------------------------------------------------------------

    @overload
    def push(
        self, values: float | Decimal | Fraction | None, users: Any = None
    ) -> float | None: ...

    @overload
    def push(self, values: ArrayLike, users: Any = None) -> FloatArray: ...

    def push(self, values: Any, users: Any = None) -> FloatArray | float | None:
        """Take one value or an array of values; give one private value for each.

        Nothing comes out during the hold-out: None for a single value, an array that is shorter by
        what was held. Splitting a stream into pushes in another way changes nothing (law 1). If an
        input is refused, none of this push was taken. `users` names who sent each value; needed if,
        and only if, the pipeline protects users.
        """
        kind = type(values)
        with self._lock:
            if kind is int or kind is float or isinstance(values, _SCALARS):
                return self._push_one(values, users)
            if isinstance(values, np.ndarray) and values.ndim == 0:
                return self._push_one(values.item(), users)
            return self._push_array(values, users)

    def _push_array(self, values: Any, users: Any) -> FloatArray:
        numbers = self._lattice.numbers(values, self._seen)
        if self._cap is not None:
            users = checked_users(users, numbers.size)
        elif users is not None:
            raise InputError("this pipeline does not protect users: push the values alone")
        self._check_whole()
        start = min(self.holding, numbers.size)
        out = np.zeros(numbers.size - start)  # never memory that may hold something else
        self._refusal = _CUT_SHORT  # until this push is complete
        self._seen += numbers.size
        if start:
            self._hold(self._units(numbers, users, 0, start, window=0))
        at = start
        while self._run is not None and at < numbers.size:
            window, room = divmod(self.position - self._origin, self.pipeline.perturber.horizon)
            most = self.pipeline.perturber.horizon - room if self._cap else _PIECE
            end = at + self._run.reach(min(_PIECE, most, numbers.size - at))
            units = self._units(numbers, users, at, end, window=1 + window)
            self._run.push(units, out[at - start : end - start])
            at = end
        self._refusal = None
        return out

    def _units(
        self, numbers: NDArray[Any], users: Any, start: int, end: int, window: int
    ) -> IntArray:
        units = self._lattice.units(numbers[start:end])
        return units if self._cap is None else self._cap.apply(units, users[start:end], window)

    def _check_whole(self) -> None:
        if self._refusal is not None:
            raise TidegateError(self._refusal)

    def _push_one(self, value: Any, user: Any) -> float | None:
        if self._refusal is not None:
            self._check_whole()
        unit = self._lattice.unit(value, self._seen)
        if self._cap is not None or user is not None:
            out = self._push_array([value], None if user is None else [user])
            return out.item() if out.size else None
        self._seen += 1
        if self._run is not None:
            return self._run.push_one(unit)
        self._hold(np.array([unit]))
        return None

    def _hold(self, units: IntArray) -> None:
        """Keep values for the choice of θ; choose when there are enough."""
        if not self._holdout.size:
            self._holdout = np.zeros(self.pipeline.threshold.holdout, dtype=np.int64)
        self._holdout[self._held : self._held + units.size] = units
        self._held += units.size
        if not self.holding:
            self._choose_threshold()

    def _choose_threshold(self) -> None:
        before, self._refusal = self._refusal, _CUT_SHORT  # a choice is made once, or never
        keystream = self._epoch.keystream("threshold", digest(self.pipeline.resolved()))
        threshold = self.pipeline.threshold.choose(self._holdout, self._lattice, keystream)
        self._run = Phases(self.pipeline, self._epoch, threshold, self._origin)
        self._run.log = [] if self._journalled else None
        self._holdout.fill(0)  # raw values are not kept longer than needed
        self._holdout = np.empty(0, dtype=np.int64)
        self._held = 0
        self._refusal = before

    # -- answers ---------------------------------------------------------------------------------

    def query(
        self, start: int, end: int, confidence: float = 0.95, *, as_of: int | None = None
    ) -> Answer:
        """The sum of the released values [start, end), counted from 0, with its interval.

        `as_of=t`: as it would have been answered when t values were released.
        """
        return self.record.query(start, end, confidence, as_of=as_of)

    def queries(
        self,
        starts: ArrayLike,
        ends: ArrayLike,
        confidence: float = 0.95,
        *,
        as_of: int | None = None,
    ) -> Answers:
        """Many ranges at once."""
        return self.record.queries(starts, ends, confidence, as_of=as_of)

    def save_record(self) -> bytes:
        """The record as bytes, to be stored and asked later with `tidegate.load_record`.

        It holds released data and public facts only.
        """
        record = self.record
        body = {
            "settings": self.pipeline.settings(),
            "guarantee": record.guarantee,
            "segments": [segment_state(segment) for segment in record.segments],
        }
        header = {"content": "record", "epoch": self.epoch, "position": self.position}
        return seal(header, body, key=None)

    def _released(self) -> Phases:
        if self._run is None:
            raise TidegateError(f"nothing is released yet: the hold-out needs {self.holding} more")
        return self._run

    # -- state -----------------------------------------------------------------------------------

    def snapshot(self, key: bytes | None = None, *, brief: bool = False) -> bytes:
        """The whole state. As secret as the raw data: give a 32-byte key to seal it.

        Single-use: what continues from it continues *this* epoch's noise. Two continuations that
        see different values publish the same noise on both, and their difference is raw data. To
        branch, use `fork`. A `brief` snapshot leaves out the record of the past: it goes on alike,
        but can be asked only about what comes.
        """
        with self._lock:
            return self._snapshot(key, brief)

    def _snapshot(self, key: bytes | None, brief: bool) -> bytes:
        self._check_whole()
        body = {
            "secret": self._epoch.secret,
            "simulation": self._epoch.simulation,
            "seen": self._seen,
            "origin": self._origin,
            "held": self._holdout[: self._held],
            "charges": [_plain_guarantee(item) for item in self._charges],
            "cap": self._cap and state_of(self._cap),
            "run": self._run and self._run.state(brief),
        }
        header = {
            "content": "snapshot",
            "settings": digest(self.pipeline.settings()).hex(),
            "epoch": self.epoch,
            "position": self.position,
        }
        return seal(header, body, key)

    @classmethod
    def _resumed(cls, pipeline: Pipeline, data: bytes, key: bytes | None) -> Release:
        header, body = unseal(data, key)
        if header.get("content") != "snapshot":
            raise SnapshotError("this is not a snapshot of a release")
        if header["settings"] != digest(pipeline.settings()).hex():
            raise SnapshotError("it belongs to a pipeline with other settings")
        epoch = Epoch(body["secret"], bytes.fromhex(header["epoch"]), body["simulation"])
        charges = [_exact_guarantee(item) for item in body["charges"]]
        release = cls(pipeline, epoch, origin=body["origin"], charges=charges)
        release._seen = body["seen"]
        if release._cap is not None:
            restore(release._cap, body["cap"])
        if body["run"]:
            release._run = Phases.resumed(pipeline, epoch, body["origin"], body["run"])
        elif body["held"].size:
            release._hold(body["held"])
        return release

    def fork(self, randomness: Randomness | None = None) -> Release:
        """Branch safely: a second release from here on, with a new epoch and new noise.

        Both branches may see the same values, so the fork's cost is added to the guarantee of both:
        the stream's ε, or everything while θ is not chosen yet. (If one of them is a simulation,
        none of them has a guarantee. Branches know of each other within one process only; beyond, a
        ledger must add them up.) The fork starts a new forest at the present position; the past is
        answered by the original.
        """
        with self._lock:
            return self._fork(randomness)

    def _fork(self, randomness: Randomness | None) -> Release:
        self._check_whole()
        epoch = (randomness or secure()).new_epoch()
        run = self._run
        spent = self.pipeline.stream_guarantee if run else self.pipeline.guarantee
        self._charges.append(_cost(spent, epoch))
        branch = Release(
            self.pipeline,
            epoch,
            threshold=run.stream.threshold if run else None,
            origin=self.position,
            charges=self._charges,
        )
        branch._seen = self._seen
        if self._held:
            branch._hold(self._holdout[: self._held])
        return branch

    def journalled(self) -> list[Piece]:
        """What was released since this was last asked, for a journal; the first call begins."""
        run = self._run
        if run is None:
            self._journalled = True
            return []
        pieces, run.log = run.log or [], []
        return pieces

    def derived_key(self, purpose: str) -> bytes:
        """A key for what belongs to this run (journals, digests); it tells nothing of the noise."""
        return self._epoch.derived_key(purpose)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TidegateError(
            "a release cannot be copied or pickled (two copies would share noise): "
            "use snapshot() to continue it elsewhere, fork() to branch"
        )


# A forked process inherits the noise of every release; it must not use it a second time.
_releases: WeakSet[Release] = WeakSet()


def _disown() -> None:
    for release in _releases:
        release._refusal = _COPIED


if hasattr(os, "register_at_fork"):  # where processes fork at all
    os.register_at_fork(after_in_child=_disown)


def _cost(guarantee: Guarantee, epoch: Epoch) -> Guarantee:
    return simulated(guarantee) if epoch.simulation else guarantee


def _plain_guarantee(guarantee: Guarantee) -> dict[str, Any]:
    return {**asdict(guarantee), "epsilon": str(guarantee.epsilon), "delta": str(guarantee.delta)}


def _exact_guarantee(plain: dict[str, Any]) -> Guarantee:
    epsilon = math.inf if plain["epsilon"] == "inf" else Fraction(plain["epsilon"])
    return Guarantee(**{**plain, "epsilon": epsilon, "delta": Fraction(plain["delta"])})
