"""Studies: what users ask of the model beyond one sweep."""
