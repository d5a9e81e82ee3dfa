"""Deploy configs: all problems of one, its Python form, and the JSON Schema of all."""
