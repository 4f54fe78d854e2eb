"""What the GPUs of a layout send each other in a step: the collectives of every layer, and of the step."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..content.dtypes import DTYPE_BYTES
from ..content.model import GroupedAttention, ModelConfig, MoeFfn
from ..kernels.expert_holders import expected_holders
from ..step_operators import DENSE, EVERY_LAYER, MOE, ONCE, Types, Work
from .collective_times import Exchange
from .layouts import ALL_TO_ALL, Groups, Layouts

NUMBER_BYTES = 2  # activations travel in 16 bit, but tokens on their way to narrow experts
SEND = "between_stages"


def step_exchanges(model: ModelConfig, types: Types, work: Work, layouts: Layouts) -> list[Exchange]:
    """Every collective of one micro-batch: between the parts of a layer, over the step, and to the next stage."""
    return list(_Exchanges(model, types, work, layouts).all())


def forwarded(exchanges: list[Exchange], sent: list[np.ndarray]) -> list[np.ndarray]:
    """Seconds, where what nodes pass on inside runs while other tokens cross the network: of both the longer counts."""
    known = {exchange.part: one for exchange, one in zip(exchanges, sent, strict=True)}
    found = []
    for exchange, one in zip(exchanges, sent, strict=True):
        crossing = known.get(exchange.part.replace("_inside", "_to_nodes")) if "_inside" in exchange.part else None
        found.append(one if crossing is None else np.maximum(one - crossing, 0.0))
    return found


@dataclass(frozen=True)
class _Exchanges:
    model: ModelConfig
    types: Types
    work: Work
    layouts: Layouts

    @property
    def prompt_m(self) -> np.ndarray:
        return np.asarray(self.work.prompt_m(self.layouts["cp"]))

    @property
    def decode_m(self) -> np.ndarray:
        return np.asarray(self.work.decode_m)

    @property
    def m(self) -> np.ndarray:
        return self.prompt_m + self.decode_m

    def all(self) -> Iterator[Exchange]:
        yield from self.keys()
        yield from self.reduced("attention_out", EVERY_LAYER)
        if self.model.ffn:
            plain = self.layouts["hidden_split"] == 1
            yield from self.reduced("ffn_out", DENSE, plain)
            yield from self.along_hidden(~plain)
        if self.model.moe:
            yield from self.experts()
        last = self.work.prompts + self.decode_m
        logits = last * self.model.vocabulary * NUMBER_BYTES
        yield self.of("logits", "all_gather", logits, self.layouts.groups("tp"), ONCE)
        split = self.layouts.norm_split
        between = np.where(self.layouts["pp"] > 1, self.m * self.model.hidden * NUMBER_BYTES / split, 0.0)
        neighbours = self.layouts.groups("pp")
        crosses = neighbours.across > 1  # some stage's next one is on another node
        pair = Groups(np.where(crosses, 1, 2), np.where(crosses, 2, 1))
        yield self.of(SEND, "send", between, pair, SEND)

    def of(self, part: str, collective: str, bytes_: np.ndarray, group: Groups, where: str) -> Exchange:
        return Exchange(part, collective, bytes_, group.inside, group.across, where)

    def reduced(
        self, part: str, where: str, mask: np.ndarray | bool = True, group: Groups | None = None
    ) -> Iterator[Exchange]:
        """Partial sums of a product whose K is shared by tp, or by another group."""
        bytes_ = self.m * self.model.hidden * NUMBER_BYTES * mask
        group, split = group or self.layouts.groups("tp"), self.layouts["sequence_parallel"] > 0
        yield self.of(part, "all_reduce", np.where(split, 0.0, bytes_), group, where)
        yield self.of(f"{part}_scattered", "reduce_scatter", np.where(split, bytes_, 0.0), group, where)
        yield self.of(f"{part}_gathered", "all_gather", np.where(split, bytes_, 0.0), group, where)

    def along_hidden(self, mask: np.ndarray) -> Iterator[Exchange]:
        """Weights shared along both sides (Pope et al. 2022, arXiv 2211.05102, section 3.2.2): every GPU takes its part
        of the tokens' hidden dimension; partial sums are scattered over the GPUs that share that, gathered for the
        second product, scattered over those that share inter, and gathered over all."""
        ffn = self.model.ffn
        assert ffn is not None
        x, y = self.layouts.groups("hidden_split"), self.layouts.groups("inter_split")
        split = self.layouts["hidden_split"]
        narrow = self.m * self.model.hidden / split * NUMBER_BYTES * mask
        inter = self.m * ffn.inter / (self.layouts["tp"] // split) * NUMBER_BYTES * mask
        yield self.of("ffn_inter_scattered", "reduce_scatter", 2 * inter, x, DENSE)
        yield self.of("ffn_inter_gathered", "all_gather", inter, x, DENSE)
        yield self.of("ffn_out_scattered", "reduce_scatter", narrow, y, DENSE)
        whole = self.m * self.model.hidden * NUMBER_BYTES * mask
        yield self.of("ffn_whole", "all_gather", whole, self.layouts.groups("tp"), DENSE)

    def keys(self) -> Iterator[Exchange]:
        """Context parallelism: of prompts the keys are gathered, cached ones too, of decoded tokens the partial
        results; inside tp, queries are gathered and results scattered (decoded), or heads and tokens exchanged
        (prompts)."""
        at, layouts = self.model.attention, self.layouts
        tp, cp, split = layouts["tp"], layouts["cp"], layouts["kv_split"]
        sharing = tp // split
        heads, own_heads = at.heads / sharing, at.heads / tp
        if isinstance(at, GroupedAttention):
            q_dim = v_dim = prompt_v = at.head_dim
            held, needed = np.maximum(at.kv_heads / tp, 1), np.maximum(at.kv_heads / sharing, 1)
            kv_numbers = 2 * needed * at.head_dim
            new_keys = np.where(held < needed, kv_numbers, 0.0)  # where every GPU holds copies, it has them already
            prompt_own, prompt_keys = own_heads * q_dim, new_keys
        else:
            q_dim, v_dim, prompt_v = at.kv_rank + at.rope_dim, at.kv_rank, at.v_dim
            kv_numbers, new_keys = np.asarray(at.kv_rank + at.rope_dim), 0.0
            prompt_own = own_heads * (at.nope_dim + at.rope_dim)
            prompt_keys = heads * (at.nope_dim + at.rope_dim + at.v_dim)
        cache_bytes = DTYPE_BYTES[self.types.kv_dtype or self.types.wide]
        cached = np.asarray(self.work.prompts) * self.work.cached_tokens
        gathered = (self.prompt_m * cp + cached) * kv_numbers * cache_bytes * (cp > 1)
        yield self.of("keys_gathered", "all_gather", gathered, layouts.groups("cp"), EVERY_LAYER)
        merged = self.decode_m * heads * v_dim * NUMBER_BYTES * cp * (cp > 1)
        yield self.of("partial_results", "all_gather", merged, layouts.groups("cp"), EVERY_LAYER)
        inside, apart = layouts.groups("kv_split"), split > 1
        queries = self.decode_m * (heads * q_dim + new_keys) * NUMBER_BYTES * apart
        yield self.of("queries_gathered", "all_gather", queries, inside, EVERY_LAYER)
        results = self.decode_m * heads * v_dim * NUMBER_BYTES * apart
        yield self.of("results_scattered", "reduce_scatter", results, inside, EVERY_LAYER)
        there = self.prompt_m * (prompt_own + prompt_keys) * NUMBER_BYTES * apart
        yield self.of("heads_to_tokens", "all_to_all", there, inside, EVERY_LAYER)
        cached_here = cached / cp * kv_numbers * cache_bytes * apart
        yield self.of("cached_keys_gathered", "all_gather", cached_here, inside, EVERY_LAYER)
        back = self.prompt_m * own_heads * prompt_v * NUMBER_BYTES * apart
        yield self.of("tokens_to_heads", "all_to_all", back, inside, EVERY_LAYER)

    def experts(self) -> Iterator[Exchange]:
        """Tokens to experts and back. Where every GPU of the block holds all tokens, only sums are reduced."""
        moe, groups = self.model.moe, self.layouts.groups
        assert moe is not None
        prefills = np.asarray(self.work.prompts) > 0  # then the tokens of a prompt are apart too
        apart = self.layouts["dp"] * np.where(prefills, self.layouts["cp"], 1) > 1
        replicas = groups("tp").times(groups("cp"))
        block = replicas.times(groups("dp"))
        yield from self.reduced("experts_out", MOE, ~apart, replicas)
        everyone = self.layouts["exchange"] != ALL_TO_ALL
        yield from self.gathered_tokens(apart & everyone, prefills, block)
        yield from self.sent_tokens(apart & ~everyone, prefills, block, moe)
        back = _chosen(self.decode_m > 0, replicas, groups("tp"))  # decoded tokens are on all cp GPUs
        own = np.where(apart, self.m * self.model.hidden * NUMBER_BYTES, 0.0)
        yield self.of("tokens_back", "all_gather", own, back, MOE)
        if moe.shared_experts:
            yield self.of("shared_out", "reduce_scatter", own, groups("tp"), MOE)

    def gathered_tokens(self, mask: np.ndarray, prefills: np.ndarray, block: Groups) -> Iterator[Exchange]:
        """Every GPU of the block gets all tokens; their sums are scattered."""
        dp = self.layouts.groups("dp")
        holders = _chosen(prefills, self.layouts.groups("cp").times(dp), dp)
        everywhere = np.asarray(self.m if self.work.everywhere is None else self.work.everywhere)
        numbers = everywhere * self.model.hidden * mask
        yield self.of("tokens_gathered", "all_gather", numbers * self.expert_bytes, holders, MOE)
        yield self.of("sums_scattered", "reduce_scatter", numbers * NUMBER_BYTES, block, MOE)

    def sent_tokens(self, mask: np.ndarray, prefills: np.ndarray, block: Groups, moe: MoeFfn) -> Iterator[Exchange]:
        """Every token goes to the GPUs of its experts. Prompts' tokens cross the network once a node and are sent on
        inside it (DeepSeek-V3, arXiv 2412.19437, section 3.2.2); decoded ones go to each GPU at once, for latency."""
        copies = expected_holders(moe.experts, np.maximum(self.layouts.ep, 1), moe.topk)
        nodes = expected_holders(moe.experts, block.across, moe.topk)
        tokens = (self.prompt_m + self.decode_m / self.layouts["cp"]) / self.layouts["tp"]
        forwards = prefills & (block.across > 1)
        alone, one = Groups(np.ones_like(block.inside), block.across), np.ones_like(block.across)
        inside = Groups(block.inside, one)
        for part, size in (("dispatch", self.expert_bytes), ("combine", NUMBER_BYTES)):
            sent = tokens * self.model.hidden * mask * size
            yield self.of(part, "all_to_all", np.where(forwards, 0.0, sent * copies), block, MOE)
            yield self.of(f"{part}_to_nodes", "all_to_all", np.where(forwards, sent * nodes, 0.0), alone, MOE)
            yield self.of(f"{part}_inside", "all_to_all", np.where(forwards, sent * copies, 0.0), inside, MOE)

    @property
    def expert_bytes(self) -> float:
        """Of a number of a token on its way to experts."""
        return DTYPE_BYTES[self.types.experts_dtype or self.types.dtype]


def _chosen(mask: np.ndarray, one: Groups, other: Groups) -> Groups:
    return Groups(np.where(mask, one.inside, other.inside), np.where(mask, one.across, other.across))
