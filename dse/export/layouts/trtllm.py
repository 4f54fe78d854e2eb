"""Layouts as `trtllm-serve` command lines with the YAML file of options beside them. Names as in TensorRT-LLM's
documentation of the LLM API: the tensor parallel size counts all GPUs of a stage; attention is shared by all of them or
has sequences of its own on each."""

from .launch import LACKS, Launch, command
from .plain import yaml_lines

FILE = "layout.yaml"
REFUSED = {
    **LACKS,
    "kv_split": "keys of the same heads on several GPUs in decode",
    "sequence_parallel": "an all-reduce cannot be split around the norms; the layout with sequence_parallel=0 can be "
    "launched",
    "overlap": "neither two halves of a batch in turns nor fused collectives; the layout with overlap=none can be "
    "launched",
}


def launch_trtllm(launch: Launch) -> str:
    """The file and the command; "" where `launch.refused` says why not."""
    launch.refuse_above_one(REFUSED)
    launch.refuse_order(("tp", "dp", "pp"))
    tp, pp, dp = launch["tp"], launch["pp"], launch["dp"]
    if dp > 1 and tp > 1:
        launch.refused.append(f"tp = {tp} with dp = {dp}: attention data parallel has one GPU a group (tp=1)")
    launch.refuse_micro_batches()
    in_fp8 = launch.cache_in_fp8()
    launch.note_types(None)
    if launch.nodes > 1:
        launch.notes.append(f"on {launch.nodes} nodes: start it through trtllm-llmapi-launch under MPI or Slurm")
    launch.note_workload("say how in speculative_config")
    if launch.refused:
        return ""
    options: dict = {"tensor_parallel_size": tp * dp, "pipeline_parallel_size": pp}
    if launch.facts["experts"]:
        options |= {"moe_tensor_parallel_size": launch["experts_tp"], "moe_expert_parallel_size": launch.ep}
    options |= {
        "enable_attention_dp": dp > 1,
        "max_batch_size": launch.sequences,
        "max_num_tokens": launch.step_tokens,
        "max_seq_len": launch.longest,
        "enable_chunked_prefill": launch["chunk"] > 0,
        "cuda_graph_config": {"max_batch_size": launch.sequences, "enable_padding": True}
        if launch.facts["graphs"]
        else None,
        "kv_cache_config": {
            "free_gpu_memory_fraction": launch.facts["engine_numbers"]["memory_share"],
            "dtype": "fp8" if in_fp8 else "auto",
        },
    }
    call = command(["trtllm-serve", launch.facts["checkpoint"], "--extra_llm_api_options", FILE])
    return "\n".join([f"cat > {FILE} <<'EOF'", *yaml_lines(options), "EOF", call])
