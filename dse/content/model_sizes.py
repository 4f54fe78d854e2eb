"""What a transformer is made of, as far as its kernels depend on it: attention, feed-forward layers, experts."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class GroupedAttention:
    """Attention of query heads that share keys and values in groups.

    Attributes:
        heads, kv_heads: of queries, and of keys and values; the one is a multiple of the other.
        head_dim: elements of a head.
        window: keys that a query sees at most in windowed layers; 0: no layer has a window.
        windowed_layers: of all layers; the others see every key.
    """

    heads: int
    kv_heads: int
    head_dim: int
    window: int = 0
    windowed_layers: int = 0


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values of all heads from one latent vector.

    Attributes:
        heads: of queries, keys and values.
        q_rank, kv_rank: elements of the latent vectors of queries, and of keys and values.
        nope_dim, rope_dim: elements of a query's head without and with positions; the latter is shared by the keys.
        v_dim: elements of a value's head.
    """

    heads: int
    q_rank: int
    kv_rank: int
    nope_dim: int
    rope_dim: int
    v_dim: int


@dataclass(frozen=True)
class DenseFfn:
    """Feed-forward layers with a gate: two products in, one out.

    Attributes:
        inter: columns of the gate, and of the up product.
        layers: that are dense.
    """

    inter: int
    layers: int


@dataclass(frozen=True)
class MoeFfn:
    """Mixture-of-experts layers, every expert with a gate.

    Attributes:
        inter: of an expert.
        experts: routed ones.
        topk: routed experts that a token goes to.
        layers: that have experts.
        shared_experts: that every token goes to, each of `inter`.
    """

    inter: int
    experts: int
    topk: int
    layers: int
    shared_experts: int = 0


@dataclass(frozen=True)
class ModelConfig:
    """A decoder-only transformer.

    Attributes:
        name: of the file, without ending.
        title: in words.
        layers: transformer layers.
        hidden: elements of a token between layers.
        vocabulary: rows of the output projection.
        weights: type of the published weights, in words.
        attention: of every layer.
        ffn: dense feed-forward layers; None: there are none.
        moe: layers of experts; None: there are none.
        sources: part of the file -> where its numbers come from.
        path: of the file.
    """

    name: str
    title: str
    layers: int
    hidden: int
    vocabulary: int
    weights: str
    attention: GroupedAttention | LatentAttention
    ffn: DenseFfn | None
    moe: MoeFfn | None
    sources: Mapping[str, str]
    path: Path

    @property
    def matrix_parameters(self) -> int:
        """Numbers in all weight matrices, the embedding (as many as the output projection) and routers included."""
        at = self.attention
        if isinstance(at, GroupedAttention):
            own = self.hidden * at.head_dim * (2 * at.heads + 2 * at.kv_heads)
        else:
            own = self.hidden * (at.q_rank + at.kv_rank + at.rope_dim)
            own += at.heads * (at.q_rank * (at.nope_dim + at.rope_dim) + at.kv_rank * (at.nope_dim + at.v_dim))
            own += at.heads * at.v_dim * self.hidden
        total = self.layers * own + 2 * self.vocabulary * self.hidden
        if self.ffn:
            total += self.ffn.layers * 3 * self.ffn.inter * self.hidden
        if self.moe:
            experts = self.moe.experts + self.moe.shared_experts
            total += self.moe.layers * self.hidden * (3 * experts * self.moe.inter + self.moe.experts)
        return total

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: `name`, `title`, `sources`, and a mapping a part of the file."""
        parts = {"model": {name: getattr(self, name) for name in ("layers", "hidden", "vocabulary", "weights")}}
        of_attention = "attention" if isinstance(self.attention, GroupedAttention) else "mla"
        for part, record in ((of_attention, self.attention), ("ffn", self.ffn), ("moe", self.moe)):
            if record:
                parts[part] = asdict(record)
        about = {"name": self.name, "title": self.title, "matrix_parameters": self.matrix_parameters}
        return about | {"sources": dict(self.sources), **parts}
