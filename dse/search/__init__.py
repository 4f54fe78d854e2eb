"""Guided search where a space is too large to sweep, or where the GPU's own numbers are to be chosen as well."""

from .asked import search as search
from .candidates import GpuAxis as GpuAxis
from .candidates import Searcher as Searcher
from .candidates import SearchSpace as SearchSpace
from .candidates import search_space as search_space
from .choice import Choice as Choice
from .goals import GpuQuantity as GpuQuantity
from .goals import Limit as Limit
from .quality import Quality as Quality
from .quality import Reference as Reference
from .quality import reference_of as reference_of
from .record import SearchResult as SearchResult
from .run import run_search as run_search
from .samplers import SAMPLERS as SAMPLERS
from .unchanged import Unchanged as Unchanged
