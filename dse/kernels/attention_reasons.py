"""The numbers of reasons that are attention's own; see `dse.infeasible`."""

from collections.abc import Mapping
from typing import Any

from jaxmodel.reasons import Reason

ORDERS = ("serial", "pipelined", "ping_pong", "both")


def reason_numbers(reason: Reason, problem: Any, at: Mapping[str, Any], cost: Mapping[str, Any], gpu: Any) -> str:
    """What the schedule `at` needs and what there is; "" where a reason has no numbers."""
    mma, tile_m, tile_n = gpu.mma, int(at["tile_m"]), int(at["tile_n"])
    whole = mma.operands_in_smem > 0 or mma.accumulator_in_tmem > 0
    if reason is Reason.MMA_SHAPE:
        return f"blocks of {tile_n} keys are no multiple of {int(max(mma.n, 16))}"
    if reason is Reason.WARP_TILE:
        rows = int(mma.m if whole else 4 * mma.m)
        return f"{tile_m} rows do not divide over {int(at['warpgroups'])} warpgroups of {rows} rows"
    if reason is Reason.PRODUCT_ORDER:
        return f"order {ORDERS[int(at['order'])]} with {int(at['warpgroups'])} warpgroup(s)"
    if reason is Reason.TMEM:
        groups = -(-tile_m // int(mma.m))
        return f"scores of {tile_n} and outputs of {problem.v_dim} columns for {groups} x 128 rows, an SM has " + str(
            int(gpu.tmem_columns)
        )
    if reason is Reason.SPLIT_KV:
        return f"{int(at['splits'])} splits of at most {-(-problem.kv_tokens // tile_n)} blocks of keys"
    if reason is Reason.SAME_ORDER:
        return f"sections of {int(at['head_section'])} heads matter where the longest tiles are launched first"
    return ""
