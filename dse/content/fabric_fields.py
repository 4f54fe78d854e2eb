"""Every number a fabric file holds: its table, unit, allowed range and meaning.

A table `[level]` says what is joined; each protocol has a table of its own with the same six numbers. A protocol that
a file leaves out does not exist on that level.
"""

from .gpu_fields import Field

MOST_RANKS = 2**16  # exact in the model: `jaxmodel.network.steps.tree_depth`
RATE = {"positive": False, "low": 1.0, "high": 1e18}  # finite times in float32
PROTOCOLS = {
    "ll": "chained steps, flags beside the data in every word",
    "ll128": "chained steps, flags in every 128 bytes",
    "simple": "chained steps, flags after the data",
    "exchange_ll": "pairwise sends of little data (all-to-all, send)",
    "exchange": "pairwise sends of much data",
    "direct": "loads and stores to all peers at once, an inference engine's kernel",
    "multicast": "the switch reduces and multicasts, the library's kernel",
    "multimem": "the switch reduces and multicasts, an inference engine's kernel",
}


def _level() -> tuple[Field, ...]:
    whole, maybe = {"whole": True}, {"positive": False}
    ones = {"low": 1.0, "positive": False, "default": 1.0}
    return (
        Field("ranks_max", "level", "GPUs", "most GPUs that the level joins", low=1, high=MOST_RANKS, **maybe, **whole),
        Field("link_bytes_per_s", "level", "bytes a second", "one GPU's links, each way, of the datasheet", **RATE),
        Field("copy_bytes_per_s", "level", "bytes a second", "a rank's own piece copied beside the transfers", **RATE),
        Field("exchange_ll_max_bytes", "level", "bytes to a peer", "pairwise sends by exchange_ll up to here", **maybe),
        Field("gpus_per_link", "level", "GPUs", "that share a link, e.g. a NIC", **ones),
        Field("oversubscription", "level", "ratio", "of a leaf switch, its links over its uplinks", **ones),
        Field("leaf_ranks", "level", "ranks", "that a leaf switch joins; 0: all", default=0.0, **maybe),
        Field(
            "sm_bytes_per_s",
            "level",
            "bytes a second",
            "what one SM moves to peers; 0: no limit known",
            default=0.0,
            **maybe,
        ),
        Field("multicast_ranks_min", "level", "GPUs", "from here the switch reduces", default=2.0, **maybe),
    )


def _protocol(table: str) -> tuple[Field, ...]:
    seconds = {"positive": False, "high": 1.0}
    return (
        Field("start_s", table, "s", "start of a collective's kernel", **seconds),
        Field("hop_s", table, "s", "one dependent step", **seconds),
        Field("peer_s", table, "s", "each further peer in a step", default=0.0, **seconds),
        Field("bytes_per_s", table, "bytes a second", "one GPU's links, each direction", **RATE),
        Field("sms", table, "SMs", "that its kernel occupies, at most", positive=False, default=0.0, high=1024.0),
        Field("peer_bytes_per_s", table, "bytes a second", "to one peer; 0: as the links", positive=False, default=0.0),
    )


LEVEL = {field.name: field for field in _level()}
PROTOCOL = {table: {field.name: field for field in _protocol(table)} for table in PROTOCOLS}
COPY_ENGINE = (
    "copy_engine"  # no protocol of collectives: copies beside kernels; `hop_s` each copy and the flag behind it
)
TABLES = {"level": LEVEL, **PROTOCOL, COPY_ENGINE: {field.name: field for field in _protocol(COPY_ENGINE)}}
