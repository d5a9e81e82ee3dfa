"""Running an engine: the wrapper contract, arrays of either kind, timing and the receipt."""
