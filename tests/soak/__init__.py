"""Many calls and many rewriting contexts from several threads, and what they did wrong."""
