"""The few kernels that a library ships for a list of shapes."""
