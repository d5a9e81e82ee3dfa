"""Wrong rewriters planted in models of the zoo, which the bisecting must name."""
