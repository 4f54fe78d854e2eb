"""Tensor instruction families: what one CTA's share of an instruction looks like.

These are facts of the instruction set, not of a part, so they stand here and not in the GPU files. `FAMILIES` maps a
family's name to the values of `jaxmodel.machine.Mma`: the smallest instruction's rows and columns, the widest
instruction's columns, its depth in bytes (16 elements of bf16, 32 of fp8), where operands and accumulators live, the
threads of the warps beside those that compute, and whether loads go through TMA (16-byte alignment).
"""

FAMILIES: dict[str, dict[str, int]] = {
    # m16n8k16; operands reach the tensor core through registers (ldmatrix), copies are issued by the computing warps.
    # n_max: a warp keeps its rows in registers while it walks the columns, so wide tiles do not read them again
    "mma_sync": {
        "m": 16,
        "n": 8,
        "n_max": 256,
        "k_bytes": 32,
        "operands_in_smem": 0,
        "accumulator_in_tmem": 0,
        "async_copy_threads": 0,
        "tma": 0,
    },
    # m64nNk16, N a multiple of 8 up to 256; one producer warpgroup feeds the consumers by TMA
    "wgmma": {
        "m": 64,
        "n": 8,
        "n_max": 256,
        "k_bytes": 32,
        "operands_in_smem": 1,
        "accumulator_in_tmem": 0,
        "async_copy_threads": 128,
        "tma": 1,
    },
    # m128nNk16, N a multiple of 16 up to 256, accumulators in TMEM; one TMA warp and one warp that issues the MMA.
    # In a 2-CTA pair this is each CTA's half of m256
    "tcgen05": {
        "m": 128,
        "n": 16,
        "n_max": 256,
        "k_bytes": 32,
        "operands_in_smem": 1,
        "accumulator_in_tmem": 1,
        "async_copy_threads": 64,
        "tma": 1,
    },
}
