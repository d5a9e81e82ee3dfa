_base_ = './engine.py'

backend_config = dict(common_config=dict(fp16_mode=True, levels=[1, 2]), sizes=(1, 3))
