"""Annotations of pictures, in the usual layouts."""
