"""Models from the packages that people deploy, by the batches in which they were first measured."""
