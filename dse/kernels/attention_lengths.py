"""Batches of sequences of unequal length, reduced to a few classes of equal ones."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

from ..errors import UserError

Lengths: TypeAlias = tuple[tuple[int, int], ...]  # (sequences, tokens each), the longest first
CLASSES_MAX = 4  # the model is compiled for each of them


def read_lengths(text: str, batch: int, longest: int) -> Lengths:
    """The classes of a list such as "4096,1024*3".

    Args:
        text: lengths, with `*COUNT` where several sequences have one.
        batch: sequences there must be.
        longest: of them.

    Raises:
        UserError: an entry that is no length, or a list that does not match batch and longest.
    """
    counted: Counter[int] = Counter()
    for entry in text.split(","):
        found = re.fullmatch(r"\s*(\d+)\s*(?:\*\s*(\d+)\s*)?", entry)
        if found is None or int(found[1]) < 1 or int(found[2] or 1) < 1:
            raise UserError(f"lengths = {text!r}: {entry!r} is no length; write e.g. 4096,1024*3")
        counted[int(found[1])] += int(found[2] or 1)
    if sum(counted.values()) != batch or max(counted) != longest:
        raise UserError(
            f"lengths = {text!r} are {sum(counted.values())} sequences of at most {max(counted)} tokens; the shape "
            f"says {batch} of {longest}: the batch is the number of sequences, Q the longest"
        )
    return grouped(sorted(counted.items(), reverse=True))


def spread_lengths(batch: int, longest: int, spread: float) -> Lengths:
    """Three lengths a third of the sequences each, as far apart as the standard deviation over the mean says; the
    longest is the shape's."""
    if batch < 2 or spread <= 0.0:
        return ((batch, longest),)
    apart = spread * 1.5**0.5 if batch > 2 else spread  # two or three equally frequent lengths, mean +- apart
    outer = max(batch // 3, 1)
    middle = batch - 2 * outer
    mean = longest / (1.0 + apart)
    shortest = max(round(mean * (1.0 - apart)), 1)
    classes = [(outer, longest), (middle, max(round(mean), 1)), (outer, shortest)]
    return tuple((count, tokens) for count, tokens in classes if count > 0)


def grouped(counted: Sequence[tuple[int, int]]) -> Lengths:
    """At most `CLASSES_MAX` classes: the longest length as it is, the others in groups of about as many tokens, each
    at the mean length that keeps their tokens.

    Args:
        counted: (tokens, sequences), the longest first.
    """
    if len(counted) <= CLASSES_MAX:
        return tuple((count, tokens) for tokens, count in counted)
    (longest, of_longest), *rest = counted
    share = sum(tokens * count for tokens, count in rest) / (CLASSES_MAX - 1)
    groups: list[list[int]] = [[0, 0] for _ in range(CLASSES_MAX - 1)]  # sequences, their tokens
    passed = 0
    for tokens, count in rest:
        group = groups[min(int(passed / share), CLASSES_MAX - 2)]
        group[0] += count
        group[1] += tokens * count
        passed += tokens * count
    means = [(count, max(round(tokens / count), 1)) for count, tokens in groups if count]
    return ((of_longest, longest), *means)
