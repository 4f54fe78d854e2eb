"""Layouts as `vllm serve` command lines. Options as in vLLM's documentation of its engine arguments; its expert
parallel size is always tensor x data parallel size, and its ranks are numbered tensor, pipeline, data parallel."""

from ...serving.layouts import FUSED
from .launch import LACKS, Launch, command

REFUSED = {
    **LACKS,
    "sequence_parallel": "it is a compilation pass whose name differs between versions; the layout with "
    "sequence_parallel=0 can be launched",
}


def launch_vllm(launch: Launch) -> str:
    """The command; "" where `launch.refused` says why not."""
    launch.refuse_above_one(REFUSED)
    launch.refuse_order(("tp", "pp", "dp"))
    tp, pp, dp, block = launch["tp"], launch["pp"], launch["dp"], launch.block
    words = ["vllm", "serve", launch.facts["checkpoint"], "--tensor-parallel-size", tp]
    words += ["--pipeline-parallel-size", pp] if pp > 1 else []
    words += ["--data-parallel-size", dp] if dp > 1 else []
    launch.refuse_micro_batches()
    if launch.facts["experts"] and block > 1:
        if launch["experts_tp"] == 1:
            words.append("--enable-expert-parallel")
        elif launch["experts_tp"] != block:
            launch.refused.append(
                f"experts_tp = {launch['experts_tp']}: experts are shared whole by all tp x dp GPUs (experts_tp=1) or "
                f"by columns (experts_tp={block})"
            )
    if launch["exchange"]:
        words += ["--all2all-backend", "deepep_low_latency"]
        launch.notes.append("all_to_all needs DeepEP; deepep_high_throughput suits instances that prefill")
    if launch["overlap"] == FUSED:
        launch.refused.append("overlap = fused: products and collectives as one kernel")
    elif launch["overlap"]:
        if dp > 1 and launch["exchange"]:
            words.append("--enable-dbo")
        else:
            launch.refused.append("two_batches: only with data and expert parallel and exchange=all_to_all")
    words += ["--decode-context-parallel-size", launch["kv_split"]] if launch["kv_split"] > 1 else []
    words += ["--max-num-seqs", launch["batch"] // dp, "--max-model-len", launch.longest]
    whole = launch.whole_prompts  # vLLM starts so only where a step can hold the longest sequence
    words += ["--max-num-batched-tokens", max(launch.step_tokens, launch.longest) if whole else launch.step_tokens]
    words += ["--no-enable-chunked-prefill"] if whole else []
    words += ["--gpu-memory-utilization", f"{launch.facts['engine_numbers']['memory_share']:g}"]
    words += launch.note_types("--quantization")
    words += ["--kv-cache-dtype", "fp8"] if launch.cache_in_fp8() else []
    words += [] if launch.facts["graphs"] else ["--enforce-eager"]
    if launch.nodes > 1:
        words += ["--distributed-executor-backend", "ray"]
        launch.notes.append(f"first start Ray on the {launch.nodes} nodes")
    launch.note_workload("say how with --speculative-config, and num_speculative_tokens in it")
    return "" if launch.refused else command(words)
