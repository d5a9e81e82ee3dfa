"""The commands of the lab: one file each, parsing and printing."""
