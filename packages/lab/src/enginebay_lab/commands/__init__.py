"""The commands of the lab: one file per command, for its flags and its output."""
