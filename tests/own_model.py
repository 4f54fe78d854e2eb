"""A small model file of a user's own."""

OWN_MODEL = """
title = "Small"
[sources]
own = "made up"
[model]
source = "own"
layers = 2
hidden = 1024
vocabulary = 4096
weights = "bf16"
[attention]
source = "own"
heads = 8
kv_heads = 2
head_dim = 128
[ffn]
source = "own"
inter = 2048
"""
