"""Reports: the results about a model on one page or in one JSON document.

A report contains the unchanged results of other commands, and the page is made from these results
only. The page can therefore be made from the JSON document at any time.
"""
