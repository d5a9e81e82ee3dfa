"""Reads the annotations of images from the usual folder layouts and file formats."""
