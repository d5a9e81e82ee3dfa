"""Model files of other frameworks and engines, with the way from each to a file that is read."""

from __future__ import annotations

from pathlib import Path


def describe_foreign(path: Path) -> tuple[str, str] | None:
    """Return what a file or folder of another framework is, and what to type; None if unknown.

    Example:
        >>> from pathlib import Path
        >>> describe_foreign(Path("net.tflite"))[0]
        'a TensorFlow Lite model'
    """
    import tomllib

    inner = "/saved_model.pb"
    suffix = inner if Path(f"{path}{inner}").is_file() else path.suffix.lower()
    table = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    for kind in tomllib.loads(table)["files"]:
        if suffix in kind["suffixes"]:
            return kind["what"], kind["next"].replace("{}", str(path))
    return None
