"""One GPU's way to its peers on one level of a fabric, as a kernel that computes and communicates uses it."""

from .._pytree import pytree
from ..types import Array, Floats


@pytree
class Link:
    """Prices of the ways to move data between GPUs; rates of one GPU's links in one direction. Every field broadcasts.

    A way whose rate is 0 is not there.
    """

    ranks: Array  # GPUs that work on the problem, this one among them
    hop_s: Array  # a dependent step: a flag written, seen and answered
    flag_s: Array  # each flag that SMs raise behind a chunk, beside its bytes
    remote_bytes_per_s: Array  # loads and stores of SMs to peers' memory
    sm_bytes_per_s: Array  # of them by one SM; 0: any SM count reaches the rate
    copy_bytes_per_s: Array  # copy engines
    copy_start_s: Array  # from a copy's issue to its first byte
    copy_chunk_s: Array  # each copy beside its bytes, with the flag behind it
    switch_bytes_per_s: Array  # loads that the switch reduces, stores that it multicasts
    switch_hop_s: Array  # what such an exchange takes beside its bytes, all ranks ready before and told after it
    start_s: Array  # launch of a collective's own kernel, where nothing is fused
    switch_start_s: Array  # the same of one in the switch, whole: nothing of `switch_hop_s` comes on top

    def scaled(self, rates: Floats = 1.0, latencies: Floats = 1.0) -> "Link":
        """With every rate and every latency times a factor."""
        kept = {name: getattr(self, name) for name in Link.__dataclass_fields__}
        by = {name: rates if name.endswith("bytes_per_s") else latencies for name in kept if name != "ranks"}
        return Link(**kept | {name: kept[name] * factor for name, factor in by.items()})
