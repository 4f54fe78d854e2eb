"""Blocks of a space that cannot hold a best or a front schedule, found from lower bounds and left out exactly.

`dse sweep --prune` and `SweepJob.prune` ask for it. `dse prune` is another matter: which of one's own configs to
benchmark (`dse.studies.benchmark.prune`).
"""

from .needed_ranges import NeededRanges as NeededRanges
from .needed_ranges import needed_ranges as needed_ranges
