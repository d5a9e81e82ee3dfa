"""Wrong rewriters in models of the zoo, which the bisection must name."""
