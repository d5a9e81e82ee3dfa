"""Reports: what comparisons, evaluations and artifacts found, on one page or as one JSON document.

A report keeps the records as they are; the page is made from them alone, so that the JSON document
can become the page at any time.
"""
