"""Set up before any test imports jax, and what several test files share."""

import os
import signal
import sys
import warnings
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # as dse does, which tests of the model do not import

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook
from oracles.quick_compile import QUICK

install_import_hook("jaxmodel", "beartype.beartype")  # shapes in signatures are checked wherever a test calls the model
settings.register_profile("tilesweep", deadline=None)  # no test asserts a time
settings.load_profile("tilesweep")
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a job in the background; what it starts inherits it
    signal.signal(signal.SIGINT, signal.default_int_handler)

COMPILED_AS_FOR_USERS = {  # rounding, bounds and equal bits, also of other processes; a fit of thousands of steps
    "test_batch", "test_bounding", "test_calibrate_fit", "test_executors", "test_prune", "test_ray_cluster",
    "test_resume", "test_sweep", "test_tuning",
}  # fmt: skip
LONG = (  # first, so that no worker waits long for the other's last file
    "test_tuning", "test_elasticities", "test_fused_gemm", "test_target", "test_what_if", "test_gemm_chain_laws",
    "test_calibrate_fit", "test_moe_laws", "test_calibrate", "test_validate", "test_gemm_epilogue_laws",
    "test_gemm_chain_twin", "test_sweep", "test_export", "test_gemm_laws", "test_dequant_gemm_laws",
    "test_dequant_gemm", "test_docs", "test_batch", "test_cli", "test_executors", "test_resume",
)  # fmt: skip


def pytest_configure(config: pytest.Config):
    config.option.loadscopereorder = False  # xdist would begin with the files of most tests


def pytest_collection_modifyitems(items: list[pytest.Item]):
    items.sort(key=lambda item: LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG))


@pytest.fixture(scope="module")
def local_ray():
    import ray

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "os.fork")
        start_ray(ray)
    yield
    ray.shutdown()


def start_ray(ray):
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=100 * 2**20,
        log_to_driver=False,
        logging_level="ERROR",
    )


@pytest.fixture(autouse=True, scope="module")
def compiler(request: pytest.FixtureRequest):
    """`dse` compiles quickly, to slow code, except in files whose subject is what its code computes, to the bit."""
    compile_with({} if request.module.__name__ in COMPILED_AS_FOR_USERS else QUICK)


@pytest.fixture
def compiled_as_for_users(compiler: None):
    """For one test of a file: one that evaluates so much that slow code takes longer than compiling."""
    compile_with({})
    yield
    compile_with(QUICK)


def compile_with(options: dict[str, Any]):
    from dse import compiled

    if options != compiled.XLA_OPTIONS:
        compiled.XLA_OPTIONS.clear()
        compiled.XLA_OPTIONS.update(options)
        forget_what_is_compiled()


def forget_what_is_compiled():
    """Functions that `dse` keeps are made anew, with the options of the compiler as they stand."""
    for name, module in list(sys.modules.items()):
        if name.startswith("dse."):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


@pytest.fixture(autouse=True, scope="module")
def room_for_compiled_functions():
    """What a file's tests compiled is dropped after it: XLA crashes when a process holds too much of it."""
    yield
    from dse.compiled import make_room

    make_room()
