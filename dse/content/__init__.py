"""Content: hardware, spaces and studies, from TOML to what the engine works with."""

from .dtypes import DTYPE_BYTES as DTYPE_BYTES
from .gpu import GpuFile as GpuFile
from .gpu import describe_gpus as describe_gpus
from .gpu import list_gpus as list_gpus
from .gpu import load_gpu as load_gpu
