"""Blocks of a space that cannot hold a best or a front schedule, found from lower bounds and left out exactly."""

from .prune import Pruned as Pruned
from .prune import prune as prune
