"""Remarks of kernels that several GPUs share by exchanging tokens, heads or keys; see `dse.advice`."""

from ..about_schedule import About, Remarks

BINDS = {"net": "the links between the GPUs"}


def remarks(about: About) -> Remarks:
    """What communication costs, and what moves it under the computation."""
    at, cost = about.schedule, about.cost
    share = about.share("communication_s")
    found = {}
    computed = cost["latency_s"] - cost["communication_s"] - cost["launch_s"]
    if "chunks" in at and computed > 0.0:
        text = "is communication that nothing hides: another number of chunks, other comm_sms or transport"
        if float(cost["pipeline_net_s"]) > float(computed):
            text = "is communication that nothing hides: the links are busier than the SMs; faster links help"
        found["communication"] = (share, text)
    if at.get("merge_fused") == 0:
        found["reduction"] = (
            about.share("reduction_s"),
            "is kernels that add up partial results: add up in the attention kernel, merge_fused = 1",
        )
    if at.get("merge_fused") == 1:
        found["reduction"] = (about.share("reduction_s"), "is adding up partial results: fewer chunks of keys")
    return found
