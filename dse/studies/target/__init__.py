"""How much better one number of a GPU must be."""
