"""Key policies: which rotations a path of steps becomes, and the tree that shares common prefixes.

direct    one key per distinct total step;
composed  a path is walked: each partial step has its key, common prefixes are rotated once;
binary    each partial step is split into signed powers of two, so about 2·log2(S) keys serve everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, Union, get_args

from cipherblas.common.errors import ParameterError, nearest_choice

# A rotation: a number of slots, or the partial steps whose sum is meant (walked one by one under the key
# policies that compose rotations).
Step: TypeAlias = Union[int, "tuple[int, ...]"]


KeyPolicy = Literal["direct", "composed", "binary"]
KEY_POLICIES: tuple[KeyPolicy, ...] = get_args(KeyPolicy)
Path = tuple[int, ...]


def check_policy(policy: str) -> None:
    """Raise ParameterError for an unknown policy."""
    if policy not in KEY_POLICIES:
        raise ParameterError(
            "There is no such key policy.",
            expected=" | ".join(KEY_POLICIES),
            got=policy,
            advice=nearest_choice("key_policy", policy, KEY_POLICIES),
        )


def rotation_steps(elements: Iterable[int], n: int) -> list[int]:
    """The steps, from -N/4 to N/4 and in order, of the Galois elements 5^step mod 2N among `elements`."""
    wanted, slots, power, found = set(elements), n // 2, 1, []
    for step in range(slots):
        if power in wanted:
            found.append(step if step <= slots // 2 else step - slots)
        power = 5 * power % (2 * n)
    return sorted(found)


def signed_powers(step: int, slots: int) -> Path:
    """The non-adjacent form of `step` modulo `slots` (a power of two), largest power first."""
    step %= slots
    if step > slots // 2:
        step -= slots
    powers = []
    bit = 1
    while step:
        if step & 1:
            digit = 2 - (step & 3)  # 1 or -1
            step -= digit
            powers.append(digit * bit % slots)
        step >>= 1
        bit <<= 1
    return tuple(reversed([power for power in powers if power]))


def expand(step: Step, policy: str, slots: int) -> Path:
    """The rotations, each in 1 … slots - 1, that perform `step` under a policy; empty for the identity."""
    if policy == "direct":
        total = total_step(step) % slots
        return (total,) if total else ()
    parts: Sequence[int] = step if isinstance(step, tuple) else (step,)
    if policy == "binary":
        return tuple(power for part in parts for power in signed_powers(part, slots))
    return tuple(part % slots for part in parts if part % slots)


@dataclass
class Node:
    """A point of the tree of rotations; the edges are single rotations."""

    path: Path
    wanted: bool = False
    children: dict[int, Node] = field(default_factory=dict)


def rotation_tree(paths: Iterable[Path]) -> Node:
    """The prefix tree of the paths; `wanted` marks their ends."""
    root = Node(())
    for path in paths:
        node = root
        for depth, step in enumerate(path):
            child = node.children.get(step)
            if child is None:
                child = node.children[step] = Node(path[: depth + 1])
            node = child
        node.wanted = True
    return root


def total_step(step: Step) -> int:
    """The number of slots that a step or a path rotates by."""
    return sum(step) if isinstance(step, tuple) else step
