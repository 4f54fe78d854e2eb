"""Studies: questions asked of the model over many problems, and its predictions held against measurements."""

from .validate import Errors as Errors
from .validate import GpuValidation as GpuValidation
from .validate import pooled as pooled
from .validate import validate_gemm as validate_gemm
