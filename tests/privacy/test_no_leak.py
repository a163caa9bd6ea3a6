"""No error, repr or copy carries a raw value, a partial sum or the secret."""

import copy
import pickle
import re
import traceback
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tidegate.randomness import Epoch, Keystream
from tidegate.stages import Noisy

SECRET = "4711"


class Odd:
    def __repr__(self):
        return "Odd(4711)"

    __str__ = __repr__


REFUSED = {
    "string": "secret-4711",
    "numeric string": "4711",
    "bytes": b"secret-4711",
    "complex": 4711j,
    "object": Odd(),
    "signalling": Decimal("sNaN4711"),
    "dictionary": {"v": 4711},
    "set": {4711},
    "list of strings": [1, "secret-4711"],
    "list of numeric strings": ["1", "4711"],
    "list of bytes": [b"4711"],
    "list of objects": [1, Odd()],
    "list of signalling": [1, Decimal("sNaN4711")],
    "list of complex": [1, 4711j],
    "ragged": [[4711], [1, 4711]],
    "nested": [[4711, 4711]],
    "table": np.full((2, 2), 4711),
    "string array": np.array(["4711"]),
    "object array": np.array([1, "4711"], dtype=object),
    "date": np.datetime64("4711-01-01"),
    "dates": np.array(["4711-01-01"], dtype="M8[s]"),
    "structure": np.array([(4711,)], dtype=[("v", "i8")]),
    "duration": np.timedelta64(4711, "s"),
    "durations": [np.timedelta64(4711, "s")],
    "generator": (value for value in [4711]),
}


def everything_said(error: BaseException) -> str:
    """What a log would show, chained errors too, without the lines of this file."""
    chain, text = error, []
    while chain is not None:
        text += [str(chain), repr(chain), repr(chain.args)]
        chain = chain.__cause__ or chain.__context__
    shown = "".join(traceback.format_exception(error))
    text.append(re.sub(r'  File "[^"]*", line \d+.*\n(    .*\n)*', "", shown))
    return "\n".join(text)


@pytest.mark.parametrize("kind", REFUSED)
def test_a_refused_input_is_not_shown(tools, kind):
    # Catches: numpy's and float()'s own messages, which quote their argument.
    release = tools.pipeline().start()
    release.push([1, 2])
    with pytest.raises(tg.InputError) as caught:
        release.push(REFUSED[kind])
    assert SECRET not in everything_said(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    assert SECRET not in repr(release)


def test_the_scan_finds_a_quoted_value():
    # The planted fault: float's error, unmasked.
    with pytest.raises(ValueError, match="4711") as caught:
        float("secret-4711")
    assert SECRET in everything_said(caught.value)
    with pytest.raises(tg.InputError) as chained:
        raise tg.InputError("value at position 3 is not a number") from caught.value
    assert SECRET in everything_said(chained.value)


def test_a_refused_push_takes_nothing(tools):
    first, second = (tools.pipeline().start(tg.seeded(4)) for _ in range(2))
    for release in (first, second):
        release.push([1.0, 2.0, 3.0])
    with pytest.raises(tg.InputError, match="position 5"):
        first.push([4, 5, "6"])
    assert np.array_equal(first.push(np.arange(100)), second.push(np.arange(100)))


NUMBERS = {
    "nan": float("nan"),
    "none": None,
    "infinite": float("inf"),
    "minus infinite": float("-inf"),
    "huge": 10**5000,
    "minus huge": -(10**5000),
    "huge decimal": Decimal("1e9999"),
    "quiet decimal": Decimal("NaN"),
    "huge fraction": Fraction(10**5000, 3),
    "tiny fraction": Fraction(1, 10**5000),
    "denormal": 5e-324,
    "largest": 1.7976931348623157e308,
    "bool": True,
    "numpy bool": np.True_,
    "uint64": np.uint64(2**64 - 1),
    "int64": np.int64(-(2**63)),
    "float16": np.float16(5),
    "long double": np.longdouble("1e4000"),
    "signalling": np.array([0x7FF0000000000001], dtype=np.uint64).view(np.float64)[0],
}


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("resolution", [1, "0.01", 7])
def test_no_number_is_an_event(tools, kind, resolution):
    # Neither an error nor a warning may tell a number from another: alone, in a list, in an array.
    pipeline = tools.pipeline(resolution=resolution)
    value = NUMBERS[kind]
    arrays = [[value], [1, value]]
    if isinstance(value, float | np.generic):
        arrays += [np.array([value, value]), np.array([value], dtype=object)]
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert pipeline.start().push(value) is not None
        for array in arrays:
            assert len(pipeline.start().push(array)) == len(array)


def test_masked_values_count_as_zero_in_their_place(tools):
    for kind in (np.int64, np.float64, object):
        masked = np.ma.array([4711, 4711, 1], mask=[True, False, False], dtype=kind)
        first, second = (tools.pipeline().start(tg.seeded(1)) for _ in range(2))
        assert np.array_equal(first.push(masked), second.push([0, 4711, 1]))


# -- what is printed ----------------------------------------------------------------------------


def shown(*things) -> str:
    """What they print, without the addresses of objects, which may look like anything."""
    return re.sub(r"0x[0-9a-f]+", "", "\n".join(f"{thing!r} {thing}" for thing in things))


def test_nothing_printed_carries_a_value(tools):
    pipeline = tg.Pipeline(
        threshold=tg.threshold.NoisyMax(
            epsilon=9, bound=9999, holdout=4, horizon=64, scale=10**9, step=2000
        ),
        perturber=tg.perturb.Hierarchy(epsilon=1, horizon=64, fanout=4, skipped=2),
    )
    release = pipeline.start(tg.seeded(1))
    for _ in range(3):
        release.push(4711)
    assert SECRET not in shown(release)
    with pytest.raises(tg.TidegateError) as caught:
        release.query(0, 1)
    assert SECRET not in everything_said(caught.value)
    release.push([4711, 4711])  # one in the hold-out, one in the open block
    assert release.threshold > 4711  # hence the open block's sum is 4711
    assert SECRET not in shown(release, release.guarantee, release.record, release._run.stream)
    with pytest.raises(tg.QueryError) as caught:
        release.query(0, 100)
    assert SECRET not in everything_said(caught.value)


def test_the_secret_is_never_printed(tools):
    release = tools.pipeline().start()
    release.push(np.arange(7))
    epoch = release._epoch
    marks = [epoch.secret.hex(), repr(epoch.secret), str(list(epoch.secret))]
    keystream = epoch.keystream("perturb", b"x")
    shown = [
        repr(thing)
        for thing in (
            release,
            epoch,
            keystream,
            keystream.at(),
            release.pipeline,
            release._run.stream,
        )
    ]
    shown += [str(release), str(epoch), f"{epoch}", release.epoch]
    assert not any(mark in text for mark in marks for text in shown)
    assert "secret" not in repr(epoch)
    assert isinstance(keystream, Keystream)
    assert isinstance(epoch, Epoch)


def test_specifications_print_settings_only():
    stage = tg.perturb.Hierarchy(epsilon="1/3", horizon=10, fanout=2, skipped=0)
    expected = (
        "Hierarchy(epsilon=1/3, horizon=10, fanout=2, skipped=0, levels=None, shares=None, "
        "consistent=True)"
    )
    assert repr(stage) == str(stage) == expected
    stage.noise_law(5)
    assert repr(stage) == expected  # what was computed on the way is not shown


def test_the_barrier_holds_released_sums_only(tools):
    # Zero noise is the only difference between `Noisy` and the truth: look that there is noise.
    release = tools.pipeline().start(tg.seeded(1))
    perturber = release._run.stream._perturber
    noisy = perturber.push(np.full(64, 4711))
    assert isinstance(noisy, Noisy)
    assert SECRET not in shown(perturber)
    assert len(set(noisy.sums.tolist())) > 5


# -- copies -------------------------------------------------------------------------------------


@pytest.mark.parametrize("pushed", [0, 2, 9])
@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, pickle.dumps, lambda r: pickle.dumps({"r": [r]}, 2)]
)
def test_a_release_cannot_be_copied(duplicate, pushed):
    # Two copies would put the same noise on different values.
    pipeline = tg.Pipeline(
        threshold=tg.threshold.NoisyMax(epsilon=1, bound=9999, holdout=4, horizon=64),
        perturber=tg.perturb.Flat(epsilon=1, horizon=64),
    )
    release = pipeline.start()
    release.push(np.full(pushed, 4711))
    with pytest.raises(tg.TidegateError, match="fork") as caught:
        duplicate(release)
    assert SECRET not in everything_said(caught.value)


