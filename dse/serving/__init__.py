"""Whole-model steps and layouts: every kernel tuned once, collectives, memory, throughput against latency."""
