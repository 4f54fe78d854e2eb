"""Tiles and transfers at the same time: what waits for arrivals, what departs, and what is posted through a queue."""

from .arrivals import arrival_seconds as arrival_seconds
from .arrivals import departure_seconds as departure_seconds
from .link import Link as Link
from .posted import posted_seconds as posted_seconds
from .staircase import staircase_maximum as staircase_maximum
from .wave_ends import WaveEnds as WaveEnds
