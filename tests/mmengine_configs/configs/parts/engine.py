backend_config = dict(
    type='onnxruntime', common_config=dict(fp16_mode=False, size=1 << 30, mean=-1))
