"""Child processes that find this folder have the stand-in for CUDA from their start."""

import fake_cuda

fake_cuda.install()