# -- a push that failed -------------------------------------------------------------------------


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_an_interrupted_choice_of_the_threshold_releases_nothing(monkeypatch, error, one_by_one):
    # Catches: `np.empty` returned as it is: memory that held the raw values a moment ago.
    pipeline = tg.Pipeline(
        threshold=tg.threshold.NoisyMax(epsilon=1, bound=9999, holdout=4, horizon=64),
        perturber=tg.perturb.Flat(epsilon=1, horizon=64),
    )
    release = pipeline.start()

    def fails(*_):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(tg.threshold.NoisyMax, "choose", fails)
        for _ in range(3 if one_by_one else 0):
            release.push(4711)
        with pytest.raises(error):
            release.push(4711 if one_by_one else np.full(4, 4711))
    for values in (np.full(50, 4711.0), [4711.0], 4711):
        for _ in range(3):
            _ = (
                np.full(50, 4711.0) * 1.0
            )  # freed at once: the next array of this size is this memory
            try:
                out = release.push(values)
            except tg.TidegateError:
                continue  # refusing is fine
            assert release.threshold is not None  # or the choice was made after all
            assert not np.any(np.asarray(out) == 4711.0)
    assert SECRET not in repr(release)


SMOOTHERS = [kind for kind in tg.estimate.__all__ if getattr(tg.estimate, kind).adds_up]


class Marked:
    """numpy whose fresh arrays of floats are full of NaN."""

    def __getattr__(self, name):
        return getattr(np, name)

    def empty(self, shape, dtype=np.float64, **settings):
        made = np.empty(shape, dtype=dtype, **settings)
        made.fill(np.nan if made.dtype.kind == "f" else 0)
        return made

    zeros = empty


@pytest.mark.parametrize("non_negative", [False, True])
@pytest.mark.parametrize("estimator", SMOOTHERS)
@pytest.mark.parametrize("block", [1, 2, 5])
def test_every_published_number_was_written(monkeypatch, estimator, block, non_negative):
    # Catches: a slice of the output that no branch fills, hence old memory.
    monkeypatch.setattr("tidegate.run.release.np", Marked())  # where the output is made
    pipeline = tg.Pipeline(
        threshold=tg.threshold.NoisyMax(epsilon=1, bound=9999, holdout=4, horizon=64),
        perturber=tg.perturb.Flat(epsilon=1, horizon=13, block=block),
        estimator=getattr(tg.estimate, estimator)(),
        non_negative=non_negative,
    )
    release = pipeline.start(tg.seeded(2))
    for size in (0, 1, 2, 3, 4, 0, 1, 5, 6, 7, 11, 40, 1, 1, 1):
        assert not np.isnan(release.push(np.full(size, 4711.0))).any()
