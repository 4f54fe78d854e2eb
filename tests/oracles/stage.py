"""Eq 11: the time of one communication stage over links that its exchanges share.

A stage is a set of exchanges that start together; each is routed over links. The stage takes the longest path latency
of any exchange plus the time of the busiest link, on which all exchanges that cross it put their bytes.
"""

import numpy as np


def stage_seconds(
    exchange_bytes: np.ndarray, routes: np.ndarray, link_latency_s: np.ndarray, link_bytes_per_s: np.ndarray
) -> float:
    """Seconds of one stage: T = max over exchanges of the latencies on their path + max over links of B_l / rate_l.

    Args:
        exchange_bytes: bytes of each exchange; one of 0 bytes takes no part.
        routes: (exchanges, links) 1 where an exchange crosses a link, else 0.
        link_latency_s, link_bytes_per_s: alpha and rate of each link.

    Source: TileSight, eq 11, with link contention.
    """
    moves = exchange_bytes > 0
    path_s = np.max(np.where(moves, routes @ link_latency_s, 0.0))
    return float(path_s + np.max(exchange_bytes @ routes / link_bytes_per_s))
