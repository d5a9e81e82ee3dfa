"""Models of other packages, by the batches in which they were first measured."""
