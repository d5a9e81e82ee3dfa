"""BackendParams: checked, frozen values that can be copied, pickled and written as JSON."""

from __future__ import annotations

import copy
import datetime
import enum
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import pytest
from hypothesis import given, strategies as st

from enginebay.errors import ParamsError, UsageError
from enginebay.params import BackendParams, FileName


class Mode(enum.StrEnum):
    FAST = "fast"
    SLOW = "slow"


class Params(BackendParams):
    file_name: FileName = FileName("model", suffix=".param")
    threads: Annotated[int, msgspec.Meta(ge=1)] = 1
    eps: float = 1e-3
    fp16: bool = False
    cache: bool | None = True
    mode: Mode = Mode.FAST
    precision: Literal["fp32", "fp16"] = "fp32"
    opset: Literal[17, 18] | None = None
    pads: tuple[int, int] = (0, 0)
    providers: tuple[str, ...] = ("CPU",)
    options: dict[str, str] = {}
    levels: dict[int, float] = {}
    nested: dict[str, dict[str, int]] = {}
    streams: int | str = "auto"
    library: Path | None = None
    key: bytes = b""
    since: datetime.date | None = None
    layers: frozenset[str] = frozenset()


class Needy(BackendParams):
    name: str
    note: str | None


json_texts = st.text(st.characters(codec="utf-8"), max_size=8)
numbers = st.integers(-(2**53), 2**53)

params = st.builds(
    Params,
    work_dir=st.none() | json_texts,
    file_name=st.sampled_from(["net", "net.param", "a.b"]),
    threads=st.integers(1, 64),
    eps=st.floats(allow_nan=False, allow_infinity=False),
    fp16=st.booleans(),
    cache=st.none() | st.booleans(),
    mode=st.sampled_from([*Mode, "slow"]),
    precision=st.sampled_from(["fp32", "fp16"]),
    opset=st.sampled_from([None, 17, 18]),
    pads=st.tuples(numbers, numbers),
    providers=st.lists(json_texts, max_size=3),
    options=st.dictionaries(json_texts, json_texts, max_size=3),
    levels=st.dictionaries(numbers, st.floats(0, 1), max_size=3),
    nested=st.dictionaries(
        json_texts, st.dictionaries(json_texts, numbers, max_size=2), max_size=2
    ),
    streams=numbers | json_texts,
    library=st.none() | st.sampled_from(["a.so", Path("/opt/a.so")]),
    key=st.binary(max_size=8),
    since=st.none() | st.dates(),
    layers=st.frozensets(json_texts, max_size=3),
)


@given(params)
def test_params_survive_a_json_mapping(value):
    mapping = json.loads(json.dumps(value.to_mapping(), allow_nan=False))
    again = Params.from_mapping(mapping)
    assert again == value
    assert again.file_name.suffix == ".param"


@given(params)
def test_copies_are_equal(value):
    for twin in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert twin == value
        assert twin.file_name.suffix == value.file_name.suffix
    assert value.replace() == value


def test_a_mapping_leaves_out_only_what_is_empty_by_default():
    assert BackendParams().to_mapping() == {"file_name": "model", "device": "cpu"}
    mapping = Params(providers=[], cache=None, options={"a": "b"}).to_mapping()
    assert list(mapping["providers"]) == []
    assert mapping["cache"] is None
    assert mapping["options"] == {"a": "b"}
    assert mapping["threads"] == 1
    assert mapping.keys().isdisjoint({"work_dir", "opset", "levels", "library", "key"})


def test_values_are_converted_to_their_types():
    value = Params(work_dir=Path("out"), pads=[1, 2], eps=1, mode="slow", library="a.so")
    assert value.work_dir == "out"
    assert value.pads == (1, 2)
    assert type(value.eps) is float
    assert value.mode is Mode.SLOW
    assert value.library == Path("a.so")


def test_values_of_the_caller_are_copied():
    options = {"a": "b"}
    value = Params(options=options)
    options["a"] = "changed"
    assert value.options == {"a": "b"}
    assert Params().options is not Params().options


