"""Guided search where a space is too large to sweep, or where the GPU's own numbers are to be chosen as well."""

from .candidates import GpuAxis as GpuAxis
from .candidates import Searcher as Searcher
from .candidates import SearchSpace as SearchSpace
from .candidates import search_space as search_space
from .run import SAMPLERS as SAMPLERS
from .run import SearchResult as SearchResult
from .run import run_search as run_search
