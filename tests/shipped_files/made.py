"""Estimators of scikit-learn that skl2onnx writes on the spot: trees and vectorisers of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .inputs import Input, draw

if TYPE_CHECKING:
    from pathlib import Path

#: The seeds of the inputs on which all is compared; a deployment sees the first.
SEEDS = (0, 1)
NUMBERS = Input((8, 6))
WORDS = Input((6, 2), "string", "choice", values=("Rome", "Oslo", "Delhi", "Paris", "Pune"))
LINES = Input(
    *((5, 1), "string", "choice"),
    values=("the cat sat on the mat", "A dog, a cat.", "no words of theirs", "dog dog dog"),
)
#: What each is about, and its only input.
MADE = {
    "forest": ("tree ensemble", NUMBERS),
    "boosting": ("tree ensemble", NUMBERS),
    "extra_trees": ("tree ensemble", NUMBERS),
    "categories": ("one-hot of words", WORDS),
    "tfidf": ("vectoriser of text", LINES),
    "counts": ("vectoriser of text", LINES),
}


def write(name: str, path: Path) -> None:
    """Fit an estimator and write its file; beside it, what scikit-learn returns for each seed."""
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    estimator, (_, given) = _build(name), MADE[name]
    columns, is_text = given.shape[1], given.dtype == "string"
    many = Input((200, columns), given.dtype, given.fill, values=given.values)
    rows = draw({"x": many}, 2)["x"]
    target = [
        len(row[0]) % 2 if is_text else int(row[0] * row[1] > 0) + int(row[2] > 1) for row in rows
    ]
    squeeze = (lambda x: x[:, 0]) if given is LINES else (lambda x: x)  # texts are no column
    estimator.fit(squeeze(rows), target)
    ways = [way for way in ("predict", "predict_proba") if hasattr(estimator, way)] or ["transform"]
    kind = StringTensorType if is_text else FloatTensorType
    model = to_onnx(
        estimator,
        initial_types=[("x", kind([None, columns]))],
        options={id(estimator): {"zipmap": False}} if "predict_proba" in ways else None,
        target_opset={"": 18, "ai.onnx.ml": 3},
    )
    path.write_bytes(model.SerializeToString())
    names = [output.name for output in model.graph.output]
    for seed in SEEDS:
        x = squeeze(draw({"x": given}, seed)["x"])
        outputs = [getattr(estimator, way)(x) for way in ways]
        arrays = [y.toarray() if hasattr(y, "toarray") else y for y in outputs]
        np.savez(path.with_name(f"sklearn-{seed}.npz"), **dict(zip(names, arrays, strict=True)))


def _build(name: str) -> Any:
    from sklearn.ensemble import (
        ExtraTreesRegressor,
        GradientBoostingRegressor,
        RandomForestClassifier,
    )
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    # In lower case, ONNX Runtime would need a locale that few containers have.
    words = {"token_pattern": "[a-zA-Z]+", "lowercase": False}
    return {
        "forest": RandomForestClassifier(12, max_depth=5, random_state=0),
        "boosting": GradientBoostingRegressor(n_estimators=20, random_state=0),
        "extra_trees": ExtraTreesRegressor(12, max_depth=6, random_state=0),
        "categories": make_pipeline(OneHotEncoder(), LogisticRegression()),
        "tfidf": TfidfVectorizer(**words),
        "counts": make_pipeline(CountVectorizer(**words), LogisticRegression()),
    }[name]
