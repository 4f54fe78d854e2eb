"""Which schedules, and how many, to benchmark."""
