"""Torch tensors by address, with the CPU's memory in the place of the device's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from onnx_models import agree, built, dynamic, expected, linear, nonzero, rows

import enginebay as eb
from enginebay.errors import InferenceError

if TYPE_CHECKING:
    from pathlib import Path


def test_tensors_are_passed_by_address(
    on_cpu: Any, stand_ins: Any, machine: Any, tmp_path: Path
) -> None:
    import torch

    source = linear(tmp_path / "m.onnx", "n")
    artifact = built(source, dynamic())
    with eb.load(artifact) as wrapper:
        x = torch.from_numpy(rows(4))
        machine.log.clear()
        found = wrapper({"x": x})
        assert machine.log == []  # no copy, no wait
        assert ("execute_async_v3", 0x77, 0) in stand_ins.LOG
        wrapper.synchronize()
        agree({name: y.numpy() for name, y in found.items()}, expected(x.numpy()))
        strided = torch.from_numpy(rows(8)).clone()[::2]  # torch's memory is aligned
        found = wrapper({"x": strided})
        wrapper.synchronize()
        agree({name: y.numpy() for name, y in found.items()}, expected(strided.numpy()))


def test_a_lazily_negated_view_is_resolved(on_cpu: Any, tmp_path: Path) -> None:
    """As ``z.conj().imag``: the memory has the other sign."""
    import torch

    artifact = eb.convert(
        linear(tmp_path / "m.onnx"), backend="tensorrt-rtx", work_dir=tmp_path / "a"
    )
    with eb.load(artifact) as wrapper:
        x = torch._neg_view(torch.from_numpy(rows(2)).clone())
        found = wrapper({"x": x})
        wrapper.synchronize()
        agree({name: y.numpy() for name, y in found.items()}, expected(x.resolve_neg().numpy()))


def test_an_empty_tensor_gets_an_address(on_cpu: Any, tmp_path: Path) -> None:
    import torch

    shapes = {"min_shapes": "0x3", "input_shapes": "4x3", "max_shapes": "8x3"}
    source = linear(tmp_path / "m.onnx", "n")
    artifact = built(source, shapes)
    with eb.load(artifact) as wrapper:
        x = torch.empty(0, 3)
        assert x.data_ptr() == 0
        found = wrapper({"x": x})
        wrapper.synchronize()
        assert (found["y"].shape, found["s"].shape) == ((0, 4), (0,))


def test_a_context_waits_for_its_last_call_on_another_stream(
    on_cpu: Any, machine: Any, tmp_path: Path
) -> None:
    import torch

    artifact = eb.convert(
        linear(tmp_path / "m.onnx"), backend="tensorrt-rtx", work_dir=tmp_path / "a"
    )
    with eb.load(artifact) as wrapper:
        first, second = torch.from_numpy(rows(2)), torch.from_numpy(rows(2))
        one = wrapper({"x": first})
        on_cpu.cuda_stream = 0x88
        machine.log.clear()
        two = wrapper({"x": second})
        assert machine.log == [("cudaStreamWaitEvent", 0x88, 0x77)]
        wrapper.synchronize()
        agree({name: y.numpy() for name, y in one.items()}, expected(first.numpy()))
        agree({name: y.numpy() for name, y in two.items()}, expected(second.numpy()))


def test_tensors_with_a_data_dependent_shape_are_returned(on_cpu: Any, tmp_path: Path) -> None:
    import torch

    source = nonzero(tmp_path / "m.onnx")
    artifact = built(source)
    with eb.load(artifact) as wrapper:
        for x in (torch.tensor([0.0, 1, 0, 2, 0, 3]), torch.zeros(6), torch.ones(6)):
            found = wrapper({"x": x})
            wrapper.synchronize()
            torch.testing.assert_close(found["places"], x.nonzero().T)
            torch.testing.assert_close(found["twice"], x * 2)


def test_tensors_are_copied_through_a_cuda_graph(on_cpu: Any, machine: Any, tmp_path: Path) -> None:
    import torch

    artifact = eb.convert(
        linear(tmp_path / "m.onnx"),
        backend="tensorrt-rtx",
        work_dir=tmp_path / "a",
        params={"cuda_graph": True},
    )
    with eb.load(artifact) as wrapper:
        kept = []
        machine.log.clear()
        for _ in range(3):
            x = torch.from_numpy(rows(2))
            kept.append((x, wrapper({"x": x})))
        assert not [entry for entry in machine.log if "Host" in entry[0] or "Sync" in entry[0]]
        wrapper.synchronize()
        for x, found in kept:  # the graph's own memory is used again, results are not
            agree({name: y.numpy() for name, y in found.items()}, expected(x.numpy()))


def test_the_default_stream_is_not_used_by_the_runner(
    on_cpu: Any, stand_ins: Any, machine: Any, tmp_path: Path
) -> None:
    """TensorRT would wait on the host there; on its own stream both wait on the device."""
    import torch

    on_cpu.cuda_stream = 0
    artifact = eb.convert(
        linear(tmp_path / "m.onnx"), backend="tensorrt-rtx", work_dir=tmp_path / "a"
    )
    with eb.load(artifact) as wrapper:
        x = torch.from_numpy(rows(2))
        machine.log.clear()
        found = wrapper({"x": x})
        own = stand_ins.LOG[-1][1]
        assert own != 0
        assert machine.log == [("cudaStreamWaitEvent", own, 0), ("cudaStreamWaitEvent", 0, own)]
        again = wrapper({"x": x})
        wrapper.synchronize()
        for each in (found, again):
            agree({name: y.numpy() for name, y in each.items()}, expected(x.numpy()))


def test_a_cuda_graph_is_not_launched_on_the_default_stream(
    on_cpu: Any, machine: Any, tmp_path: Path
) -> None:
    import fake_cuda
    import torch

    on_cpu.cuda_stream = 0
    source, params = linear(tmp_path / "m.onnx"), {"cuda_graph": True}
    artifact = built(source, params)
    with eb.load(artifact) as wrapper:
        x, wanted = torch.zeros(2, 3), torch.from_numpy(rows(2))
        # The caller's work on the default stream comes first.
        fake_cuda.stream(0).put(lambda: [x.copy_(wanted)])
        machine.log.clear()
        found = wrapper({"x": x})
        assert [entry[1:] for entry in machine.log if entry[0] == "cudaStreamWaitEvent"] == [
            (machine.log[1][2], 0),
            (0, machine.log[1][2]),
        ]
        wrapper.synchronize()
        agree({name: y.numpy() for name, y in found.items()}, expected(wanted.numpy()))


def test_late_allocations_wait_for_the_caller(
    on_cpu: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Torch hands memory to the default stream's next work, which the runner's stream is not."""
    import fake_cuda
    import torch

    empty, done = torch.empty, []

    def used_before(*args: Any, **kwargs: Any) -> torch.Tensor:
        fake_cuda.stream(0).put(lambda: done.append(kwargs["dtype"]))
        return empty(*args, **kwargs)

    on_cpu.cuda_stream = 0
    artifact = eb.convert(
        nonzero(tmp_path / "m.onnx"), backend="tensorrt-rtx", work_dir=tmp_path / "a"
    )
    with eb.load(artifact) as wrapper:
        monkeypatch.setattr(torch, "empty", used_before)
        found = wrapper({"x": torch.ones(6)})
        (runner,) = wrapper._idle  # type: ignore[attr-defined]
        fake_cuda.cudaStreamSynchronize(runner._stream)
        assert done == [torch.float32, torch.uint8]
        assert found["places"].shape == (1, 6)


