"""Other hardware, schedules tuned anew for every machine."""