def test_none_means_the_default_unless_the_type_allows_none():
    value = Params(threads=None, file_name=None, cache=None)
    assert (value.threads, value.file_name) == (1, "model.param")
    assert value.cache is None  # the type allows None


def test_a_plain_type_may_default_to_none():
    class Loose(BackendParams):
        library: str = None

    assert Loose().library is None
    assert Loose(library=None) == Loose() == Loose.from_mapping(Loose().to_mapping())
    assert Loose(library="a").library == "a"


def test_params_are_frozen():
    with pytest.raises(AttributeError):
        Params().threads = 2
    changed = Params(pads=[3, 4]).replace(threads=2, file_name="other")
    assert (changed.threads, changed.pads, changed.file_name) == (2, (3, 4), "other.param")


def test_subclasses_inherit_fields_and_strictness():
    class More(Params):
        extra: int = 0

    assert More(threads=2, extra=1).threads == 2
    assert More.from_mapping(Params(threads=2).to_mapping()).replace(extra=5).extra == 5
    with pytest.raises(ParamsError):
        More(extra="1")
    with pytest.raises(ParamsError):
        More(extras=1)


def test_a_subclass_may_check_fields_together():
    class Both(BackendParams):
        fp16: bool = False
        int8: bool = False

        def __post_init__(self):
            if self.fp16 and self.int8:
                raise ParamsError("fp16 and int8 exclude each other")

    with pytest.raises(ParamsError, match="exclude each other"):
        Both(fp16=True, int8=True)
    with pytest.raises(ParamsError, match="exclude each other"):
        Both(fp16=True).replace(int8=True)


def test_model_files_are_in_the_work_dir():
    class TwoFiles(Params):
        file_name: FileName = FileName("model", suffix=".param", siblings=(".bin",))

    assert Params().get_model_files() == ("model.param",)
    assert TwoFiles(file_name="net").get_model_files() == ("net.param", "net.bin")
    inside = TwoFiles(work_dir="out/a").get_model_files()
    assert inside == (str(Path("out/a/model.param")), str(Path("out/a/model.bin")))


BASE_FIELDS = "work_dir, file_name, device, input_shapes, min_shapes, max_shapes"


class Unreadable(BackendParams):
    x: NoSuchType = 1  # noqa: F821 - an undefined name is tested


class Unchecked(BackendParams):
    x: Path | str = "a"


class BadDefault(BackendParams):
    threads: int = "four"


