"""``python -m enginebay_onnxruntime convert IR [flags]``."""

import enginebay as eb

eb.get_backend("onnxruntime").main()
