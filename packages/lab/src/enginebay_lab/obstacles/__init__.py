"""What stands between a model and each engine, listed before anything is built."""
