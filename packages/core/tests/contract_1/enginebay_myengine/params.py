"""The parameters of myengine: each documented field is a flag and a key of a config."""

from __future__ import annotations

import enginebay as eb


class MyengineParams(eb.BackendParams):
    """Parameters of myengine.

    Args:
        work_dir (str): The folder of the artifact.
        file_name (str): File name of the model. The suffix .onnx is added if it has none.
        device (str): cpu.
        input_shapes (str): Input shapes, such as input:1x3x224x224,mask:1x77.
        min_shapes (str): Smallest input shapes.
        max_shapes (str): Largest input shapes. Dimensions larger than in min_shapes are dynamic.
    """

    file_name: eb.FileName = eb.FileName("model", suffix=".onnx")
