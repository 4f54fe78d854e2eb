"""Functions compiled by jax, and the room they take.

XLA maps every kernel of a compiled function into memory by itself, some 600 maps for GEMM's model. Linux gives a
process 65,530 (vm.max_map_count), and XLA dies of a segmentation fault, without a message, when one more is refused:
after a hundred large functions in one notebook or one run of the tests (measured with jax 0.10.1).
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

USUAL_MAPS = 65_530
FULL = 0.4  # of the maps: a function that is compiled next may need a few thousand
XLA_OPTIONS: dict[str, Any] = {}  # of the compiler, for `jit`; none for users, tests ask for quick compilation
_ONE_AT_A_TIME = threading.Lock()


def jit(function: Callable[..., Any], **options: Any) -> Any:
    """`jax.jit`, for functions of which a process may come to hold many: see `make_room`. The compiler's options are
    `XLA_OPTIONS` where the call gives none."""
    import jax

    make_room()
    given: dict[str, Any] = {"compiler_options": dict(XLA_OPTIONS) or None, **options}
    return jax.jit(function, **given)


def make_room() -> bool:
    """Drops what jax has compiled when its code takes much of the maps that a process may have; what is called again is
    compiled, or read from the cache on disk, again.

    Returns:
        whether it did. Where there is no /proc it never does.
    """
    with _ONE_AT_A_TIME:
        held = maps_held()
        if held is None or held < FULL * maps_allowed():
            return False
        import gc

        import jax

        jax.clear_caches()
        gc.collect()
        return True


def maps_held() -> int | None:
    """Memory maps of this process; None where the system does not tell."""
    try:
        with open("/proc/self/maps", "rb") as maps:
            return sum(1 for _ in maps)
    except OSError:
        return None


def maps_allowed() -> int:
    """Memory maps that a process may have."""
    try:
        return int(Path("/proc/sys/vm/max_map_count").read_text())
    except (OSError, ValueError):
        return USUAL_MAPS
