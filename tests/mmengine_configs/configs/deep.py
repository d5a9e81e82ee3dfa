_base_ = ['./static.py']

backend_config = dict(
    common_config=dict(levels=[3], mean=0.5),
    names=[f'map.{i}' for i in range(3)] + ['last'],
    squares={i: i * i for i in range(3)},
    table=[dict(a=1, **{'b': 2}), {3: 'c', 'd': (4, )}, []],
    place='{{ fileBasenameNoExtension }}{{fileExtname}}',
)
codebase_config = dict(_delete_=True, type='other', side=_base_.side, whole={{_base_.onnx_config}})
ext_info = dict(flag=not True, low=~1, part=7 // 2 / 2 % 3, text='a' 'b' * 2, none=None)
