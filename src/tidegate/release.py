"""The run: raw values in, private values out, online and for ever.

push → lattice → hold-out → Threshold.choose → θ
               → PerturberRun.push → Noisy ║ Publisher → output
                                           ║ Record → query
"""

from __future__ import annotations

import math
from dataclasses import asdict
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn, overload

import numpy as np
from numpy.typing import ArrayLike

from tidegate.answers import Answer, Answers
from tidegate.errors import SnapshotError, TidegateError
from tidegate.guarantee import Guarantee, sequential, simulated
from tidegate.lattice import FloatArray, IntArray
from tidegate.queries import Record
from tidegate.randomness import Epoch, Randomness, secure
from tidegate.sealing import seal, state_of, unseal
from tidegate.settings import digest
from tidegate.stream import Stream

if TYPE_CHECKING:
    from tidegate.pipeline import Pipeline

# Values handled at once: small enough to stay in the cache, large enough to hide fixed costs.
_PIECE = 1 << 16
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
        self._interrupted = False
        self._stream: Stream | None = None
        if threshold is not None:
            self._stream = self._open_stream(threshold)
        elif pipeline.threshold.holdout == 0:
            self._choose_threshold()

    # -- facts -----------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """How many values have been released."""
        return self._stream.record.end if self._stream else self._origin

    @property
    def holding(self) -> int:
        """How many more values the hold-out will take before anything is released."""
        return 0 if self._stream else self.pipeline.threshold.holdout - self._held

    @property
    def threshold(self) -> float | None:
        """θ in the unit of the data; None during the hold-out. Public once chosen."""
        return self._stream.threshold * self._lattice.step if self._stream else None

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
        record = self._released().record
        record.guarantee = str(self.guarantee)
        return record

    def __repr__(self) -> str:
        state = f"threshold={self.threshold:g}" if self._stream else f"holding {self.holding} more"
        return f"<Release position={self.position} {state}; {self.guarantee}>"

    # -- data ------------------------------------------------------------------------------------

    @overload
    def push(self, values: float | Decimal | Fraction | None) -> float | None: ...

    @overload
    def push(self, values: ArrayLike) -> FloatArray: ...

    def push(self, values: Any) -> FloatArray | float | None:
        """Take one value or an array of values; give one private value for each.

        Nothing comes out during the hold-out: None for a single value, an array that is shorter by
        what was held. Splitting a stream into pushes in another way changes nothing (law 1). If an
        input is refused, none of this push was taken.
        """
        kind = type(values)
        if kind is int or kind is float or isinstance(values, _SCALARS):
            return self._push_one(values)
        if isinstance(values, np.ndarray) and values.ndim == 0:
            return self._push_one(values.item())
        numbers = self._lattice.numbers(values, self._seen)
        start = min(self.holding, numbers.size)
        out = np.zeros(numbers.size - start)  # never memory that may hold something else
        self._check_whole()
        self._interrupted = True  # until this push is complete
        self._seen += numbers.size
        if start:
            self._hold(self._lattice.units(numbers[:start]))
        if self._stream is not None:
            for at in range(0, out.size, _PIECE):
                piece = numbers[start + at : start + at + _PIECE]
                self._stream.push(self._lattice.units(piece), out[at : at + piece.size])
        self._interrupted = False
        return out

    def _check_whole(self) -> None:
        """After a push that was cut short, what was published and what was lost is not known."""
        if self._interrupted:
            raise TidegateError(
                "an earlier push was cut short, so what it published is not known: resume the last "
                "snapshot and push exactly the same values again, or start a new release"
            )

    def _push_one(self, value: Any) -> float | None:
        if self._interrupted:
            self._check_whole()
        unit = self._lattice.unit(value, self._seen)
        self._seen += 1
        if self._stream is not None:
            return self._stream.push_one(unit)
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
        interrupted, self._interrupted = self._interrupted, True  # a choice is made once, or never
        keystream = self._epoch.keystream("threshold", digest(self.pipeline.resolved()))
        threshold = self.pipeline.threshold.choose(self._holdout, self._lattice, keystream)
        self._stream = self._open_stream(threshold)
        self._holdout.fill(0)  # raw values are not kept longer than needed
        self._holdout = np.empty(0, dtype=np.int64)
        self._held = 0
        self._interrupted = interrupted

    def _open_stream(self, threshold: int) -> Stream:
        law = repr(self.pipeline.perturber.noise_law(threshold))  # every scale, and where it goes
        identity = digest({**self.pipeline.resolved(), "threshold in units": threshold, "law": law})
        keystream = self._epoch.keystream("perturb", identity)
        perturber = self.pipeline.perturber.start(threshold, keystream)
        return Stream(self.pipeline, threshold, perturber, self._origin, self.epoch, identity)

    # -- answers ---------------------------------------------------------------------------------

    def query(self, start: int, end: int, confidence: float = 0.95) -> Answer:
        """The sum of the released values [start, end), counted from 0, with its interval."""
        return self.record.query(start, end, confidence)

    def queries(self, starts: ArrayLike, ends: ArrayLike, confidence: float = 0.95) -> Answers:
        """Many ranges at once."""
        return self.record.queries(starts, ends, confidence)

    def save_record(self) -> bytes:
        """The record as bytes, to be stored and asked later with `tidegate.load_record`.

        It holds released data and public facts only.
        """
        record = self.record
        body = {
            "settings": self.pipeline.settings(),
            "threshold": self._released().threshold,
            "origin": record.origin,
            "guarantee": record.guarantee,
            "record": state_of(record),
        }
        header = {"content": "record", "epoch": self.epoch, "position": self.position}
        return seal(header, body, key=None)

    def _released(self) -> Stream:
        if self._stream is None:
            raise TidegateError(f"nothing is released yet: the hold-out needs {self.holding} more")
        return self._stream

    # -- state -----------------------------------------------------------------------------------

    def snapshot(self, key: bytes | None = None) -> bytes:
        """The whole state. As secret as the raw data: give a 32-byte key to seal it.

        Single-use: what continues from it continues *this* epoch's noise. Two continuations that
        see different values publish the same noise on both, and their difference is raw data. To
        branch, use `fork`.
        """
        self._check_whole()
        body = {
            "secret": self._epoch.secret,
            "simulation": self._epoch.simulation,
            "seen": self._seen,
            "origin": self._origin,
            "held": self._holdout[: self._held],
            "charges": [_plain_guarantee(item) for item in self._charges],
            "stream": self._stream and self._stream.state(),
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
        stream = body["stream"]
        release = cls(
            pipeline,
            epoch,
            threshold=stream and stream["threshold"],
            origin=body["origin"],
            charges=[_exact_guarantee(item) for item in body["charges"]],
        )
        release._seen = body["seen"]
        if stream:
            release._stream.restore(stream)  # type: ignore[union-attr]  # threshold was given
        elif body["held"].size:
            release._hold(body["held"])
        return release

    def fork(self, randomness: Randomness | None = None) -> Release:
        """Branch safely: a second release from here on, with a new epoch and new noise.

        Both branches may see the same values, so the fork's cost is added to the guarantee of both:
        the stream's ε, or everything while θ is not chosen yet. (If one of them is a simulation,
        none of them has a guarantee. Branches know of each other within one process only; beyond, a
        ledger must add them up.) The fork starts a new forest at the present position; the
        past is answered by the original.
        """
        self._check_whole()
        chosen = self._stream
        epoch = (randomness or secure()).new_epoch()
        spent = self.pipeline.perturber.guarantee if chosen else self.pipeline.guarantee
        self._charges.append(_cost(spent, epoch))
        branch = Release(
            self.pipeline,
            epoch,
            threshold=chosen.threshold if chosen else None,
            origin=self.position,
            charges=self._charges,
        )
        branch._seen = self._seen
        if self._held:
            branch._hold(self._holdout[: self._held])
        return branch

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TidegateError(
            "a release cannot be copied or pickled (two copies would share noise): "
            "use snapshot() to continue it elsewhere, fork() to branch"
        )


def _cost(guarantee: Guarantee, epoch: Epoch) -> Guarantee:
    return simulated(guarantee) if epoch.simulation else guarantee


def _plain_guarantee(guarantee: Guarantee) -> dict[str, Any]:
    return {**asdict(guarantee), "epsilon": str(guarantee.epsilon), "delta": str(guarantee.delta)}


def _exact_guarantee(plain: dict[str, Any]) -> Guarantee:
    epsilon = math.inf if plain["epsilon"] == "inf" else Fraction(plain["epsilon"])
    return Guarantee(**{**plain, "epsilon": epsilon, "delta": Fraction(plain["delta"])})
