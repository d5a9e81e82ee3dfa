"""What crosses packages.

This file lets ``tests`` here come before a ``tests`` that some package installs by mistake.
"""
