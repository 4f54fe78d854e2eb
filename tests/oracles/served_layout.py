"""What one layout achieves, added up layer by layer and stage by stage in plain numbers.

Written from the docstrings of `dse.serving` (workload, outcomes, step_times, memory). Sizes of kernels and messages are
read for the one layout; how long they take is asked one by one. What engines fuse or hide is left out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from oracles.held_tensors import BYTES, Share, cache_bytes, gathered_bytes, stages_of, weight_bytes, widest_numbers
from oracles.pipeline_stages import decode_starts, through_end_s

from dse.content.model import ModelConfig
from dse.serving.exchanges import step_exchanges
from dse.serving.layouts import Layouts
from dse.serving.workload import Workload
from dse.step_operators import Types, Work, step_operators

ROUNDS = 40


@dataclass(frozen=True)
class Machine:
    """What prices kernels and messages, and the numbers of the GPU and the engine."""

    kernel_s: Callable[[Any], float]
    exchange_s: Callable[[Any], float]
    memory_bytes: float
    memory_share: float
    reserved_bytes: float
    activation_tokens: int
    step_s: float
    graph_tokens_max: int
    launch_s: float
    graphs: bool


@dataclass(frozen=True)
class Step:
    """Seconds of each stage and between stages; of the whole: collectives, launches, the head."""

    stages_s: list[float]
    send_s: float
    exchanges_s: float
    kernels: float
    head_s: float


def step_of(model: ModelConfig, types: Types, work: Work, row: Mapping[str, int], layout: Layouts, at: Machine) -> Step:
    """One micro-batch of a step; with two_batches its two halves take turns."""
    halves = 2 if row["overlap"] == 1 else 1
    if halves == 2:
        half = -(-work.prompt_tokens // 2)
        work = replace(
            work,
            prompt_tokens=half,
            cached_tokens=work.cached_tokens + (work.prompt_tokens - half) // 2,  # of the half before, in the mean
            sequences=work.sequences // 2,
            everywhere=-(-work.everywhere // 2),
        )
    kernels = [(one.where, one.times, at.kernel_s(one)) for one in step_operators(model, types, work, layout.cut())]
    named = [(one.part, one.where, at.exchange_s(one)) for one in step_exchanges(model, types, work, layout)]
    seconds = {part: one for part, _, one in named}
    messages = []
    for part, where, one in named:
        if part.endswith("_inside"):  # nodes pass on what has come while the rest comes
            one = max(one - seconds[part.replace("_inside", "_to_nodes")], 0.0)
        messages.append((where, one))
    replayed = at.graphs and not work.prompts and work.sequences * work.queries <= at.graph_tokens_max
    pace = 0.0 if replayed else at.launch_s

    def shown(place: str) -> tuple[float, float, float]:
        computing = sum(times * one for where, times, one in kernels if where == place)
        sending = sum(one for where, one in messages if where == place)
        launches = sum(times for where, times, one in kernels if where == place and one > 0)
        launches += sum(1 for where, one in messages if where == place and one > 0)
        alone = computing + sending if halves == 1 else 2 * max(computing, sending)
        return max(alone, launches * halves * pace), sending * halves, launches * halves

    attention, once = shown("every layer"), shown("once a step")
    ffn = {"dense": shown("dense layers"), "moe": shown("expert layers")}
    stages = stages_of(model, row["pp"])
    stages_s = [sum(attention[0] + ffn[kind][0] for kind in kinds) for kinds in stages]
    stages_s[-1] += once[0]
    kinds = [kind for stage in stages for kind in stage]
    head = sum(one for where, _, one in kernels if where == "once a step")
    head += sum(one for where, one in messages if where == "once a step")
    return Step(
        stages_s,
        sum(one for where, one in messages if where == "between_stages") * halves,
        sum(attention[1] + ffn[kind][1] for kind in kinds) + once[1],
        sum(attention[2] + ffn[kind][2] for kind in kinds) + once[2],
        head * halves,
    )


def period_s(step: Step, micro_batches: int) -> float:
    """From a token of a sequence to its next, played."""
    starts = decode_starts(step.stages_s, step.send_s, micro_batches, 2 * ROUNDS)
    return (starts[-1][0] - starts[-1 - ROUNDS][0]) / ROUNDS


def served(model: ModelConfig, types: Types, asked: Workload, row: Mapping[str, int], layout: Layouts, at: Machine):
    """(reason, columns) of one layout that sizes allow; the columns of `dse.serving.outcomes.COLUMNS`."""
    parts, batch, dp, chunk = row["micro_batches"], row["batch"], row["dp"], row["chunk"]
    new_tokens = asked.input_tokens - asked.cached_tokens
    columns: dict[str, float] = {"gpus": row["tp"] * row["cp"] * row["dp"] * row["pp"]}
    if chunk > (new_tokens if asked.phase == "serve" else 0):
        return "chunk", columns
    columns |= memory_of(model, types, asked, row, at)
    usable, held = at.memory_bytes * at.memory_share - at.reserved_bytes, 0.0
    for name, column in (("weights", "weights"), ("activations", "activation"), ("kv_cache", "kv_cache")):
        held += columns[f"{column}_bytes"]
        if held > usable:
            return name, columns
    sequences = batch // (dp * parts)

    def step(**work: Any) -> Step:
        here = Work(**work)
        tokens = here.prompts * here.prompt_tokens + here.sequences * here.queries
        return step_of(model, types, replace(here, everywhere=tokens * dp), row, layout, at)

    zero = {"tokens_per_s_per_user": 0.0, "ttft_s": 0.0, "tpot_s": 0.0, "decode_s": 0.0, "prefill_s": 0.0}
    if asked.phase == "prefill":
        prompts = batch // (dp * parts)
        one = step(prompts=prompts, prompt_tokens=new_tokens, cached_tokens=asked.cached_tokens)
        through = through_end_s(one.stages_s, one.send_s, parts)
        rate = batch / parts / (max(one.stages_s) + at.step_s) * asked.input_tokens
        columns |= zero | {"ttft_s": through + at.step_s, "prefill_s": through}
    else:
        decode = {"sequences": sequences, "queries": asked.draft_tokens + 1, "context": asked.context}
        one = step(**decode)
        alone, drafts = period_s(one, parts) + at.step_s, 0.0
        if asked.draft_tokens:
            drafted = step(**(decode | {"queries": 1}))
            layer = max(sum(drafted.stages_s) - drafted.head_s, 0.0) / model.layers
            drafts = asked.draft_tokens * parts * (asked.draft_layers * layer + drafted.head_s)
        made = sum(asked.acceptance**place for place in range(asked.draft_tokens + 1))
        tpot, columns["decode_s"] = (alone + drafts) / made, alone + drafts
        columns |= {"ttft_s": 0.0, "prefill_s": 0.0}
        if asked.phase == "serve":
            started = batch / dp / asked.output_tokens  # prompts that a group starts, a token
            if chunk:
                before = asked.cached_tokens + (new_tokens - chunk) // 2
                mixed = step(**decode, prompts=1, prompt_tokens=chunk, cached_tokens=before)
                mixed_s, chunks = period_s(mixed, parts) + at.step_s, -(-new_tokens // chunk)
                share = started * chunks * made / parts
                if share > 1:
                    return "chunk", columns
                tpot = (share * mixed_s + (1 - share) * alone + drafts) / made
                met = {mixed_s: share * mixed_s, alone: (1 - share) * alone}  # of all time, what a request meets
                rest_s = sum(one / 2 * time for one, time in met.items()) / sum(met.values())
                through = through_end_s(mixed.stages_s, mixed.send_s, chunks)
                columns |= {"prefill_s": through, "ttft_s": rest_s + through + at.step_s * chunks}
            else:
                prompt = step(prompts=1, prompt_tokens=new_tokens, cached_tokens=asked.cached_tokens)
                through = through_end_s(prompt.stages_s, prompt.send_s, 1)
                tpot += started * (max(prompt.stages_s) + at.step_s)
                columns |= {"prefill_s": through, "ttft_s": 0.5 * alone + through + at.step_s}
        rate = batch / tpot
        columns |= {"tpot_s": tpot, "tokens_per_s_per_user": 1 / tpot}
    columns |= {"tokens_per_s": rate, "tokens_per_s_per_gpu": rate / columns["gpus"]}
    columns |= {"exchange_s": one.exchanges_s, "kernels": one.kernels}
    late = columns["ttft_s"] > asked.ttft_max_s or columns["tpot_s"] > asked.tpot_max_s
    return "limit" if late else "runs", columns


def memory_of(model: ModelConfig, types: Types, asked: Workload, row: Mapping[str, int], at: Machine):
    """Bytes on the fullest GPU."""
    names = ("tp", "hidden_split", "kv_split", "cp", "dp", "experts_tp", "pp")
    share = Share(**{name: row[name] for name in names})
    each = row["batch"] / row["dp"] / row["micro_batches"]
    decoded = each * (1 + asked.draft_tokens)
    prompts = each if asked.phase == "prefill" else 1
    prompt = min((asked.input_tokens - asked.cached_tokens) * prompts, at.activation_tokens) / row["cp"]
    tokens = {"decode": decoded, "prefill": prompt, "serve": max(prompt, decoded)}[asked.phase]
    if asked.phase == "serve" and row["chunk"]:
        tokens = row["chunk"] / row["cp"] + decoded
    length = asked.input_tokens + (0 if asked.phase == "prefill" else asked.output_tokens)
    gathered = gathered_bytes(model, share, types.experts_dtype or types.dtype, row["exchange"] == 1)
    logits = max(each, 1) * model.vocabulary / share.tp * 4
    return {
        "weights_bytes": weight_bytes(model, share, types.dtype, types.experts_dtype),
        "kv_cache_bytes": cache_bytes(model, share, row["batch"], length, BYTES[types.kv_dtype or "bf16"]),
        "activation_bytes": tokens * ((4 * model.hidden + widest_numbers(model, share)) * 2 + gathered) + logits,
    }
