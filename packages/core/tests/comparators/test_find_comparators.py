"""Comparators by name, from a file, from Python and from plugins; invalid ones are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from enginebay.comparators import find_comparators, recorded_comparators
from enginebay.environment import install_command
from enginebay.errors import MissingDependencyError, ModelSourceError, PluginError, UsageError
from enginebay.hooks import ComparisonRequest, ComparisonResult
from enginebay.tensors import Sample
from enginebay.verification.sample_comparison import (
    check_comparators,
    compare_sample,
    find_blind_comparator,
)
from enginebay.verification.set_comparison import ToleranceOptions
from enginebay_testing import temporary_backend

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def same_sum(request: ComparisonRequest) -> ComparisonResult:
    """Compare only the sums."""
    (expected,) = request.expected.values()
    (found,) = request.found.values()
    off = abs(float(expected.sum() - found.sum()))
    return ComparisonResult(
        passed=off <= float(request.allowed("x", expected).sum()),
        matched=expected.size,
        reason=f"the sum is off by {off:.3g}",
        badness=off,
    )


def check(comparator, outputs=None):
    outputs = {"x": X} if outputs is None else outputs
    comparators = find_comparators({"x": comparator})
    check_comparators(comparators, [Sample({}, outputs)])
    return comparators


@pytest.mark.parametrize(
    "compare",
    [
        {"a,b": "set", "c": "top-k:2"},
        {("a", "b"): "set", ("c",): "top-k:2"},
        {" a, b ": "set", "c": "top-k:2"},
    ],
)
def test_outputs_and_comparators_are_parsed(compare):
    comparators = find_comparators(compare)
    assert [(comparator.outputs, comparator.name) for comparator in comparators] == [
        (("a", "b"), "set"),
        (("c",), "top-k:2"),
    ]


def test_an_empty_mapping_has_no_comparators():
    assert find_comparators({}) == ()


def test_a_python_function_is_a_comparator():
    comparators = check(same_sum)
    assert comparators[0].name == f"{__name__}:same_sum"
    good = compare_sample({"x": X}, {"x": X[::-1]}, ToleranceOptions(), comparators)
    bad = compare_sample({"x": X}, {"x": X + 1}, ToleranceOptions(), comparators)
    assert good.outputs[0].passed
    assert bad.outputs[0].reason == "the sum is off by 6"


SOURCE = '''
from enginebay.hooks import Aligned, ComparisonResult


class Flipped:
    """The last row first."""

    def __call__(self, request):
        (name, expected), = request.expected.items()
        aligned = Aligned(output=name, expected=expected[::-1], found=request.found[name])
        return ComparisonResult(passed=True, matched=len(expected), aligned=(aligned,))


def raising(request):
    raise ValueError("no idea\\nat all")


def leaving(request):
    raise SystemExit(0)


def nothing(request):
    return None


def strange(request):
    aligned = Aligned(output="y", expected=1, found=1)
    return ComparisonResult(passed=True, matched=1, aligned=(aligned,))


def uneven(request):
    x, = request.expected.values()
    aligned = Aligned(output="x", expected=x, found=x[1:])
    return ComparisonResult(passed=True, matched=1, aligned=(aligned,))


def never(request):
    return ComparisonResult(passed=False, matched=1)


def always(request):
    return ComparisonResult(passed=True, matched=1)


number = 5
'''


@pytest.fixture
def mine_py(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(SOURCE)


@pytest.mark.usefixtures("mine_py")
def test_a_class_in_a_file_is_a_comparator():
    symmetric = np.stack([X[0], X[1], X[0]])
    (comparator,) = check("mine.py:Flipped", {"x": symmetric})
    assert comparator.name == f"{Path('mine.py').absolute()}:Flipped"
    wrong = symmetric.copy()
    wrong[0, 1] += 1
    (output,) = compare_sample(
        {"x": symmetric}, {"x": wrong}, ToleranceOptions(), [comparator]
    ).outputs
    assert output.describe().startswith('"x" at [0, 1]: expected 1.0, found 2.0; 1 of 9 elements')


@pytest.mark.usefixtures("mine_py")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("raising", "comparator '{}' raised ValueError: no idea"),
        ("leaving", "comparator '{}' raised SystemExit(0)"),
        (
            "nothing",
            (
                "comparator '{}' returned the wrong type: expected an "
                "enginebay.hooks.ComparisonResult, found NoneType"
            ),
        ),
        (
            "uneven",
            ("comparator '{}' aligned values of 'x' with different shapes: (2, 3) and (1, 3)"),
        ),
        (
            "never",
            (
                "comparator '{}' reports that the reference differs from itself: \"x\": the "
                "comparator returned no reason"
            ),
        ),
        ("number", "comparator '{}' is of type int, which cannot be called"),
    ],
)
def test_an_invalid_comparator_is_refused(name, message):
    with pytest.raises(UsageError) as caught:
        check(f"mine.py:{name}")
    assert str(caught.value) == message.format(f"{Path('mine.py').absolute()}:{name}")


@pytest.mark.usefixtures("mine_py")
def test_a_comparator_that_aligns_an_unknown_output_is_refused():
    with pytest.raises(
        UsageError, match=r"expected an enginebay\.hooks\.Aligned of.*found Aligned"
    ):
        check("mine.py:strange")


@pytest.mark.usefixtures("mine_py")
def test_a_comparator_that_passes_anything_is_reported():
    samples = [Sample({}, {"x": X}), Sample({}, {"x": X + 1})]
    assert report_blindness("mine.py:always", samples).endswith(
        "mine.py:always of x finds no difference between 2 samples; pass an example, or --data, "
        "with different results"
    )
    assert not report_blindness("mine.py:always", [samples[0], samples[0]]), (
        "equal samples were reported"
    )
    assert not report_blindness("set", samples)


def report_blindness(comparator, samples):
    comparators = find_comparators({"x": comparator})
    compared = [
        compare_sample(sample.outputs, sample.outputs, ToleranceOptions(), comparators)
        for sample in samples
    ]
    return find_blind_comparator(comparators, samples, compared)


PLUGIN = """
import enginebay as eb
from enginebay.errors import UsageError
from enginebay.hooks import ComparisonResult

