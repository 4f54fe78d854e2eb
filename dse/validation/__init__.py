"""Predictions held against measurements, over many problems."""

from ..shape_class import shape_classes as shape_classes
from .error_tables import breakdown as breakdown
from .error_tables import mean_of_gpus as mean_of_gpus
from .error_tables import pooled_bias as pooled_bias
from .error_tables import source_spread as source_spread
from .latency_errors import Errors as Errors
from .latency_errors import errors as errors
from .speedup import SpeedUp as SpeedUp
from .speedup import speedup_gemm as speedup_gemm
from .validate import GpuValidation as GpuValidation
from .validate import all_rows as all_rows
from .validate import pooled as pooled
from .validate import validate_gemm as validate_gemm
