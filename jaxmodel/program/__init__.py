"""Tile programs: a kernel as a table of tile actions, and what such a program costs."""

from .cost import program_cost as program_cost
from .launch import Launch as Launch
from .launch import launch_cost as launch_cost
from .launch import launch_of as launch_of
from .moves import load as load
from .moves import load_latency_s as load_latency_s
from .moves import store as store
from .records import Action as Action
from .records import Buffer as Buffer
from .records import InOrder as InOrder
from .records import Lengths as Lengths
from .records import Loop as Loop
from .records import Needs as Needs
from .records import Reduction as Reduction
from .records import TileProgram as TileProgram