@pytest.mark.parametrize(
    ("make", "message", "hint"),
    [
        (
            lambda: BackendParams(devise="cpu"),
            f"BackendParams got 'devise', which is not one of its fields: {BASE_FIELDS}",
            "did you mean 'device'?",
        ),
        (
            lambda: BackendParams.from_mapping({1: "cpu"}),
            f"BackendParams got '1', which is not one of its fields: {BASE_FIELDS}",
            None,
        ),
        (
            lambda: BackendParams().replace(zzz=1),
            f"BackendParams got 'zzz', which is not one of its fields: {BASE_FIELDS}",
            None,
        ),
        (
            lambda: BackendParams("out"),
            "BackendParams takes keyword arguments only, found 'out'",
            None,
        ),
        (
            lambda: BackendParams.from_mapping(["device"]),
            (
                "['device'] cannot be converted to BackendParams: "
                "expected a mapping from field names to values, found list"
            ),
            None,
        ),
        (lambda: Needy(), "Needy requires 'name': expected str", None),
        (lambda: Needy(name=None), "Needy requires 'name': expected str", None),
        (lambda: Needy(name="a"), "Needy requires 'note': expected str", None),
        (
            lambda: Params(threads="4"),
            "'4' does not fit Params.threads: expected int, found str",
            None,
        ),
        (
            lambda: Params(threads=True),
            "True does not fit Params.threads: expected int, found bool",
            None,
        ),
        (
            lambda: Params(threads=1.0),
            "1.0 does not fit Params.threads: expected int, found float",
            None,
        ),
        (lambda: Params(threads=0), "0 does not fit Params.threads: expected int >= 1", None),
        (lambda: Params(fp16=1), "1 does not fit Params.fp16: expected bool, found int", None),
        (lambda: Params(device=0), "0 does not fit Params.device: expected str, found int", None),
        (
            lambda: Params(precision="fp61"),
            "'fp61' does not fit Params.precision: expected one of 'fp32', 'fp16'",
            "did you mean 'fp16'?",
        ),
        (
            lambda: Params(mode="slwo"),
            "'slwo' does not fit Params.mode: expected one of 'fast', 'slow'",
            "did you mean 'slow'?",
        ),
        (lambda: Params(opset=19), "19 does not fit Params.opset: expected one of 17, 18", None),
        (
            lambda: Params(pads=[1]),
            "[1] does not fit Params.pads: expected list of length 2, found 1",
            None,
        ),
        (
            lambda: Params(pads=(1, "a")),
            "(1, 'a') does not fit Params.pads: expected int at [1], found str",
            None,
        ),
        (
            lambda: Params(providers="CPU"),
            "'CPU' does not fit Params.providers: expected list, found str",
            None,
        ),
        (
            lambda: Params(options={1: "a"}),
            "{1: 'a'} does not fit Params.options: expected str at key, found int",
            None,
        ),
        (
            lambda: Params(nested={"a": 1}),
            "{'a': 1} does not fit Params.nested: expected dict at [...], found int",
            None,
        ),
        (
            lambda: Params(library=3),
            "3 does not fit Params.library: expected Path, found int",
            None,
        ),
        (
            lambda: Params(streams=1.5),
            "1.5 does not fit Params.streams: expected int | str, found float",
            None,
        ),
        (
            lambda: Params(threads="\n".join(["many lines"] * 99)),
            "'"
            + "many lines\\n" * 16
            + "many l… does not fit Params.threads: expected int, found str",
            None,
        ),
        (
            lambda: BadDefault(),
            "'four' does not fit BadDefault.threads: expected int, found str",
            None,
        ),
        (
            lambda: Unreadable(),
            "the annotations of Unreadable cannot be read: name 'NoSuchType' is not defined",
            "import the name outside `if TYPE_CHECKING:`",
        ),
    ],
)
def test_invalid_params_are_refused(make, message, hint):
    with pytest.raises(ParamsError) as refusal:
        make()
    shown = str(refusal.value)
    assert (shown, refusal.value.hint) == (message, hint)
    assert isinstance(refusal.value, UsageError)


def test_a_field_type_that_cannot_be_checked_is_refused():
    with pytest.raises(
        ParamsError, match=r"^Unchecked\.x is declared as .*, which cannot be checked"
    ):
        Unchecked()


def test_a_required_field_may_accept_none():
    assert Needy(name="a", note=None).note is None
    assert Needy.from_mapping({"name": "a", "note": None}) == Needy(name="a", note=None)


def test_a_value_without_a_json_form_is_refused():
    class WithData(BackendParams):
        data: Any = None

    held = object()
    assert WithData(data=held).data is held
    with pytest.raises(ParamsError) as refusal:
        WithData(data=held).to_mapping()
    assert (
        str(refusal.value)
        == "WithData.data cannot be written as JSON: object cannot be converted to a JSON value"
    )


@pytest.mark.process
def test_params_import_no_heavy_packages():
    code = (
        "import sys, enginebay.params as p; p.BackendParams(input_shapes='x:1x3').to_mapping();"
        "print(sorted({'numpy', 'torch', 'onnx', 'argparse', 'pluggy', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_speed_values_name_fields() -> None:
    with pytest.raises(ParamsError) as caught:

        class Params(BackendParams):
            thread: int = 0
            speed_values: ClassVar = {"threads": (1, 2)}

    assert str(caught.value).startswith(
        "Params has speed_values of 'threads', which is not one of its fields: work_dir, "
    )
    assert caught.value.hint == "did you mean 'thread'?"
    assert BackendParams.speed_values == {}
