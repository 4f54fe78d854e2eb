"""Element types of tensors, and what an accumulator is where none is named."""

DTYPE_BYTES: dict[str, float] = {
    "fp32": 4,
    "tf32": 4,  # stored as fp32, rounded by the tensor core
    "bf16": 2,
    "fp16": 2,
    "fp8": 1,  # e4m3 or e5m2
    "int8": 1,
    "fp4": 0.5,  # e2m1 with block scales; the scales are not counted
    "int32": 4,
}

ACCUMULATORS = ("fp32", "fp16", "int32")


def default_accumulator(dtype: str) -> str:
    """The accumulator of a GEMM that names none: int32 for integers, fp32 for floating types."""
    return "int32" if dtype.startswith("int") else "fp32"
