"""Collectives over nodes as users ask for them: beside published times, on parts of nodes, on what several share."""

import numpy as np
import pytest
from cli_run import answer

from dse.collective_table import collectives
from dse.validation.collectives_published import published


def test_published_times_over_nodes_are_predicted() -> None:
    """Rows that nothing was fitted on. Of A100s on EFA, whose starts are those of the H100s' EFA, 64 MiB and more."""
    found = [row for row in published() if not row.fitted]
    for what in {row.what for row in found}:
        own = [row for row in found if row.what == what and ("A100" not in what or row.bytes >= 2**26)]
        assert np.mean([abs(row.error) for row in own]) <= 0.22, what
        assert all(row.source and row.note for row in own)
    assert sum(row.fitted for row in published()) == 36


def test_published_all_reduces_over_nodes_and_racks() -> None:
    """What docs/collectives.md states of them, with some room: -10 %, 65 us, -0.5 %.

    248 H200 nodes on NDR InfiniBand: about 350 GB/s of bus bandwidth at 512 MiB (nccl-tests issue 283); 32 nodes of
    8 A100 with four HDR NICs: 4 to 128 bytes in 62 to 71 us (NVIDIA/nccl issue 652), none of them a number that was
    fitted; a rack of 72 GPUs: 2 GiB in 5.59 ms (coreweave/nccl-tests pull request 43)."""
    nodes = collectives("all_reduce", [2.0**29], [1984], ["nvlink4_x8+infiniband_ndr"])
    assert nodes["bus_bytes_per_s"].iloc[0] == pytest.approx(350e9, rel=0.15)
    shared = {"1:gpus_per_link": "2"}
    little = collectives("all_reduce", [4.0, 128.0], [256], ["nvlink3_x8+infiniband_hdr"], overrides=shared)
    assert ((little["latency_s"] > 55e-6) & (little["latency_s"] < 75e-6)).all()
    rack = collectives("all_reduce", [2.0**31], [72], ["nvl72"])
    assert rack["latency_s"].iloc[0] == pytest.approx(5.59e-3, rel=0.1)
    assert rack["algorithm"].iloc[0] == "in-switch"


OWN = {"ring", "double tree of nodes", "in-switch, double tree", "all peers at once", "chain"}  # NCCL's, over nodes


def test_parts_of_nodes_and_a_gpu_of_each() -> None:
    fabric = ["nvlink4_x8+infiniband_ndr"]
    four, eight = (collectives("all_reduce", [2.0**26], [16], fabric, gpus_per_node=count) for count in (4, 8))
    assert list(four["gpus_per_node"]) == [4]
    assert four["network_bytes"].iloc[0] > eight["network_bytes"].iloc[0]
    assert four["latency_s"].iloc[0] > eight["latency_s"].iloc[0]
    inside = collectives("all_gather", [2.0**26], [4], fabric, gpus_per_node=4)
    alone = collectives("all_gather", [2.0**26], [4], ["nvlink4_x8"])
    assert list(inside["latency_s"]) == list(alone["latency_s"])
    apart = collectives("all_gather", [2.0**26], [4], fabric, gpus_per_node=1)
    network = collectives("all_gather", [2.0**26], [4], ["infiniband_ndr"])
    assert apart["latency_s"].iloc[0] == pytest.approx(
        network["latency_s"].iloc[0], rel=1e-3
    )  # copies, of either level
    assert apart["network_bytes"].iloc[0] == pytest.approx(network["wire_bytes"].iloc[0])
    message = collectives("send", [2.0**26], [16], fabric)
    assert list(message["latency_s"]) == list(collectives("send", [2.0**26], [2], ["infiniband_ndr"])["latency_s"])


def test_the_rule_holds_over_nodes_and_sms_are_told(capsys) -> None:
    sizes, fabric = [2.0**10, 2.0**20, 2.0**30], ["nvlink4_x8+infiniband_ndr"]
    for name in ("all_reduce", "all_gather", "all_to_all", "broadcast"):
        nccl, best = (collectives(name, sizes, [64], fabric, rule) for rule in ("nccl", "best"))
        assert (best["latency_s"] <= nccl["latency_s"]).all()
        assert set(nccl["algorithm"]) <= OWN
    assert (collectives("all_reduce", sizes, [64], fabric)["sms"] == 16).all()
    assert set(collectives("all_reduce", sizes, [8], fabric)["sms"]) == {24.0, 16.0}  # rings, the switch
    _, out, _ = answer(capsys, "collective", "all_reduce", "--ranks", "16", "--gpus-per-node", "4", "--fabric", *fabric)
    assert "4 x 4" in out
    assert "SMs" in out.splitlines()[0]


def test_an_oversubscribed_leaf_is_paid_for_by_what_leaves_it() -> None:
    """Four nodes to a leaf, uplinks of an eighth: all peers at once pay, a ring of few crossings pays two-fold."""
    fabric, leaves = ["nvlink4_x8+infiniband_ndr"], {"1:leaf_ranks": "4", "1:oversubscription": "8"}

    def slower(name: str, ranks: int) -> float:
        now, then = (collectives(name, [2.0**32], [ranks], fabric, overrides=change) for change in (None, leaves))
        return float(then["latency_s"].iloc[0] / now["latency_s"].iloc[0])

    assert 7.5 * 60 / 63 < slower("all_to_all", 512) < 8
    assert 1.8 < slower("all_gather", 512) < 2
    assert slower("all_to_all", 32) == 1
    shared = collectives("all_gather", [2.0**32], [16], fabric, overrides={"1:gpus_per_link": "2"})
    alone = collectives("all_gather", [2.0**32], [16], fabric)
    assert shared["latency_s"].iloc[0] / alone["latency_s"].iloc[0] == pytest.approx(2, rel=0.02)


def test_one_node_of_several_is_the_node_alone() -> None:
    sizes = [2.0**12, 2.0**26]
    alone = collectives("all_reduce", sizes, [8], ["nvlink4_x8"])
    joined = collectives("all_reduce", sizes, [8, 16], ["nvlink4_x8+infiniband_ndr"])
    assert list(joined["latency_s"][:2]) == list(alone["latency_s"])
    assert (joined["network_bytes"][:2] == 0).all()
    assert (joined["network_bytes"][2:] > 0).all()
    assert (joined["latency_s"][2:].to_numpy() > alone["latency_s"].to_numpy()).all()
