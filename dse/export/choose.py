"""Which schedules are exported: the first that the target can express, filtered before they are cut."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from .entry import Entry

Made = TypeVar("Made")
Group = Callable[[Entry], Hashable]


@dataclass(frozen=True)
class Chosen(Generic[Made]):
    """What is exported.

    Attributes:
        made: each schedule with what the target calls it, in the order given.
        skipped: why others that were looked at are not there -> how many, the most frequent first.
        from_fallback: how many of `made`, the last ones, come from the fallback.
        repeated: how many others are of the group of one that is there.
    """

    made: "list[tuple[Entry, Made]]"
    skipped: dict[str, int]
    from_fallback: int
    repeated: int = 0


def choose(
    entries: Sequence[Entry],
    express: "Callable[[Entry], Made | str]",
    count: int | None = None,
    fallback: Sequence[Entry] = (),
    group: Group | None = None,
) -> "Chosen[Made]":
    """The first `count` entries that the target can express.

    Args:
        entries: best first.
        express: the entry in the target's words, or, as text, what the target cannot say.
        count: how many; None: all of `entries`.
        fallback: further entries, best first, looked at where `entries` hold fewer than `count` that can be expressed;
            without a count, where they hold none. Those that are in `entries` too are passed over.
        group: what an entry's group is; of each group only the first that can be expressed is taken. None: all are.
    """
    skipped: Counter[str] = Counter()
    made: list[tuple[Entry, Made]] = []
    groups: set[Hashable] = set()
    repeated = 0

    def take(offered: Sequence[Entry], wanted: int) -> None:
        nonlocal repeated
        for entry in offered:
            if len(made) >= wanted:
                return
            key = group(entry) if group else entry.label
            if group and key in groups:
                repeated += 1
                continue
            said = express(entry)
            if isinstance(said, str):
                skipped[said] += 1
                continue
            groups.add(key)
            made.append((entry, said))

    take(entries, len(entries) if count is None else count)
    own = len(made)
    if count is not None or not made:
        known = {entry.label for entry in entries}
        others = [entry for entry in fallback if entry.label not in known]
        take(others, len(others) if count is None else count)
    return Chosen(made, dict(skipped.most_common()), len(made) - own, repeated)