@eb.hookimpl
def comparators():
    return {"sums": build, "broken": lambda request: 1 / 0}

def build(request):
    if not request.argument:
        raise UsageError("sums wants a number")
    def compare(request_):
        sides = request_.expected, request_.found
        totals = [sum(array.sum() for array in side.values()) for side in sides]
        good = abs(totals[0] - totals[1]) <= float(request.argument)
        return ComparisonResult(passed=bool(good), matched=1, reason="" if good else str(totals))
    return compare
"""


def test_a_plugin_brings_comparators_by_a_scheme():
    with temporary_backend("sums", PLUGIN, group="enginebay.plugins"):
        comparators = check("sums:0.5")
        assert recorded_comparators([(("x",), "sums:0.5")], Path("a"))[0].name == "sums:0.5"
        (output,) = compare_sample({"x": X}, {"x": X + 1}, ToleranceOptions(), comparators).outputs
        assert (output.passed, output.comparator) == (False, "sums:0.5")
        with pytest.raises(UsageError, match=r"^sums wants a number$"):
            find_comparators({"x": "sums"})
        with pytest.raises(UsageError) as caught:
            find_comparators({"x": "broken:1"})
    assert str(caught.value) == (
        "comparator 'broken:1' cannot be built: ZeroDivisionError: division by zero"
    )


def test_a_plugin_without_a_mapping_of_comparators_is_refused():
    source = PLUGIN.replace('{"sums": build, "broken": lambda request: 1 / 0}', "[build]")
    with (
        temporary_backend("sums", source, group="enginebay.plugins"),
        pytest.raises(PluginError, match=r"^comparators\(\) of 'sums' .* returned \[<function"),
    ):
        find_comparators({"x": "sums:1"})


@pytest.mark.parametrize("name", ["detections", "detections:0.7"])
@pytest.mark.usefixtures("without_vision")
def test_a_comparator_of_a_missing_package_is_refused(name):
    for find in (
        lambda: find_comparators({"x": name}),
        lambda: recorded_comparators([(("x",), name)], Path("art")),
    ):
        with pytest.raises(MissingDependencyError) as caught:
            find()
        assert str(caught.value) == "no installed plugin has the comparator 'detections'"
        assert caught.value.hint == install_command("enginebay-vision")


def test_code_that_an_artifact_names_is_not_run():
    with pytest.raises(UsageError) as caught:
        recorded_comparators([(("a", "b"), "os:system")], Path("art"))
    assert str(caught.value) == (
        "'art' was verified with the comparator 'os:system', which is Python code: an "
        "artifact may not run code"
    )
    assert caught.value.hint == "if you trust the code, add --compare a,b=os:system"


@pytest.mark.parametrize(
    ("compare", "message", "hint"),
    [
        (
            {"x": "detection"},
            (
                "unknown comparator 'detection'; available: top-k[:K], set, "
                "file.py:attr, module:attr, or SCHEME[:ARGUMENT] of a plugin"
            ),
            "did you mean 'detections'?",
        ),
        ({"x": "top_k:5"}, "unknown comparator 'top_k:5'; available: ", "mean 'top-k'?"),
        ({"x": "zzz"}, "unknown comparator 'zzz'; available: ", None),
        ({"x": ""}, "unknown comparator ''; available: ", None),
        ({"x": "top-k:0"}, "invalid '0' in top-k:0: expected a positive integer", None),
        ({"x": "top-k:-1"}, "invalid '-1' in top-k:-1: expected a positive integer", None),
        ({"x": "set:1"}, "comparator 'set' takes no argument, found '1'", "--compare NAME=set"),
        ({"x,x": "set"}, "output 'x' has two comparators", "leave one of them out"),
        ({"x": "set", "y,x": "set"}, "output 'x' has two comparators", "leave one of them out"),
        ({"x,": "set"}, "invalid outputs 'x,' in 'compare': expected one name, or several", None),
        ({(): "set"}, "invalid outputs () in 'compare': expected one name, or several", None),
        ({3: "set"}, "invalid outputs 3 in 'compare': expected one name, or several", None),
        (
            {"x": 5},
            "comparator 'builtins:int' is of type int, which cannot be called",
            "a function",
        ),
    ],
)
def test_invalid_compare_options_are_refused(compare, message, hint):
    with pytest.raises(UsageError) as caught:
        find_comparators(compare)
    assert str(caught.value).startswith(message)
    assert (caught.value.hint is None) if hint is None else (hint in (caught.value.hint or ""))


def test_a_missing_file_or_attribute_is_refused():
    with pytest.raises(ModelSourceError, match=r"^no file 'nowhere.py'$"):
        find_comparators({"x": "nowhere.py:compare"})
    with pytest.raises(ModelSourceError, match="there is no 'nothing' in 'os'"):
        find_comparators({"x": "os:nothing"})


def test_an_unknown_output_is_refused():
    with pytest.raises(UsageError) as caught:
        check_comparators(find_comparators({"boxs": "set"}), [Sample({}, {"boxes": X, "y": X})])
    assert str(caught.value) == (
        "unknown output 'boxs' for the comparator 'set'; available: boxes, y"
    )
    assert caught.value.hint == "did you mean 'boxes'?"


def test_a_missing_output_or_a_different_dtype_fails():
    comparators = find_comparators({"x,y": "set"})
    both = {"x": X, "y": X}
    lost = compare_sample(both, {"x": X}, ToleranceOptions(), comparators)
    assert lost.results == (None,)
    assert [output.describe() for output in lost.outputs] == [
        '"y": the artifact has no such output; its outputs: "x"'
    ]
    other = compare_sample(
        both, {"x": X, "y": X.astype(np.float64)}, ToleranceOptions(), comparators
    )
    assert [output.passed for output in other.outputs] == [False]
    flat = compare_sample(both, {"x": X, "y": X[0]}, ToleranceOptions(), comparators)
    assert flat.outputs[0].reason == "its shape differs: expected (2, 3), found (3,)"
