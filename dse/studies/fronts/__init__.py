"""What of a front stands where the GPU's numbers are uncertain."""
