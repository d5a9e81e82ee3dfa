"""Many calls and many rewriting contexts from several threads, and their errors."""
