"""The report of a sweep of layouts."""
