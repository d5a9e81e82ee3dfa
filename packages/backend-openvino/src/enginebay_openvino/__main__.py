"""The command ``python -m enginebay_openvino convert IR [flags]``."""

import enginebay as eb

eb.get_backend("openvino").main()
