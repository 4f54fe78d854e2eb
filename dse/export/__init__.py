"""Schedules as the tools that run them take them."""

from .cutlass import export_cutlass as export_cutlass
from .entry import Entry as Entry
from .entry import Exported as Exported
from .triton import export_triton as export_triton

TARGETS = ("triton", "cutlass")
