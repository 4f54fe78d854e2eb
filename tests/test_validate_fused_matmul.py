"""Published GEMMs that communicate: how close the model stays to them, and what a row decides of its schedule."""

import pytest

from dse.validation.fused_communication import FusedRow, figures, fused_rows, mean_error, weighted_error
from dse.validation.fused_matmul import predict_matmul

# groups whose kernels are no slower than the library's collective and GEMM in turn, by their own tables, and the mean
# error that docs/fused-communication.md states of each, rounded up to whole per cents and one more
STATED = {
    "ag_gemm, ThunderKittens": 0.11,
    "gemm_rs, mKernel": 0.15,
    "gemm_ar, ThunderKittens": 0.11,
    "gemm_ar, FlagTree": 0.12,
}


@pytest.fixture(scope="module")
def rows() -> list[FusedRow]:
    return fused_rows(["ag_gemm", "gemm_rs", "gemm_ar"])


@pytest.mark.parametrize(("group", "most"), STATED.items())
def test_rows_of_kernels_that_pay_are_as_close_as_is_stated(rows, group: str, most: float) -> None:
    own = [row for row in rows if row.what.startswith(group)]
    assert len(own) >= 5
    assert mean_error(own) <= most


def test_fused_is_never_predicted_slower_than_the_published_kernel_by_much(rows) -> None:
    """The model has the best schedule of the kernel's kind, so it may be faster than a kernel, hardly slower."""
    assert max(row.error for row in rows) < 0.2


def test_what_they_were_compared_with_is_the_library_one_after_the_other() -> None:
    apart = fused_rows(["gemm_rs", "gemm_ar"], apart=True)
    assert len(apart) == 20
    assert weighted_error(apart) <= 0.06  # 4.5 and 3.6 % are stated: GEMMs and collectives as close as by themselves
    names = {row.name: row.measured_s for row in apart}
    for figure in figures(["gemm_rs", "gemm_ar"], exact=True):
        assert names.get(figure.name) == figure.get("unfused_s")


def test_published_sms_and_tiles_are_those_that_are_predicted() -> None:
    of_kernel = [row for row in figures(["gemm_ar"]) if row.name.startswith("ThunderKittens")]
    for row, made in zip(of_kernel, predict_matmul(of_kernel), strict=True):
        words = made.how.split()
        assert {f"comm_sms={row['comm_sms']}", "tile_m=128", "tile_n=256", "transport=switch"} <= set(words)
        assert made.measured_s == row.value
