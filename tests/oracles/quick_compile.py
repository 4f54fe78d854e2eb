"""XLA's options for functions that a test calls a few times: compiled in a quarter of the time, to slower code.

What the compiler's optimizations do to float32 numbers is left out with them. Tests of equations in float64 and of what
users are shown do without; tests of rounding, bounds and equal bits compile as users' sweeps do.
"""

from typing import Any

import jax

QUICK: dict[str, Any] = {"xla_backend_optimization_level": 0, "xla_cpu_parallel_codegen_split_count": 1}
if jax.__version_info__ < (0, 11):
    QUICK["xla_cpu_use_fusion_emitters"] = False  # later XLA has no others
