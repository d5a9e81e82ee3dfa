"""Large weights in a temporary file that is mapped, which the system can drop from memory."""

from __future__ import annotations

import mmap
from collections import Counter
from contextlib import suppress
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor, nn

#: Bytes of weights from which they are mapped: below, a file costs more than it saves.
_LARGE = 2**29

#: Bytes at whose multiples a tensor starts: those of a cache line.
_ALIGNMENT = 64


def map_weights(module: nn.Module, folder: Path) -> None:
    """Move a module's large weights from memory into a mapped file.

    While an engine is compiled and runs, the system can drop them and read them again. Whoever
    changes a weight later changes a copy of its page in memory, and not the file.

    Args:
        module: The module, which nobody but the caller holds. Its values do not change. Tensors on
            a GPU, and those that share memory with others, stay where they are.
        folder: Where the file is written, without a name: it goes with the last tensor. If the
            disk is full, the weights stay in memory.
    """
    import torch

    tensors = _find_own(module)
    if sum(tensor.nbytes for tensor in tensors) < _LARGE:
        return
    with suppress(OSError), TemporaryFile(dir=folder) as file:
        starts = []
        for tensor in tensors:
            starts.append(file.seek(-(-file.tell() // _ALIGNMENT) * _ALIGNMENT))
            file.write(tensor.detach().reshape(-1).view(torch.uint8).numpy().data)
        file.flush()
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        for start, tensor in zip(starts, tensors, strict=True):
            mapped = torch.frombuffer(memory, dtype=torch.uint8, count=tensor.nbytes, offset=start)
            tensor.data = mapped.view(tensor.dtype).view(tensor.shape)


def _find_own(module: nn.Module) -> list[Tensor]:
    """Return the dense tensors on the CPU that share their memory with no other."""
    import torch

    found = [
        tensor
        for tensor in (*module.parameters(), *module.buffers())
        if type(tensor) in (torch.nn.Parameter, torch.Tensor)
        and (tensor.device.type, tensor.layout) == ("cpu", torch.strided)
        and not tensor.is_quantized
    ]
    holders = Counter(tensor.untyped_storage().data_ptr() for tensor in found)
    return [
        tensor
        for tensor in found
        if tensor.nbytes == (memory := tensor.untyped_storage()).nbytes() > 0
        and tensor.is_contiguous()
        and holders[memory.data_ptr()] == 1
    ]
