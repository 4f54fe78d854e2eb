"""Layouts as `sglang.launch_server` command lines. Options as in SGLang's documentation of its server arguments: its
tensor parallel size counts all GPUs of a stage, of which attention data parallelism makes groups."""

from ...serving.layouts import FUSED
from .launch import LACKS, Launch, command

REFUSED = {
    **LACKS,
    "kv_split": "keys of the same heads on several GPUs in decode",
    "sequence_parallel": "an all-reduce cannot be split around the norms; the layout with sequence_parallel=0 can be "
    "launched",
}


def launch_sglang(launch: Launch) -> str:
    """The command; "" where `launch.refused` says why not."""
    launch.refuse_above_one(REFUSED)
    launch.refuse_order(("tp", "dp", "pp"))
    pp, dp = launch["pp"], launch["dp"]
    words = ["python", "-m", "sglang.launch_server", "--model-path", launch.facts["checkpoint"]]
    words += ["--tp-size", launch["tp"] * dp]
    words += ["--dp-size", dp, "--enable-dp-attention"] if dp > 1 else []
    words += ["--ep-size", launch.ep] if launch.ep > 1 else []
    if pp > 1:
        words += ["--pp-size", pp, "--pp-max-micro-batch-size", launch.sequences]
    words += ["--moe-a2a-backend", "deepep"] if launch["exchange"] else []
    if launch["overlap"] == FUSED:
        launch.refused.append("overlap = fused: products and collectives as one kernel")
    elif launch["overlap"]:
        words.append("--enable-two-batch-overlap")
        if not launch.facts["experts"]:
            launch.refused.append("two_batches: only of models with experts")
    words += ["--max-running-requests", launch["batch"], "--context-length", launch.longest]
    if launch["chunk"]:
        words += ["--chunked-prefill-size", launch["chunk"] * dp, "--enable-mixed-chunk"]
    elif launch.whole_prompts:
        words += ["--chunked-prefill-size", -1]
    words += ["--mem-fraction-static", f"{_static_share(launch):.2f}"]
    words += launch.note_types("--quantization")
    words += ["--kv-cache-dtype", "fp8_e4m3"] if launch.cache_in_fp8() else []
    words += [] if launch.facts["graphs"] else ["--disable-cuda-graph"]
    if launch.nodes > 1:
        words += ["--nnodes", launch.nodes, "--node-rank", "RANK", "--dist-init-addr", "HEAD:PORT"]
        launch.notes.append("on every node: RANK is its number, HEAD:PORT the address of node 0")
    launch.note_workload("say how with --speculative-algorithm and --speculative-num-draft-tokens")
    return "" if launch.refused else command(words)


def _static_share(launch: Launch) -> float:
    """Of the memory, what weights and cache may have."""
    numbers, memory = launch.facts["engine_numbers"], launch.facts["memory_bytes"]
    spared = numbers["reserved_bytes"] + launch.row["activation_bytes"]
    return numbers["memory_share"] - spared / memory
