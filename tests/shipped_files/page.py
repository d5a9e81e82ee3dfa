"""What must hold of the results, and their page in the docs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tests.zoo.page import markdown

from .faults import PLANTED
from .files import FILES
from .references import MEMORY, SECONDS
from .trial import ENGINES, Result, Row

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
PAGE = HERE.parents[1] / "docs" / "evidence" / "shipped-files.md"
#: The smallest share of verified files among those that the engine alone can run.
SHARES = {"onnxruntime": 0.90, "openvino": 0.85}
#: How far a right artifact may be from both implementations, in deviations: by ``eight_bits``.
TOLERANCES = {False: 0.02, True: 0.2}
#: The number of right artifacts, on all engines, that may be mismatched.
MISMATCHED = 1
VERIFIED = ("verified", "told")
#: Where a rule is broken, and known to be.
KNOWN: dict[str, str] = {}

TEXT = """\
# Model files that other people ship

{files} model files from {packages} wheels on PyPI: OCR, speech, EEG, chemistry, tables, robots; and
{made} that skl2onnx writes on the spot. Each is deployed with `enginebay.deploy`, the file and one
sensible input, in a process of its own with {minutes} minutes and {memory} GB.

`nox -s shipped-files` fetches the wheels, deploys all files again, and fails if a verdict differs
from this page or breaks a rule: no artifact is verified and wrong, at most {mismatched} is
mismatched and right, no error is a traceback, no planted fault is verified; verified are at least
{shares} of the files that the engine alone can run.
`nox -s shipped-files -- rapidocr` deploys those with a word in their name; `--record` writes this
page. `tests/shipped_files/files.toml` has the version, path, digest and input of each file.

Two implementations that share no code decide what is right: ONNX Runtime without its optimisations
(PyTorch for TorchScript), and onnx's evaluator with Enginebay's corrections (scikit-learn for its
own estimators, OpenVINO where the evaluator cannot run the file). An artifact is right if it is
within {tolerance} standard deviations of one of them, on the input that the deployment has seen and
on one that it has not. In files of 8 bits, which two right engines round differently, the root of
the mean square may be {rough}.

Measured on {date} with {versions}. {waiting} files of the list have not been deployed yet: `nox -s
shipped-files -- --missing --record`.

{counts}

*Told* is verified with a warning, for example of values that no sample had. *Refused* is an error.
*Silently wrong* are artifacts that are verified and not right. *Refused though right* are those
that are right and mismatched or unverified, and files that are refused although the engine alone
runs them; nobody asked ncnn alone.

## Planted faults

Engines that misread a file, as known engines and optimisers have done: {found} of {faults} are
found, {missed} are verified. *Off* is how far the outputs are from right, in standard deviations.

{planted}

## Every file

*Apart* is how far the two implementations are from one another. ✗ is beside a verdict that is not
right, by the rules above.

{table}

## Neither verified nor told, and why

The first line of what a user reads, and what the engine alone does with the same file.

