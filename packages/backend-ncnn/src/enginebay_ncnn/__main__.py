"""``python -m enginebay_ncnn convert IR [flags]``."""

import enginebay as eb

eb.get_backend("ncnn").main()
