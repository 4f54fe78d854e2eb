"""Layouts of models: the folder of a sweep, and what-ifs in which layouts are chosen anew for every machine."""