def test_unaligned_views_are_copied(on_cpu: Any, tmp_path: Path) -> None:
    """TensorRT wants aligned addresses, and a view's need not be."""
    import torch

    source = linear(tmp_path / "m.onnx", "n")
    artifact = built(source, dynamic())
    with eb.load(artifact) as wrapper:
        view = torch.from_numpy(rows(9))[1:]
        assert view.is_contiguous()
        found = wrapper({"x": view})
        wrapper.synchronize()
        agree({name: y.numpy() for name, y in found.items()}, expected(view.numpy()))


def test_results_with_a_data_dependent_shape_are_freed(
    on_cpu: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The bindings never free an allocator, so an allocator must not hold a result."""
    import weakref

    import torch

    made: list[Any] = []
    empty = torch.empty

    def noticed(*args: Any, **kwargs: Any) -> torch.Tensor:
        tensor = empty(*args, **kwargs)
        made.append(weakref.ref(tensor))
        return tensor

    monkeypatch.setattr(torch, "empty", noticed)
    artifact = eb.convert(
        nonzero(tmp_path / "m.onnx"), backend="tensorrt-rtx", work_dir=tmp_path / "a"
    )
    with eb.load(artifact) as wrapper:
        for _ in range(3):
            found = wrapper({"x": torch.ones(6)})
            wrapper.synchronize()
            assert found["places"].shape == (1, 6)
        del found
        assert len(made) == 6
        assert [tensor() for tensor in made] == [None] * 6
        (runner,) = wrapper._idle  # type: ignore[attr-defined]
        assert len(runner._context._raw._kept) == 1


def test_an_allocation_error_is_raised_unchanged(
    on_cpu: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import torch

    empty = torch.empty

    def full(*args: Any, **kwargs: Any) -> torch.Tensor:
        if kwargs.get("dtype") is torch.uint8:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return empty(*args, **kwargs)

    artifact = eb.convert(
        nonzero(tmp_path / "m.onnx"), backend="tensorrt-rtx", work_dir=tmp_path / "a"
    )
    with eb.load(artifact) as wrapper:
        with monkeypatch.context() as patch:
            patch.setattr(torch, "empty", full)
            with pytest.raises(InferenceError, match="CUDA out of memory") as caught:
                wrapper({"x": torch.ones(6)})
            assert isinstance(caught.value.__cause__, torch.OutOfMemoryError)
        found = wrapper({"x": torch.ones(6)})
        wrapper.synchronize()
        assert found["places"].shape == (1, 6)
