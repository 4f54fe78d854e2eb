"""The numbers of reasons that are the memory-bound kernels' own; see `dse.infeasible`."""

from collections.abc import Mapping
from typing import Any

from jaxmodel.reasons import Reason


def reason_numbers(reason: Reason, problem: Any, at: Mapping[str, Any], cost: Mapping[str, Any], gpu: Any) -> str:
    """What the schedule `at` needs and what there is; "" where a reason has no numbers."""
    record, vector = problem.arrays(), int(at["vector_bytes"])
    element, cols = float(record.element_bytes), int(record.cols)
    if reason is Reason.VECTOR:
        if vector < element:
            return f"a vector of {vector} B holds no element of {element:g} B"
        return f"rows of {cols * element:g} B are no whole vectors of {vector} B"
    if reason is Reason.ROW_PARTS:
        rows, splits, threads = int(at["rows_per_cta"]), int(at["splits"]), int(at["cta_threads"])
        if at["steps"] and float(record.reductions) and not float(record.group_cols):
            return f"steps = {int(at['steps'])} walk over rows that are reduced as a whole (steps = 0 takes rows)"
        if splits > 1 and float(record.passes) > 1:
            return f"{splits} CTAs share a row that is written once all of it is known"
        if splits > 1:
            return f"{splits} splits of a row of {-(-cols // max(int(vector / element), 1))} vectors leave some empty"
        return f"{threads} threads for {rows} of {int(record.rows)} rows"
    return ""