{reasons}
"""


class Results(msgspec.Struct, kw_only=True):
    """All results by file, with their day and the versions that they depend on."""

    date: str = ""
    versions: dict[str, str] = {}
    rows: dict[str, Row] = {}


def load() -> Results:
    """Return the recorded results."""
    found = RESULTS.read_bytes() if RESULTS.exists() else b"{}"
    return msgspec.json.decode(found, type=Results)


def record(results: Results) -> None:
    """Write the results and the page."""
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
    PAGE.write_text(render(results), encoding="utf-8")


def mistake(name: str, result: Result) -> str:
    """Return what is wrong with a verdict; empty if it is right."""
    is_near = result.off is not None and result.off <= TOLERANCES[FILES[name].eight_bits]
    if result.verdict in VERIFIED:
        return "" if is_near else "silently wrong"
    if result.verdict in ("mismatched", "unverified"):
        return "refused though right" if is_near else ""
    if result.verdict == "refused":
        return "refused though right" if result.alone else ""
    return result.verdict


def broken_rules(results: Results) -> Iterator[str]:
    """Yield what must not be, whatever was recorded."""
    mismatched = []
    for name, row in results.rows.items():
        for key, result in row.results.items():
            where, wrong = f"{name} on {key}", mistake(name, result)
            if key in PLANTED.get(name, ()):
                if result.verdict in VERIFIED:
                    yield f"{where}: {result.verdict}, and the fault is planted"
                elif wrong == "refused though right":
                    yield f"{where}: the fault changes nothing"
            elif where in KNOWN:
                if wrong != KNOWN[where]:
                    yield f"{where}: no longer {KNOWN[where]}, as KNOWN says"
            elif wrong and wrong != "refused though right":
                yield f"{where}: {wrong}, {result.off} deviations off: {result.said}"
            elif wrong and result.verdict == "mismatched":
                mismatched.append(where)
    if len(mismatched) > MISMATCHED:
        yield f"right artifacts are mismatched: {', '.join(mismatched)}"
    for engine, share in SHARES.items():
        verified, able = _share(results, engine)
        if verified < share * able:
            yield f"{engine}: {verified} of {able} files are verified, fewer than {share:.0%}"


def _share(results: Results, engine: str) -> tuple[int, int]:
    """Return how many files are verified, and how many the engine alone can run."""
    found = [row.results[engine] for row in results.rows.values()]
    verified = sum(result.verdict in VERIFIED for result in found)
    return verified, verified + sum(bool(result.alone) for result in found)


def render(results: Results) -> str:
    """Return the page in Markdown."""
    rows = results.rows
    planted = [(n, f, row.results[f]) for n, row in rows.items() for f in PLANTED.get(n, ())]
    missed = sum(result.verdict in VERIFIED for *_, result in planted)
    made = sum(not FILES[name].package for name in rows)
    faults = [[f, n, r.verdict, f"{r.off or 0:.1g}"] for n, f, r in planted]
    return TEXT.format(
        files=len(rows) - made,
        packages=len({FILES[name].package for name in rows} - {""}),
        made=made,
        minutes=SECONDS // 60,
        memory=MEMORY >> 30,
        mismatched=MISMATCHED,
        shares=" and ".join(f"{share:.0%} on {engine}" for engine, share in SHARES.items()),
        tolerance=TOLERANCES[False],
        rough=TOLERANCES[True],
        date=results.date,
        waiting=len(FILES) - len(rows),
        versions=", ".join(f"{name} {number}" for name, number in results.versions.items()),
        counts=markdown(_HEAD, [_count(results, engine) for engine in ENGINES]),
        found=len(planted) - missed,
        faults=len(planted),
        missed=missed,
        planted=markdown(["fault", "file", "verdict", "off"], faults),
        table=markdown(["file", "what it does", *ENGINES, "apart"], [*map(_show, rows.items())]),
        reasons=markdown(
            ["file", "engine", "", "alone", "what a user reads"], list(_reasons(results))
        ),
    )


_COUNTED = ("verified", "told", "mismatched", "unverified", "refused", "crashed")
_MISTAKES = ("silently wrong", "refused though right")
_HEAD = ["", *_COUNTED, *_MISTAKES, "verified of those it can run"]


def _count(results: Results, engine: str) -> list[str]:
    found = [(name, row.results[engine]) for name, row in results.rows.items()]
    verdicts = Counter(result.verdict for _, result in found)
    mistakes = Counter(mistake(name, result) for name, result in found)
    verified, able = _share(results, engine)
    share = f"{verified} of {able}, {verified / able:.0%}" if able and engine in SHARES else ""
    counts = (*(verdicts[v] for v in _COUNTED), *(mistakes[m] for m in _MISTAKES))
    return [engine, *map(str, counts), share]


def _show(item: tuple[str, Row]) -> list[str]:
    name, row = item
    found = [row.results[engine] for engine in ENGINES]
    shown = [f"{each.verdict}{' ✗' if mistake(name, each) else ''}" for each in found]
    return [name, FILES[name].about, *shown, "" if row.apart is None else f"{row.apart:.0e}"]


def _reasons(results: Results) -> Iterator[list[str]]:
    for engine in ENGINES:
        for name, row in results.rows.items():
            if (result := row.results[engine]).verdict not in VERIFIED:
                text, alone = (
                    result.said,
                    {True: "runs it", False: "fails, too", None: ""}[result.alone],
                )
                for mark in "\\|<*_[":
                    text = text.replace(mark, f"\\{mark}")
                yield [name, engine, result.verdict, alone, text]
