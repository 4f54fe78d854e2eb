"""Which sampler is taken where none is named, by what is searched.

The rule follows what was measured (docs/search.md): over schedules, with the GPU's numbers or without, steps from the
best so far are at a given share of the front first, or level with the first; over GPUs whose schedules are tuned, the
model's derivatives are.
"""

from dataclasses import dataclass

AUTO = "auto"
GIVEN, CHOSEN, STORED = "given", "auto", "storage"  # who named a sampler: the caller, this rule, a file of trials


@dataclass(frozen=True)
class Choice:
    """A sampler and how it came to be taken.

    Attributes:
        sampler: a name of `dse.search.SAMPLERS`.
        by: `GIVEN`, `CHOSEN` or `STORED`.
        why: in words; "" where it was given.
    """

    sampler: str
    by: str = GIVEN
    why: str = ""


def choice_of(sampler: str, inner: str | None) -> Choice:
    """What a name means: itself, or, of "auto", the sampler for this kind of search."""
    if sampler != AUTO:
        return Choice(sampler)
    if inner is None:
        return Choice("local", CHOSEN, "schedules are searched")
    return Choice("gradient", CHOSEN, "GPUs are searched whose schedules are tuned")


def stored_choice(sampler: str) -> Choice:
    """The sampler that a file's trials were drawn by."""
    return Choice(sampler, STORED, "as the trials in the file")
