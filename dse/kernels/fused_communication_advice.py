"""Remarks of GEMMs that communicate while they compute; see `dse.advice`."""

from ..about_schedule import About, Remarks

BINDS = {"net": "the links between the GPUs"}
TRANSPORTS = ("copy engines", "loads and stores of SMs", "the switch", "stores to every peer")


def remarks(about: About) -> Remarks:
    """What communication costs, and what moves it under the tiles."""
    at, cost = about.schedule, about.cost
    share = about.share("communication_s")
    moved = float(cost["pipeline_net_s"])
    text = f"is communication that no tile hides (by {TRANSPORTS[int(at['transport'])]}"
    if int(at["order"]) == 2:
        text += "): fuse it, order = arrival"
    elif moved > 0.8 * (float(cost["latency_s"]) - float(cost["communication_s"])):
        text += "): the links are as busy as the tiles; faster links, fewer ranks or a narrower type help"
    else:
        text += "): another number of chunks, other comm_sms or transport"
    return {"communication": (share, text)}
