"""Records of attention that several GPUs share: by heads (Ulysses) and by keys that travel (ring attention)."""

from .._pytree import pytree
from ..overlap import Link
from ..types import Array
from .attention_types import Attention, AttentionSchedule


@pytree
class Ulysses:
    """One of `link.ranks` equal ranks: it trades its tokens of all heads for all tokens of its heads, and back."""

    attention: Attention  # of this rank's heads, all tokens
    q_bytes: Array  # Q that it gets from the others
    kv_bytes: Array  # K and V that it gets from the others
    out_bytes: Array  # outputs that it gets from the others
    link: Link


@pytree
class RingAttention:
    """One of `link.ranks` ranks, the one with the most work: its queries stay, keys and values go around."""

    own: Attention | None  # of its own shard of keys; None: as any other shard
    step: Attention  # of a shard that came from another rank
    shard_bytes: Array  # of K and V, sent whole whatever the mask leaves of it
    link: Link


@pytree
class UlyssesSchedule(AttentionSchedule):
    """A rank's attention kernel, a launch a chunk of heads, and how chunks travel."""

    transport: Array  # 0 copy engines, 1 SMs' loads and stores, 2 a library's kernel each time
    comm_sms: Array  # that move data; with more than one chunk they compute nothing
    chunks: Array  # parts of a rank's heads


@pytree
class RingSchedule(AttentionSchedule):
    """A rank's attention kernel, a launch a chunk of keys, and how chunks travel."""

    transport: Array  # as in `UlyssesSchedule`
    comm_sms: Array  # that move data and compute nothing
    chunks: Array  # parts of a shard of keys, each sent and attended to by itself
    lockstep: Array  # 1: two buffers, a chunk is sent while the one before is attended to; 0: a buffer for every chunk
    merge_fused: Array  # 1: the attention kernel adds to the sums so far; 0: a kernel of its own does
