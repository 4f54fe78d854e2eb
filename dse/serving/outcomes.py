"""From the times of steps to what users of a service see: tokens a second, time to the first token, time a token."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..progress import Progress
from ..step_operators import Work
from .layouts import CODES, Layouts, layout_reasons
from .memory import Memory, memory_of, memory_reasons, usable_bytes
from .padded import padded_call
from .step_times import StepModel, StepTimes
from .workload import Workload

COLUMNS = {  # name -> (unit, meaning)
    "gpus": ("GPUs", "of one instance"),
    "tokens_per_s": ("tokens/s", "of one instance: answers, or prompts where it prefills only"),
    "tokens_per_s_per_gpu": ("tokens/s", "the same over its GPUs"),
    "tokens_per_s_per_user": ("tokens/s", "of one sequence: 1 / tpot_s; 0 where it prefills only"),
    "ttft_s": (
        "s",
        "from a request to its first token: half a step that runs, and the prompt; 0 where it decodes only",
    ),
    "tpot_s": ("s", "from a token of an answer to the next, what prompts take from it included"),
    "decode_s": ("s", "a decode step of all its micro-batches"),
    "prefill_s": ("s", "a prompt through all stages"),
    "exchange_s": ("s", "of a decode step (else of a prompt) in collectives, hidden ones included"),
    "kernels": ("1", "kernels and collectives launched by a micro-batch of a decode step (else of a prompt)"),
    "weights_bytes": ("bytes", "weights on the fullest GPU"),
    "kv_cache_bytes": ("bytes", "KV cache on the fullest GPU"),
    "activation_bytes": ("bytes", "activations on the fullest GPU"),
}


@dataclass(frozen=True)
class Outcomes:
    """Every layout that was looked at.

    Attributes:
        layouts: all of them.
        reason: int8[layouts], code of `dse.serving.layouts.REASONS`; 0: it runs.
        columns: of `COLUMNS`, float64[layouts]; NaN where a layout does not run and nothing is known.
        usable_bytes: memory that the engine lets weights, cache and activations have.
    """

    layouts: Layouts
    reason: np.ndarray
    columns: Mapping[str, np.ndarray]
    usable_bytes: float

    @property
    def runs(self) -> np.ndarray:
        """Where a layout runs."""
        return self.reason == 0


def evaluate_layouts(
    layouts: Layouts, workload: Workload, steps: StepModel, gpus: int, progress: Progress = None
) -> Outcomes:
    """What every layout achieves: sizes first, then memory, then the steps of those that are left.

    Args:
        layouts: any.
        workload: what is served.
        steps: prices steps.
        gpus: that there are.
        progress: as in `dse.sweep.run_sweep`.
    """
    reason = layout_reasons(layouts, steps.model, gpus)
    joined = steps.collectives.fabric.ranks_max
    reason[(reason == 0) & (layouts.gpus > joined)] = CODES["fabric"]
    longest = workload.new_tokens if workload.phase == "serve" else 0
    reason[(reason == 0) & (layouts["chunk"] > longest)] = CODES["chunk"]
    columns = {name: np.full(len(layouts), np.nan) for name in COLUMNS}
    columns["gpus"] = layouts.gpus.astype(float)
    kept = np.flatnonzero(reason == 0)
    usable = usable_bytes(steps.engine, steps.kernels.gpu["ddr_capacity_bytes"])
    if len(kept):
        held = memory_held(layouts.take(kept), workload, steps)
        for name, values in (
            ("weights_bytes", held.weights),
            ("kv_cache_bytes", held.kv_cache),
            ("activation_bytes", held.activations),
        ):
            columns[name][kept] = values
        for name, wrong in memory_reasons(held):
            reason[kept[(reason[kept] == 0) & wrong]] = CODES[name]
        kept = kept[reason[kept] == 0]
    if len(kept):
        found, why = Served(layouts.take(kept), workload, steps, progress).columns()
        for name, values in found.items():
            columns[name][kept] = values
        reason[kept] = why
    return Outcomes(layouts, reason, columns, usable)


def memory_held(layouts: Layouts, workload: Workload, steps: StepModel) -> Memory:
    """What a workload holds on the fullest GPU of each layout."""
    decoded = layouts["batch"] / (layouts["dp"] * layouts["micro_batches"]) * (1 + workload.draft_tokens)
    prompts = decoded / (1 + workload.draft_tokens) if workload.phase == "prefill" else 1
    prompt = np.minimum(workload.new_tokens * prompts, steps.engine["activation_tokens"]) / layouts["cp"]
    chunked = layouts["chunk"] / layouts["cp"] + decoded
    in_step = {"serve": np.where(layouts["chunk"] > 0, chunked, np.maximum(prompt, decoded))}
    in_step |= {"decode": decoded, "prefill": prompt + 0.0 * decoded}
    longest = workload.longest if workload.phase != "prefill" else workload.input_tokens
    capacity = steps.kernels.gpu["ddr_capacity_bytes"]
    return memory_of(steps.model, steps.types, layouts, steps.engine, capacity, longest, in_step[workload.phase])


@dataclass(frozen=True)
class Served:
    """Layouts that fit, and what their steps hold for a workload; attributes as the arguments of `evaluate_layouts`."""

    layouts: Layouts
    workload: Workload
    steps: StepModel
    progress: Progress = None

    def columns(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """(columns, reasons) of layouts that fit."""
        return {"decode": self.decoded, "prefill": self.prefilled, "serve": self.served}[self.workload.phase]()

    def decoded(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        step = self.step(self.decode_work())
        period = self.period_s(step) + self.drafted_s()
        tpot = period / self.workload.tokens_a_step
        found = self.common(step, tpot=tpot, decode=period)
        return found, self.reasons(found, period)

    def prefilled(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        parts = self.layouts["micro_batches"]
        step = self.step(self.prefill_work(self.layouts["batch"] // (self.layouts["dp"] * parts)))
        through = self.through_s(step, parts)
        host_s = self.steps.engine["step_s"]
        prompts = self.layouts["batch"] / parts / (step.slowest_s + host_s)  # a second: stages have different prompts
        found = self.common(step, ttft=through + host_s, prefill=through)
        found["tokens_per_s"] = prompts * self.workload.input_tokens
        found["tokens_per_s_per_gpu"] = found["tokens_per_s"] / self.layouts.gpus
        return found, self.reasons(found, through)

    def served(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        step = self.step(self.decode_work())
        alone_s, drafts_s = self.period_s(step), self.drafted_s()
        tpot, ttft, prefill = (np.zeros(len(self.layouts)) for _ in range(3))
        short = np.zeros(len(self.layouts), bool)
        chunked = self.layouts["chunk"] > 0
        for here, prompts in ((~chunked, Served._whole_prompts), (chunked, Served._chunked_prompts)):
            at = np.flatnonzero(here)
            if len(at):
                part = replace(self, layouts=self.layouts.take(at))
                tpot[at], ttft[at], prefill[at], short[at] = prompts(part, alone_s[at], drafts_s[at])
        found = self.common(step, tpot=tpot, ttft=ttft, prefill=prefill, decode=alone_s + drafts_s)
        return found, self.reasons(found, tpot + ttft, short)

    def _whole_prompts(self, alone_s: np.ndarray, drafts_s: np.ndarray) -> tuple[np.ndarray, np.ndarray, Any, Any]:
        """(TPOT, TTFT, seconds of a prompt, whether chunks are too small) where decoding waits for whole prompts."""
        host_s = self.steps.engine["step_s"]
        prompt = self.step(self.prefill_work())
        tpot = (alone_s + drafts_s) / self.workload.tokens_a_step + self._passes * (prompt.slowest_s + host_s)
        through = self.through_s(prompt, 1)
        return tpot, 0.5 * alone_s + through + host_s, through, False

    def _chunked_prompts(self, alone_s: np.ndarray, drafts_s: np.ndarray) -> tuple[np.ndarray, np.ndarray, Any, Any]:
        """The same where chunks of prompts run beside decoded tokens."""
        mixed = self.step(self.chunk_work())
        mixed_s = self.period_s(mixed)
        chunks = -(-self.workload.new_tokens // self.layouts["chunk"])
        needed = self._passes * chunks * self.workload.tokens_a_step  # chunks a decode step, of each group
        share = needed / self.layouts["micro_batches"]
        period = share * mixed_s + (1.0 - share) * alone_s + drafts_s
        prefill = self.through_s(mixed, chunks)
        ttft = _rest_s(share, mixed_s, alone_s) + prefill + self.steps.engine["step_s"] * chunks
        return period / self.workload.tokens_a_step, ttft, prefill, share > 1.0

    @property
    def _passes(self) -> np.ndarray:
        """Prompts that a dp group starts a token of its answers."""
        return self.layouts["batch"] / self.layouts["dp"] / self.workload.output_tokens

    def step(self, work: Work) -> StepTimes:
        return self.steps.times(work, self.layouts, self.progress)

    def decode_work(self, queries: int | None = None) -> Work:
        layouts, asked = self.layouts, self.workload
        sequences = layouts["batch"] // (layouts["dp"] * layouts["micro_batches"])
        queries = asked.draft_tokens + 1 if queries is None else queries
        return Work(
            sequences=sequences,
            queries=queries,
            context=asked.context,
            everywhere=sequences * queries * layouts["dp"],
        )

    def prefill_work(self, prompts: int | np.ndarray = 1) -> Work:
        new_tokens = self.workload.new_tokens
        everywhere = prompts * new_tokens * self.layouts["dp"]
        return Work(
            prompts=prompts, prompt_tokens=new_tokens, cached_tokens=self.workload.cached_tokens, everywhere=everywhere
        )

    def chunk_work(self) -> Work:
        """Decoded tokens and a chunk of a prompt, of which half is in the cache in the mean."""
        decoded, chunk = self.decode_work(), self.layouts["chunk"]
        before = self.workload.cached_tokens + (self.workload.new_tokens - chunk) // 2
        everywhere = np.asarray(decoded.everywhere) + chunk * self.layouts["dp"]
        return replace(decoded, prompts=1, prompt_tokens=chunk, cached_tokens=before, everywhere=everywhere)

    def period_s(self, step: StepTimes) -> np.ndarray:
        from jaxmodel.sharding import decode_period_s

        at = self.layouts
        stages, parts = at["pp"], at["micro_batches"]
        period = padded_call(decode_period_s, step.slowest_s, step.round_s, step.send_s, stages, parts)
        return period.astype(float) + self.steps.engine["step_s"]

    def through_s(self, step: StepTimes, parts: int | np.ndarray) -> np.ndarray:
        from jaxmodel.sharding import through_s

        stages = self.layouts["pp"]
        return padded_call(through_s, step.slowest_s, step.round_s, step.send_s, stages, parts).astype(float)

    def drafted_s(self) -> np.ndarray:
        """The drafts of a step, one after the other, each some layers and the output projection."""
        asked = self.workload
        if not asked.draft_tokens:
            return np.zeros(len(self.layouts))
        one_s = self.step(self.decode_work(queries=1)).drafted_s(self.steps.model.layers, asked.draft_layers)
        return asked.draft_tokens * self.layouts["micro_batches"] * one_s

    def common(
        self, step: StepTimes, tpot: np.ndarray | None = None, ttft: np.ndarray | None = None,
        prefill: np.ndarray | None = None, decode: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:  # fmt: skip
        nothing = np.zeros(len(self.layouts))
        rate = nothing if tpot is None else self.layouts["batch"] / tpot
        return {
            "tokens_per_s": rate,
            "tokens_per_s_per_gpu": rate / self.layouts.gpus,
            "tokens_per_s_per_user": nothing if tpot is None else 1.0 / tpot,
            "ttft_s": nothing if ttft is None else ttft,
            "tpot_s": nothing if tpot is None else tpot,
            "decode_s": nothing if decode is None else decode,
            "prefill_s": nothing if prefill is None else prefill,
            "exchange_s": step.exchanges_s,
            "kernels": step.kernels,
        }

    def reasons(
        self, found: Mapping[str, np.ndarray], time_s: np.ndarray, short: np.ndarray | bool = False
    ) -> np.ndarray:
        """`short`: where chunks are too small for the prompts that come in."""
        reason = np.where(np.isfinite(time_s), 0, CODES["kernels"]).astype(np.int8)
        reason[short & np.ones(len(self.layouts), bool)] = CODES["chunk"]
        reason[~np.isfinite(found["exchange_s"])] = CODES["fabric"]
        late = (found["ttft_s"] > self.workload.ttft_max_s) | (found["tpot_s"] > self.workload.tpot_max_s)
        reason[(reason == 0) & late] = CODES["limit"]
        return reason


def _rest_s(share: np.ndarray, mixed_s: np.ndarray, alone_s: np.ndarray) -> np.ndarray:
    """What is left of the step that runs when a request comes, in the mean: it finds a step in proportion to how often
    there is one and how long it takes, and half of it over."""
    share = np.minimum(share, 1.0)
    with np.errstate(invalid="ignore"):  # steps that cannot run take forever
        return 0.5 * (share * mixed_s**2 + (1.0 - share) * alone_s**2) / (share * mixed_s + (1.0 - share) * alone_s)
