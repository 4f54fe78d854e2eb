"""Prefill and decode on GPUs of their own: which layouts for either, and how many instances of each.

A prefill instance makes R_p prompts a second, a decode instance finishes R_d answers a second. x and y of them on the
GPUs there are serve min(x R_p, y R_d) requests a second. A user sees a decode instance's time a token, and the time to
the first token of a prefill instance and of the cache on its way. For either side only layouts matter that no other
beats in rate, in what a user sees and in GPUs: that front is exact, so is what is made of it.
"""

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..content.dtypes import DTYPE_BYTES
from ..content.model import GroupedAttention
from ..errors import UserError
from ..front import non_dominated
from ..progress import Progress
from ..space import Space
from .collective_times import CollectiveTimes, Exchange
from .kernel_times import KernelTimes
from .layouts import FIELDS, REASONS
from .serve import LayoutResult, Service, sweep_layouts

if TYPE_CHECKING:
    import pandas as pd

DECODE = ("tokens_per_s", "tokens_per_s_per_user", "gpus")
PREFILL = ("tokens_per_s", "ttft_s", "gpus")
COLUMNS = {  # name -> (unit, meaning)
    "tokens_per_s": ("tokens/s", "answers of all instances"),
    "tokens_per_s_per_gpu": ("tokens/s", "the same over the GPUs there are, idle ones included"),
    "tokens_per_s_per_user": ("tokens/s", "of one sequence: 1 / tpot_s"),
    "ttft_s": ("s", "from a request to its first token: the prompt, and its cache sent to a decode instance"),
    "tpot_s": ("s", "from a token of an answer to the next"),
    "transfer_s": ("s", "a prompt's cache from a prefill to a decode instance; part of ttft_s"),
    "gpus_used": ("GPUs", "of all instances"),
    "prefill_instances": ("1", "instances that prefill"),
    "decode_instances": ("1", "instances that decode"),
}


@dataclass(frozen=True)
class Disaggregated:
    """What was found.

    Attributes:
        front: throughput a GPU against tokens a second for a user, exact, the fastest for a user first: `COLUMNS`, and
            the fields of the prefill and of the decode layouts, with `prefill_` and `decode_` before their names.
        prefill, decode: the sweeps of either side.
        seconds: of all of it.
    """

    front: "pd.DataFrame"
    prefill: LayoutResult
    decode: LayoutResult
    seconds: float


def sweep_disaggregated(
    service: Service,
    prefill_space: Space,
    decode_space: Space,
    *,
    kernels: KernelTimes | None = None,
    progress: Progress = None,
) -> Disaggregated:
    """The exact front of prefill and decode on GPUs of their own.

    Args:
        service: what is served on what; the phase of its workload is "serve". Limits hold for the whole: the cache's
            way counts as time to the first token.
        prefill_space, decode_space: of layouts.
        kernels: tuned before, on the same GPU with the same engine; None: none.
        progress: as in `dse.sweep.run_sweep`.

    Raises:
        UserError: another phase; no layout of a side can run, with the reason of those that come nearest; or too few
            GPUs for both sides.
    """
    asked = service.workload
    if asked.phase != "serve":
        raise UserError(
            f"phase {asked.phase} of a workload on GPUs of its own: give 'serve', prefill and decode are looked at both"
        )
    began = time.perf_counter()
    kernels = kernels or KernelTimes(service.gpu, service.engine, service.clock)
    sides = []
    for phase, space, objectives in (("prefill", prefill_space, PREFILL), ("decode", decode_space, DECODE)):
        side = replace(service, workload=replace(asked, phase=phase))
        found = sweep_layouts(side, space, objectives=objectives, kernels=kernels, progress=progress)
        if found.front.empty:
            nearest = [reason for reason in REASONS if reason in found.reasons][-1]
            fix = "loosen --ttft-max or --tpot-max" if nearest == "limit" else "give more GPUs or narrower weights"
            raise UserError(
                f"no layout of {space.name} can {phase} {service.model.name} on {service.gpus} GPUs; of those that "
                f"come nearest: {REASONS[nearest]}; {fix}, or widen the space"
            )
        sides.append(found)
    prefill, decode = sides
    least = [int(side.front["gpus"].min()) for side in sides]
    if sum(least) > service.gpus:
        raise UserError(
            f"gpus = {service.gpus} is not allowed: the smallest layout that prefills has {least[0]}, the smallest "
            f"that decodes {least[1]}, and each needs its own; give more GPUs, or let both use the same ones"
        )
    return Disaggregated(_joined(service, prefill.front, decode.front), prefill, decode, time.perf_counter() - began)


