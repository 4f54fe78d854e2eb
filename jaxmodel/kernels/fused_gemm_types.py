"""Records of GEMMs that communicate while they compute: all-gather + GEMM, GEMM + reduce-scatter, GEMM + all-reduce."""

from .._pytree import pytree
from ..overlap import Link
from ..types import Array, Cost, Gemm

COPY_ENGINES, SMS, SWITCH, ONE_SHOT = range(4)  # codes of `transport`
ARRIVAL, RASTER, APART = range(3)  # codes of `order`


@pytree
class FusedGemm:
    """One of `link.ranks` equal ranks. `gemm` is its own product: all m rows, and its part of n or of k."""

    gemm: Gemm
    link: Link

    @property
    def m(self) -> Array:
        """Rows of the product."""
        return self.gemm.m

    @property
    def n(self) -> Array:
        """Columns of this rank's product."""
        return self.gemm.n


@pytree
class FusedGemmSchedule:
    """One way to run a rank's kernel: a GEMM's tile and launch, and how its transfers go.

    Tiles are walked along n inside panels of `swizzle` clusters' rows, chunk after chunk. A chunk is a part of a rank's
    shard of rows, whole panels.
    """

    tile_m: Array
    tile_n: Array
    tile_k: Array
    stages: Array
    warps_m: Array
    warps_n: Array
    cluster_m: Array
    cluster_n: Array
    cta_pair: Array
    swizzle: Array  # rows of a panel, clusters
    persistent: Array
    epilogue: Array  # an EPILOGUE_* of `jaxmodel.types`
    chunks: Array  # parts of a rank's shard of rows
    comm_sms: Array  # SMs that move data and compute nothing
    transport: Array  # 0 copy engines, 1 SMs' loads and stores, 2 in the switch, 3 SMs in one shot (all-reduce)
    order: Array  # 0 as shards arrive or leave, 1 by row whatever arrives, 2 not fused: the collective by itself
    queue: Array  # output tiles of a CTA that may be on their way to peers, each in shared memory


@pytree
class FusedCost(Cost):
    """A cost with what communication adds: one more part of the latency."""

    communication_s: Array  # that no tile hides
