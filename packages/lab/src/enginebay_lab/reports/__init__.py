"""Reports: the results about a model on one page or in one JSON document.

A report contains the unchanged records, and the page is made from these records only. So the page
can be made from the JSON document at any time.
"""
