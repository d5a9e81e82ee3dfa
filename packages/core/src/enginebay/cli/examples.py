"""The examples at the end of each command's help: lines that can be typed as they are."""

from __future__ import annotations

#: By command; ``{backend}`` is the name of the default one.
EXAMPLES = {
    "backends": ("enginebay backends", "enginebay backends --load --json"),
    "check-env": ("enginebay check-env", "enginebay check-env {backend} --device cpu"),
    "preview": (
        "enginebay preview net.py:build",
        "enginebay preview net.py:build --backend {backend}",
    ),
    "deploy": (
        "enginebay deploy net.py:build --backend {backend} --work-dir artifact",
        "enginebay deploy model.onnx --all --work-dir engines --overwrite",
    ),
    "export": (
        "enginebay export net.py:build",
        "enginebay export net.py:build --output net.pt2 --input input=1x3x32x32",
    ),
    "convert": ("enginebay convert {backend} net.onnx --work-dir artifact",),
    "run": (
        "enginebay run artifact",
        "enginebay run artifact --input x=image.npy --output outputs.npz",
    ),
    "verify": (
        "enginebay verify artifact",
        "enginebay verify artifact --model net.py:build --rtol 1e-3",
        "enginebay verify artifact --bisect",
    ),
    "evaluate": (
        "enginebay evaluate artifact --data pictures --metric accuracy",
        "enginebay evaluate fp32 int8 --data items.npz --metric cosine --model net.py:build",
    ),
    "sweep": (
        "enginebay sweep sweep.toml --output swept",
        "enginebay sweep sweep.toml --output swept --resume",
    ),
    "sensitivity": ("enginebay sensitivity net.py:build --backend {backend} --data items.npz",),
    "benchmark": (
        "enginebay benchmark artifact",
        "enginebay benchmark fp32 int8 --against pytorch",
    ),
    "report": (
        "enginebay report comparison --output report.html",
        "enginebay report fp32 int8 speed.json accuracy.json",
    ),
    "inspect": ("enginebay inspect artifact", "enginebay inspect net.onnx --json"),
    "config": ("enginebay config check deploy.toml", "enginebay config show deploy.py --json"),
    "rewriters": ("enginebay rewriters", "enginebay rewriters --backend {backend} --ir onnx"),
    "new-backend": ("enginebay new-backend myengine",),
    "completion": ('eval "$(enginebay completion bash)"',),
}