def _joined(service: Service, prefill: "pd.DataFrame", decode: "pd.DataFrame") -> "pd.DataFrame":
    """The front over all pairs of layouts and numbers of instances."""
    import pandas as pd

    asked = service.workload
    prompts_per_s = prefill["tokens_per_s"].to_numpy() / asked.input_tokens
    answers_per_s = decode["tokens_per_s"].to_numpy() / asked.output_tokens
    p_gpus, d_gpus = prefill["gpus"].to_numpy(int), decode["gpus"].to_numpy(int)
    transfer_s = _transfer_s(service, p_gpus, d_gpus)
    ttft_s = prefill["ttft_s"].to_numpy()[:, None] + transfer_s
    in_time = ttft_s <= asked.ttft_max_s
    best_rate = np.zeros(in_time.shape)
    best_x = np.zeros(in_time.shape, int)
    best_y = np.zeros(in_time.shape, int)
    for y in range(1, service.gpus // int(d_gpus.min()) + 1):
        x = np.maximum((service.gpus - y * d_gpus)[None, :], 0) // p_gpus[:, None]
        rate = np.where(in_time, np.minimum(x * prompts_per_s[:, None], y * answers_per_s[None, :]), 0.0)
        more = rate > best_rate
        best_rate, best_x, best_y = (
            np.where(more, rate, best_rate),
            np.where(more, x, best_x),
            np.where(more, y, best_y),
        )
    p_at, d_at = np.nonzero(best_rate > 0)
    rate = best_rate[p_at, d_at]
    x = np.minimum(best_x[p_at, d_at], np.ceil(rate / prompts_per_s[p_at] - 1e-9).astype(int))  # no idle instance
    y = best_y[p_at, d_at]
    columns: dict[str, Any] = {
        "tokens_per_s": rate * asked.output_tokens,
        "tokens_per_s_per_gpu": rate * asked.output_tokens / service.gpus,
        "tokens_per_s_per_user": decode["tokens_per_s_per_user"].to_numpy()[d_at],
        "ttft_s": ttft_s[p_at, d_at],
        "tpot_s": decode["tpot_s"].to_numpy()[d_at],
        "transfer_s": transfer_s[p_at, d_at],
        "gpus_used": x * p_gpus[p_at] + y * d_gpus[d_at],
        "prefill_instances": x,
        "decode_instances": y,
    }
    for side, table, at in (("prefill", prefill, p_at), ("decode", decode, d_at)):
        columns |= {f"{side}_{name}": table[name].to_numpy()[at] for name in FIELDS}
    every = pd.DataFrame(columns)
    if every.empty:
        return every
    objectives = every[["tokens_per_s_per_gpu", "tokens_per_s_per_user"]].to_numpy(np.float64)
    front = every[non_dominated(-objectives)]
    order = ["tokens_per_s_per_user", "tokens_per_s_per_gpu", "ttft_s", "gpus_used"]
    front = front.sort_values(order, ascending=[False, False, True, True], kind="stable")
    return front.drop_duplicates(order[:2], ignore_index=True)  # of equal points the one with the first token soonest


def _transfer_s(service: Service, p_gpus: np.ndarray, d_gpus: np.ndarray) -> np.ndarray:
    """Seconds that a prompt's cache takes: every GPU of the smaller instance sends or receives its share; [p, d]."""
    model, at = service.model, service.model.attention
    numbers = 2 * at.kv_heads * at.head_dim if isinstance(at, GroupedAttention) else at.kv_rank + at.rope_dim
    cache_bytes = numbers * DTYPE_BYTES[service.types.kv_dtype or service.types.wide] * model.layers
    links = np.minimum(p_gpus[:, None], d_gpus[None, :]).reshape(-1)
    apart = len(service.fabric.levels) > 1
    inside, across = (1, 2) if apart else (2, 1)
    bytes_ = service.workload.input_tokens * cache_bytes / links
    prices = CollectiveTimes(service.fabric, service.engine.rule)
    (seconds,) = prices.seconds([Exchange("cache", "send", bytes_, inside, across, "")], len(links))
    return seconds.reshape(len(p_gpus), len(d_gpus))
