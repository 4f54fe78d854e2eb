"""Which GPU holds which part of the activations, and what must be sent for the next part to have what it needs.

Written from `spaces/sharding/_fields.toml` and the docstring of `dse.step_operators.Cut`: a tensor on a GPU is a set of
tokens times a number of columns, and bytes are as collectives count them: of an all-gather what a GPU holds afterwards,
of a reduce-scatter or all-reduce the vector of partial sums that each GPU holds, of an all-to-all what a GPU holds (as
much before as after), of a message what is sent. Looked at from one GPU, the first of each axis: all hold as much.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

WIDE = 2  # bytes of an activation


@dataclass(frozen=True)
class Sent:
    """A collective: which, bytes, the axes along which its GPUs differ."""

    part: str
    collective: str
    bytes_: float
    along: tuple[str, ...]


@dataclass(frozen=True)
class Sizes:
    """A model of one dense layer, one layer of experts; `latent`: (kv_rank, nope, rope, v_dim), else None."""

    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    inter: int
    vocabulary: int
    latent: tuple[int, int, int, int] | None
    experts: int
    topk: int
    shared: bool


@dataclass(frozen=True)
class Held:
    """What a step works on, and how it is cut."""

    prompts: int
    prompt_tokens: int
    cached: int
    decoded: int
    tp: int
    hidden_split: int
    kv_split: int
    cp: int
    dp: int
    experts_tp: int
    pp: int
    sequence_parallel: bool
    all_to_all: bool
    cache_bytes: float
    travel_bytes: float
    nodes: int = 1  # that the GPUs which share the experts are on

    def prompt_share(self, c: int) -> set[tuple]:
        """Tokens of prompts that the GPUs of one cp place multiply."""
        return {("p", p, t) for p in range(self.prompts) for t in range(self.prompt_tokens) if t % self.cp == c}

    @property
    def decode_tokens(self) -> set[tuple]:
        """Tokens that are decoded, on all cp places."""
        return {("d", t) for t in range(self.decoded)}

    def cached_share(self, c: int, s: int) -> set[tuple]:
        """Cached tokens of prompts on one cp and one kv_split place."""
        place, places = c * self.kv_split + s, self.cp * self.kv_split
        return {("c", p, t) for p in range(self.prompts) for t in range(self.cached) if t % places == place}

    @property
    def own(self) -> set[tuple]:
        """Tokens of one GPU's products."""
        return self.prompt_share(0) | self.decode_tokens


def numbers(tokens: set, columns: int | set) -> int:
    """Elements of a tensor."""
    return len(tokens) * (columns if isinstance(columns, int) else len(columns))


