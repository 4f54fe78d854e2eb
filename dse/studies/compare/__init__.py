"""Two kernels side by side, their difference attributed."""
