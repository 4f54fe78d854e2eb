"""Kernel families, one a file: tile programs made of the model's rooms."""