def head_block(count: int, places: int, place: int) -> set[int]:
    """Heads of one place; where there are fewer heads than places, neighbours hold copies of one."""
    if count >= places:
        return set(range(place * count // places, (place + 1) * count // places))
    return {place * count // places}


def sends(sizes: Sizes, held: Held) -> Iterator[Sent]:
    """Everything that one layer of each kind, and the step, send; what has no bytes or one GPU left out."""
    degree = {"tp": held.tp, "cp": held.cp, "dp": held.dp, "hidden_split": held.hidden_split}
    degree |= {"inter_split": held.tp // held.hidden_split, "kv_split": held.kv_split, "pp": held.pp}
    for sent in (*_attention(sizes, held), *_dense(sizes, held), *_experts(sizes, held), *_step(sizes, held)):
        gpus = 1
        for axis in sent.along:
            gpus *= degree[axis]
        if sent.bytes_ and gpus > 1:
            yield sent


def _attention(sizes: Sizes, held: Held) -> Iterator[Sent]:
    groups = held.tp // held.kv_split  # of GPUs that hold the same heads in attention
    before = head_block(sizes.heads, held.tp, 0)
    after = head_block(sizes.heads, groups, 0)
    kv_before, kv_after = head_block(sizes.kv_heads, held.tp, 0), head_block(sizes.kv_heads, groups, 0)
    share, tokens = held.prompt_share(0), held.decode_tokens
    part = {token for place, token in enumerate(sorted(share)) if place % held.kv_split == 0}
    if sizes.latent:
        rank, nope, rope, v_dim = sizes.latent
        cached = rank + rope
        prefill_q, prefill_v, decode_q, decode_v = nope + rope, v_dim, rank + rope, rank
        keys = numbers(share, len(after) * (nope + rope + v_dim))  # made head by head, before every GPU has them
        new_keys = 0  # every GPU makes the latent vectors of all its tokens
    else:
        cached = 2 * len(kv_after) * sizes.head_dim
        prefill_q = prefill_v = decode_q = decode_v = sizes.head_dim
        missing = kv_before != kv_after
        keys = numbers(share, cached) * missing
        new_keys = numbers(tokens, cached) * missing
    if held.kv_split > 1:
        queries = numbers(part, len(after) * prefill_q)
        yield Sent("heads_to_tokens", "all_to_all", (queries + keys) * WIDE, ("kv_split",))
        here = set().union(*(held.cached_share(0, s) for s in range(held.kv_split)))
        yield Sent("cached_keys_gathered", "all_gather", numbers(here, cached) * held.cache_bytes, ("kv_split",))
        yield Sent("tokens_to_heads", "all_to_all", numbers(share, len(before) * prefill_v) * WIDE, ("kv_split",))
        gathered = numbers(tokens, len(after) * decode_q) + new_keys
        yield Sent("queries_gathered", "all_gather", gathered * WIDE, ("kv_split",))
        partial = numbers(tokens, len(after) * decode_v)
        yield Sent("results_scattered", "reduce_scatter", partial * WIDE, ("kv_split",))
    if held.cp > 1:
        every = [held.prompt_share(c) for c in range(held.cp)]
        every += [held.cached_share(c, s) for c in range(held.cp) for s in range(held.kv_split)]
        yield Sent("keys_gathered", "all_gather", numbers(set().union(*every), cached) * held.cache_bytes, ("cp",))
        partials = {(c, token) for c in range(held.cp) for token in tokens}
        yield Sent("partial_results", "all_gather", numbers(partials, len(after) * decode_v) * WIDE, ("cp",))
    yield from _reduced("attention_out", numbers(held.own, sizes.hidden) * WIDE, ("tp",), held)


def _reduced(part: str, bytes_: float, along: tuple[str, ...], held: Held) -> Iterator[Sent]:
    if held.sequence_parallel:
        yield Sent(f"{part}_scattered", "reduce_scatter", bytes_, along)
        yield Sent(f"{part}_gathered", "all_gather", bytes_, along)
    else:
        yield Sent(part, "all_reduce", bytes_, along)


def _dense(sizes: Sizes, held: Held) -> Iterator[Sent]:
    if not sizes.inter:
        return
    whole = numbers(held.own, sizes.hidden)
    if held.hidden_split == 1:
        yield from _reduced("ffn_out", whole * WIDE, ("tp",), held)
        return
    # every GPU holds all of hidden, and multiplies its part of it: partial sums of its part of gate and up
    columns = set(range(sizes.inter * held.hidden_split // held.tp))
    yield Sent("ffn_inter_scattered", "reduce_scatter", 2 * numbers(held.own, columns) * WIDE, ("hidden_split",))
    yield Sent("ffn_inter_gathered", "all_gather", numbers(held.own, columns) * WIDE, ("hidden_split",))
    partial = numbers(held.own, sizes.hidden // held.hidden_split)  # sums over inter of its part of hidden
    yield Sent("ffn_out_scattered", "reduce_scatter", partial * WIDE, ("inter_split",))
    yield Sent("ffn_whole", "all_gather", whole * WIDE, ("tp",))


def _experts(sizes: Sizes, held: Held) -> Iterator[Sent]:
    if not sizes.experts:
        return
    tokens = {(d, c): held.prompt_share(c) | held.decode_tokens for d in range(held.dp) for c in range(held.cp)}
    everywhere = {(d, token) for (d, _), own in tokens.items() for token in own}
    own, columns = held.own, sizes.hidden
    if len(everywhere) == len(own):  # every GPU of the block holds every token
        yield from _reduced("experts_out", numbers(own, columns) * WIDE, ("tp", "cp"), held)
        return
    if held.all_to_all:
        # a token that several GPUs hold is sent by one of them
        sender = {token for place, token in enumerate(sorted(everywhere)) if place % (held.tp * held.cp * held.dp) == 0}
        gpus = held.tp * held.cp * held.dp // held.experts_tp
        copies = numbers(sender, columns) * _met(sizes, gpus)
        for part, size in (("dispatch", held.travel_bytes), ("combine", WIDE)):
            if held.prompts and held.nodes > 1:  # once to each node, and from there to the GPUs
                to_nodes = numbers(sender, columns) * _met(sizes, held.nodes)
                yield Sent(f"{part}_to_nodes", "all_to_all", to_nodes * size, ("tp", "cp", "dp"))
                yield Sent(f"{part}_inside", "all_to_all", copies * size, ("tp", "cp", "dp"))
            else:
                yield Sent(part, "all_to_all", copies * size, ("tp", "cp", "dp"))
    else:
        along = ("cp", "dp") if held.prompts else ("dp",)
        yield Sent("tokens_gathered", "all_gather", numbers(everywhere, columns) * held.travel_bytes, along)
        yield Sent("sums_scattered", "reduce_scatter", numbers(everywhere, columns) * WIDE, ("tp", "cp", "dp"))
    # each of the GPUs that hold a token has the sums of its share of them; they gather what they need again
    along = ("tp", "cp") if held.decoded else ("tp",)
    yield Sent("tokens_back", "all_gather", numbers(own, columns) * WIDE, along)
    if sizes.shared:
        yield Sent("shared_out", "reduce_scatter", numbers(own, columns) * WIDE, ("tp",))


def _met(sizes: Sizes, parts: int) -> float:
    """Of so many GPUs, or nodes, that share the experts, those that the experts of a token are on, over all ways to
    choose them."""
    apiece = sizes.experts // parts
    chosen = list(combinations(range(sizes.experts), sizes.topk))
    return sum(len({expert // apiece for expert in experts}) for experts in chosen) / len(chosen)


def _step(sizes: Sizes, held: Held) -> Iterator[Sent]:
    last = held.prompts + held.decoded  # the last token of a prompt, all that are decoded
    yield Sent("logits", "all_gather", last * sizes.vocabulary * WIDE, ("tp",))
    share = held.own
    if held.sequence_parallel:
        share = {token for place, token in enumerate(sorted(share, key=str)) if place % held.tp == 0}
    yield Sent("between_stages", "send", numbers(share, sizes.hidden) * WIDE, ("pp",))
