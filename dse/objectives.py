"""The quantities of a cost that a front may minimise, the same for every kernel."""

OBJECTIVES: dict[str, tuple[str, str]] = {  # name -> (unit, what it is); all are minimised
    "latency_s": ("s", "latency of one kernel"),
    "ddr_bytes": ("B", "bytes read from and written to DRAM"),
    "l2_bytes": ("B", "bytes through L2"),
    "smem_bytes": ("B", "shared memory of a CTA"),
    "registers_per_thread": ("1", "registers of a thread"),
    "workspace_bytes": ("B", "global memory for partial results"),
    "sms_used": ("1", "SMs the kernel occupies"),
    "energy_j": ("J", "energy of one kernel"),
}
