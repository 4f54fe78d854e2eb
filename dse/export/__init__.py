"""Schedules as the tools that run them take them."""

from .cutlass import export_cutlass as export_cutlass
from .entry import Entry as Entry
from .entry import Exported as Exported
from .run import TARGETS as TARGETS
from .run import entries_of as entries_of
from .run import export_run as export_run
from .table import export_csv as export_csv
from .table import export_json as export_json
from .tilelang import export_tilelang as export_tilelang
from .triton import export_triton as export_triton
