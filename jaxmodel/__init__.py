"""What a GPU kernel costs: pure functions on arrays. Nothing here reads a file, knows a name or raises on a value."""

from ._exact import ceil_div as ceil_div
from ._exact import floor_div as floor_div
from ._pytree import pytree as pytree
from .kernels import gemm as gemm
from .machine import Gpu as Gpu
from .machine import Mma as Mma
from .reasons import ADVICE as ADVICE
from .reasons import Reason as Reason
from .types import BOUNDS as BOUNDS
from .types import OCCUPANCY_LIMITERS as OCCUPANCY_LIMITERS
from .types import PIPELINES as PIPELINES
from .types import Cost as Cost
from .types import Gemm as Gemm
from .types import GemmSchedule as GemmSchedule
