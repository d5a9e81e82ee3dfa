"""Annotations of images, in the usual layouts."""
