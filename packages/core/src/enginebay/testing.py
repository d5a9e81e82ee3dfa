"""The name of the conformance kit before it was a package of its own; importing it says so."""

raise ImportError("the conformance kit is now the package enginebay_testing: import that name")
