"""Layouts of a model over GPUs: where groups lie on the nodes, and how micro-batches pass through stages."""

from .placement import Extent as Extent
from .placement import extent as extent
from .stages import decode_period_s as decode_period_s
from .stages import through_s as through_s
