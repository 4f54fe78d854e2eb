"""The GPU file of a run's machine, found again from the words in which the run keeps its changes."""

from dataclasses import replace

import numpy as np
import pytest
from report_runs import small_run

from dse.content.gpu import load_gpu
from dse.report.run_machine import machine_of, overrides_of, same_record
from dse.runs import open_run


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """A run on a changed GPU."""
    folder = tmp_path_factory.mktemp("runs") / "changed"
    small_run(folder, overrides={"l2_capacity": "2x", "sm_count": "1.5x"}, clock="sustained")
    return open_run(folder)


@pytest.mark.parametrize(
    "overrides",
    [
        {"l2_capacity": "2x"},
        {"sm_count": "1.1x"},
        {"sm_count": 200, "ddr_bytes_per_s": 6e12},
        {"tensor_flop_per_clock_sm": "2x"},
        {"clock_hz": "+10%"},
        {"smem_per_sm_bytes": "1.5x"},
        {"tensor_efficiency": "1.05x"},
        {"launch_overhead_s": "0.5x"},
    ],
)
def test_what_a_file_says_of_its_changes_makes_them_again(overrides):
    changed = load_gpu("h200_sxm", overrides)
    again = load_gpu("h200_sxm", overrides_of(changed.changes))
    assert same_record(changed.bind("fp8"), again.bind("fp8"))
    assert not same_record(changed.bind("fp8"), load_gpu("h200_sxm").bind("fp8"))


def test_the_machine_of_a_run(changed):
    found = machine_of(changed)
    assert found is not None
    gpu, overrides = found
    assert overrides == {"l2_capacity_bytes": "2x", "sm_count": "1.5x"}
    assert gpu["sm_count"] == 198


def test_numbers_that_are_not_the_files_have_no_machine(changed):
    other = replace(changed.job.gpu, l2_ways=np.float32(3))
    assert machine_of(replace(changed, job=replace(changed.job, gpu=other))) is None
