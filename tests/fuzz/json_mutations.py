"""Messages that are almost right: one thing in a JSON tree is changed, then perhaps a byte."""

import json
import random
from collections.abc import Callable
from copy import deepcopy
from typing import Any

# What has broken parsers before: limits, spellings of numbers, other kinds, depth.
NASTY: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 0.5, -0.0, 1e308, 5e-324, 2**16, 2**31, 2**32, 2**53, 2**53 + 1,
    2**63, 10**30, float("nan"), float("inf"), "", " ", "0", "1", "-1", "1/2", "2/2", "1/0",
    "1e999999999", "9" * 18, "9" * 19, "9" * 400, "NaN", "\x00", "ä", "\ud800", "x" * 128,
    "x" * 129, "x" * 5000, [], [[]], [0], {}, {"form": "value"}, [[1] * 50] * 3,
)  # fmt: skip


def mutated(plain: Any, chance: random.Random) -> str:
    """JSON text of the tree with a few changes."""
    tree = json.loads(json.dumps(plain))
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3))):
        tree = _changed(tree, chance)
    text = json.dumps(tree)
    if not chance.randrange(4):
        text = _respelled(text, chance)
    return text


def broken(data: bytes, chance: random.Random) -> bytes:
    """Bytes of which some are changed, left out, doubled or put elsewhere."""
    result = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        start = chance.randrange(len(result) + 1)
        end = min(len(result), start + chance.choice((1, 1, 2, 8, 100)))
        action = chance.randrange(4)
        if action == 0:
            result[start:end] = chance.randbytes(end - start)
        elif action == 1:
            del result[start:end]
        elif action == 2:
            result[start:start] = result[start:end]
        else:
            result[start:start] = chance.choice((b"[", b"]", b"{", b"}", b'"', b"\\", b",", b"\0"))
    return bytes(result)


def _changed(tree: Any, chance: random.Random) -> Any:
    """The tree with one node changed; a node deep down is as likely as one above."""
    nodes: list[Callable[[Any], None]] = []
    root = [tree]

    def visit(holder: Any, key: Any) -> None:
        nodes.append(lambda value: holder.__setitem__(key, value))
        node = holder[key]
        for inner in list(node) if isinstance(node, dict) else range(_few(node)):
            visit(node, inner)
        if isinstance(node, dict) and node:
            name = chance.choice(list(node))
            nodes.append(lambda _: node.pop(name, None))
            nodes.append(lambda value: node.__setitem__(name + "x", value))
        if isinstance(node, list) and node:
            nodes.append(node.append)
            nodes.append(lambda _: node.pop())
            nodes.append(lambda _: node.extend(node[:50] * 3))

    visit(root, 0)
    chance.choice(nodes)(deepcopy(chance.choice(NASTY)))
    return root[0]


def _few(node: Any) -> int:
    return min(len(node), 4) if isinstance(node, list) else 0


def _respelled(text: str, chance: random.Random) -> str:
    action = chance.randrange(6)
    if action == 0:
        return text.replace("1", "1.0", 1)
    if action == 1:
        return text.replace("0", "-0e0", 1)
    if action == 2:
        return text.replace("{", '{"kind": 1, "kind": 1, ', 1)
    if action == 3:
        return "[" * chance.choice((10, 2000, 100_000)) + text
    if action == 4:
        return text + " " * chance.choice((1, 4096, 300_000))
    return text[: chance.randrange(len(text))]
