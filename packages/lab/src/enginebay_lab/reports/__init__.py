"""Reports: comparisons, evaluations and artifacts on one page or in one JSON document.

A report contains the unchanged records, and the page is made of these records only, so that the
JSON document can become the page at any time.
"""
