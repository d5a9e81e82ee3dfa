"""How a model is exported; every deploy config starts from it."""
onnx_config = dict(
    type='onnx',
    export_params=True,
    opset_version=17,
    save_file='net.onnx',
    input_names=['input'],
    output_names=['output'],
    input_shape=None,
    dynamic_axes={
        'input': {
            0: 'batch',
            2: 'height'
        },
        'output': {
            0: 'batch'
        }
    })
