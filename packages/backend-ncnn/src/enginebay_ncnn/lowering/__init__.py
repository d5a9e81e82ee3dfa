"""Operators that pnnx or ncnn lacks, in terms of those that they have.

A frozen TorchScript graph is run node by node and traced again. On the way everything that does
not depend on the inputs' values becomes a constant, every size a number, integers and booleans
become floats, and each operator that has a lowering in this folder is replaced by it. A lowering
gives the numbers of the operator that it stands for; what it cannot do, it refuses.
"""
