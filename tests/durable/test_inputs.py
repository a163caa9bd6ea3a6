"""The digests that tell whether an input was seen before, and tell nothing else."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.durable.input_digests import SPAN, InputDigests, InputRecogniser
from tidegate.state_as_bytes import restore, state_of

KEY = bytes(range(32))


def digests_of(values, users=None, pieces=(), key=KEY, top=1000):
    digests, out, at = InputDigests(key, top), b"", 0
    for end in (*sorted(pieces), len(values)):
        out += digests.push(values[at:end], None if users is None else users[at:end])
        at = end
    return digests, out


def recognised(again, remembered, out, pieces=(), users=None):
    recogniser, at = InputRecogniser(remembered, out), 0
    for end in (*sorted(pieces), len(again)):
        part = None if users is None else users[at:end]
        if not recogniser.push(again[at:end], part):
            return False
        at = end
    return not recogniser.left


@pytest.mark.parametrize("count", [0, 1, 5, SPAN - 1, SPAN, SPAN + 1, 3 * SPAN + 77])
@given(data=st.data())
def test_how_the_input_was_split_does_not_matter(count, data):
    values = np.random.default_rng(count).integers(0, 1000, count)
    cuts = st.lists(st.integers(0, count), max_size=5)
    whole, out = digests_of(values)
    other, same = digests_of(values, pieces=data.draw(cuts))
    assert out == same
    assert np.array_equal(whole.tail, other.tail)
    assert whole.seen == other.seen == count
    assert recognised(values, whole, out, data.draw(cuts))


@pytest.mark.parametrize("count", [1, 700, SPAN, 2 * SPAN + 500])
def test_every_changed_value_is_noticed(count):
    values = np.random.default_rng(1).integers(0, 1000, count)
    digests, out = digests_of(values)
    for place in {0, count // 3, count // 2, count - 1}:
        changed = values.copy()
        changed[place] ^= 1
        assert not recognised(changed, digests, out)


def test_swapped_stretches_and_values_are_noticed():
    values = np.random.default_rng(1).integers(0, 1000, 3 * SPAN)
    digests, out = digests_of(values)
    swapped = np.concatenate((values[SPAN : 2 * SPAN], values[:SPAN], values[-SPAN:]))
    assert not recognised(swapped, digests, out)
    shifted = np.concatenate((values[1:], values[:1]))
    assert not recognised(shifted, digests, out)


@pytest.mark.parametrize("fill", [0, 1000])
def test_constant_inputs_are_told_apart_by_length_only(fill):
    values = np.full(2 * SPAN + 3, fill)
    digests, out = digests_of(values)
    assert out[:16] != out[16:32]  # equal spans do not show that they are equal
    assert recognised(values, digests, out)
    assert not recognised(values[:-1], digests, out)


@pytest.mark.parametrize("top", [1, 255, 256, 65535, 65536, (1 << 32) - 1, 1 << 32, (1 << 53) - 1])
def test_values_of_any_width_are_covered_whole(top):
    values = np.zeros(SPAN, dtype=np.int64)
    outs = {digests_of(values, top=top)[1]}
    for value in {1, top // 2 + 1, top}:
        values[5] = value
        outs.add(digests_of(values, top=top)[1])
    assert len(outs) == 1 + len({1, top // 2 + 1, top})


def test_users_are_part_of_the_input():
    values = np.zeros(SPAN + 9, dtype=np.int64)
    users = [f"user {index}" for index in range(values.size)]
    digests, out = digests_of(values, users)
    assert recognised(values, digests, out, users=users)
    for place in (0, SPAN - 1, SPAN + 8):
        other = [*users]
        other[place] = "someone else"
        assert not recognised(values, digests, out, users=other)
    # Moving a letter from one name to the next changes the digest too.
    joined, _ = digests_of(values, ["ab", "c", *users[2:]])
    assert not recognised(values, joined, _, users=["a", "bc", *users[2:]])


def test_users_may_have_odd_names():
    values = np.zeros(4, dtype=np.int64)
    users = ["\U0001f600", "$int", "", 'é, "ü"']
    digests, out = digests_of(values, users)
    assert recognised(values, digests, out, users=users)


def test_without_the_key_nothing_can_be_tested():
    values = np.zeros(SPAN, dtype=np.int64)
    assert digests_of(values)[1] != digests_of(values, key=bytes(32))[1]


def test_the_state_goes_on():
    values = np.random.default_rng(3).integers(0, 1000, 2 * SPAN + 100)
    whole, out = digests_of(values)
    first, start = digests_of(values[:1500])
    again = first.empty()
    restore(again, state_of(first))
    assert start + again.push(values[1500:]) == out
    assert np.array_equal(again.tail, whole.tail)


def test_the_guide_says_how_many_raw_values_are_kept():
    """The documented number of raw values in the state is the one in the code."""
    guide = Path(__file__).parents[2] / "docs" / "guides" / "durable.md"
    assert f"up to {SPAN - 1:,}, one by one" in guide.read_text(encoding="utf-8")
