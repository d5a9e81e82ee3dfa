_base_ = 'deep.py'
folder = '{{$ENGINEBAY_TEST_FOLDER:data/here}}/images'
number = {{'$ENGINEBAY_TEST_NUMBER:80'}}
again = [number, _base_.ext_info.low, folder]
onnx_config = dict(dynamic_axes=dict(_delete_=True, input={0: 'b'}))
