"""Set up before any test imports jax, and what several test files share."""

import os
import signal
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # as dse does, which tests of the model do not import

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

install_import_hook("jaxmodel", "beartype.beartype")  # shapes in signatures are checked wherever a test calls the model
settings.register_profile("tilesweep", deadline=None)  # no test asserts a time
settings.load_profile("tilesweep")
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a job in the background; what it starts inherits it
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
def room_for_compiled_functions():
    """What a file's tests compiled is dropped after it: XLA crashes when a process holds too much of it."""
    yield
    from dse.compiled import make_room

    make_room()
