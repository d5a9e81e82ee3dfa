_base_ = ['./parts/export.py', 'parts/half.py', './parts/codebase.json']
side = 8 * 4 + 2**3
onnx_config = dict(input_shape=[side, side], dynamic_axes={'input': {3: 'width'}})
