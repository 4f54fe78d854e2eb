"""Records of a layer of experts that several GPUs share: the problem of one rank, the schedule."""

from .._pytree import pytree
from ..types import Array
from .moe_exchange_types import Exchange
from .moe_types import Moe, MoeSchedule


@pytree
class ExpertLayer:
    """The rank with the most rows: tokens come in, its experts' two products run, results go back.

    Without `combine` it is the first product on what comes in alone, without `dispatch` the second alone.
    """

    layer: Moe  # `layer.classes` are this rank's experts
    dispatch: Exchange | None
    combine: Exchange | None


@pytree
class ExpertLayerSchedule(MoeSchedule):
    """One way to run both products and to move rows around them."""

    transport: Array  # 0 direct, 1 through buffers of the peer, 2 low latency: see `ExchangeSchedule`
    copies: Array  # 0 a row for every expert, 1 one for every rank
    comm_sms: Array  # SMs that move rows and compute no tile
    chunk_rows: Array
    queue_rows: Array
    chunks: Array  # parts of the rows that tiles wait for, and of the results that are sent
    own_first: Array  # 1: tiles of the rank's own tokens first, then of others'; 0: expert by expert, of all ranks
    one_kernel: Array  # 1: one launch, the activation in the first product's epilogue; 0: kernels of their own
