"""``python -m enginebay_tensorrt convert IR [flags]``."""

import enginebay as eb

eb.get_backend("tensorrt").main()
