"""The network (eq 11): the algorithms of collectives as stages over shared links, and what a fabric makes of them."""

from .collective import COLLECTIVES as COLLECTIVES
from .collective import RULES as RULES
from .collective import CollectiveCost as CollectiveCost
from .collective import Way as Way
from .collective import collective_cost as collective_cost
from .collective import way_seconds as way_seconds
from .collective import ways as ways
from .group import GroupCost as GroupCost
from .group import group_cost as group_cost
from .hierarchy import NestedCost as NestedCost
from .hierarchy import nested_cost as nested_cost
from .level import Level as Level
from .level import Protocol as Protocol
from .nested_ways import NESTED as NESTED
from .nested_ways import NestedWay as NestedWay
from .nested_ways import nested_ways as nested_ways
