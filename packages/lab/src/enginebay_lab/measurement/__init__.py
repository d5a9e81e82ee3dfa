"""Measurement: how fast artifacts are here, side by side, and how far the figures can be trusted.

Each contestant is loaded in a child process of its own. They take turns in short windows, and
sleep while another one runs, so that whatever slows the machine slows all of them alike. Windows
follow one another until their medians agree, or the time is up.
"""
