"""Many kernel problems on many GPUs over whole schedule spaces, in one run: the best of each, and steps of models."""

from .model_shapes import PHASES as PHASES
from .model_shapes import Serving as Serving
from .model_shapes import model_rows as model_rows
from .plan import Plan as Plan
from .plan import Setting as Setting
from .plan import make_plan as make_plan
from .result import BatchResult as BatchResult
from .result import read_batch as read_batch
from .rows import BatchRow as BatchRow
from .rows import Step as Step
from .rows import listed_rows as listed_rows
from .run import run_batch as run_batch
