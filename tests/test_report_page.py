"""The page of a report in a real browser: its content, clicks and print, without any request."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import msgspec
import pytest

import enginebay_lab as lab
from enginebay.artifact import RunRecord
from enginebay.verdict import Simulation
from enginebay_lab.diagnosis.bisection import Place
from enginebay_lab.diagnosis.rank_layers import NodeSensitivity
from enginebay_lab.measurement.benchmark_rows import Layer
from enginebay_lab.reports import sweep_section
from tests.report_schema import json_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "docs" / "how-to" / "report-example.json"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
#: HTML that the page must show as text.
EVIL = "</title></script><script>document.title='taken'</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def example_report() -> lab.Report:
    """The report that the site shows: three engines at two precisions, measured and evaluated."""
    report = lab.report(EXAMPLE)
    (comparison,) = report.comparisons
    failed = lab.ComparisonRow(
        backend="onnxruntime",
        precision="bf16",
        verdict="failed",
        reason="'bf16' does not fit OnnxruntimeParams.precision",
        hint="enginebay check-env onnxruntime",
    )
    rows = (*comparison.rows, failed)
    comparison = msgspec.structs.replace(comparison, rows=rows)
    return msgspec.structs.replace(
        report, comparisons=(comparison,), command="enginebay report all"
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        launched = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens a report as a page, offline; the test fails if the page logs an error."""
    logged: list[str] = []
    requested: list[str] = []
    contexts = []

    def opened(report: lab.Report, **options: Any) -> Any:
        report.save(tmp_path / "report.html")
        context = browser.new_context(offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: logged.append(message.text))
        page.on("pageerror", lambda error: logged.append(str(error)))
        page.on("request", lambda request: requested.append(request.url))
        page.goto((tmp_path / "report.html").as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert logged == []
    assert [url for url in requested if not url.endswith("/report.html")] == []


def column(page: Any, name: str) -> list[str]:
    """Return the texts of a column of the overview, from top to bottom."""
    headers = [text.rstrip(" ↕↑↓") for text in page.locator("#overview thead th").all_inner_texts()]
    place = headers.index(name) + 1
    texts: list[str] = page.locator(f"#overview tbody tr > :nth-child({place})").all_inner_texts()
    return texts


def test_page_shows_verdicts_problems_plots_and_commands(
    example_report: lab.Report, show: Any
) -> None:
    page = show(example_report)
    assert page.title() == "examples/digits/digits.py:trained · Enginebay report"
    assert column(page, "Backend")[:2] == ["PyTorch", "onnxruntime fp32"]
    assert column(page, "Verdict") == ["–", *["✓ verified"] * 6, "✗ failed"]
    summary = page.locator(".summary").inner_text()
    assert "6 of 7 verified against the PyTorch model, unpatched." in summary
    assert re.search(
        r"The fastest verified is onnxruntime |onnxruntime .* are equally fast within the noise: ",
        summary,
    )
    problems = page.locator(".problems").inner_text()
    assert "onnxruntime bf16\n'bf16' does not fit OnnxruntimeParams.precision\n" in problems
    titles = page.locator("figure h3").all_inner_texts()
    assert titles == ["Latency", "Accuracy against speed", "Error of each output"]
    assert page.locator("figure svg").count() == 3
    for plot in page.locator("figure svg").all():
        box = plot.bounding_box()
        assert box["width"] > 300
        assert box["height"] > 100
    assert "processor" in page.locator("#machine dt").all_inner_texts()
    commands = page.locator("#commands pre").all_inner_texts()
    words = [command.rpartition("&& ")[2].split()[1] for command in commands]
    first = example_report.comparisons[0].command.rpartition("&& ")[2].split()[1]
    assert words == [first, "benchmark", "evaluate", "report"]


def test_page_names_the_engine_of_simulated_figures(example_report: lab.Report) -> None:
    """Figures of a simulated graph belong to the engine that ran it."""
    first, *others = example_report.artifacts
    verification = first.manifest.verification
    assert verification is not None
    simulation = Simulation(engine="another 1", samples=5, outputs=verification.outputs)
    run = RunRecord(
        host="lab", device="B 1", engine_version="1", time="then", verification=verification
    )
    manifest = msgspec.structs.replace(
        first.manifest,
        built_for="a board",
        runs=(run,),
        verification=msgspec.structs.replace(verification, simulation=simulation),
    )
    first = msgspec.structs.replace(first, manifest=manifest)
    page = msgspec.structs.replace(
        example_report, comparisons=(), artifacts=(first, *others)
    ).to_html()
    assert "<dt>its graph alone</dt><dd>another 1 ran the graph: " in page
    assert "<dt>built for</dt><dd>a board</dd>" in page
    assert "<dt>ran on</dt><dd>B 1, verified, then on lab</dd>" in page


def test_click_on_a_header_sorts_the_table(example_report: lab.Report, show: Any) -> None:
    page = show(example_report)
    before = column(page, "Backend")
    page.click("#overview thead button:has-text('Backend')")
    assert column(page, "Backend") == sorted(before, key=str.lower)
    page.click("#overview thead button:has-text('Backend')")
    assert column(page, "Backend") == sorted(before, key=str.lower, reverse=True)
    page.click("#overview thead button:has-text('Max error')")
    shown = page.locator("#overview tbody tr > :nth-child(3)")
    keys = shown.evaluate_all("cells => cells.map((cell) => cell.dataset.key ?? null)")
    numbers = [float(key) for key in keys if key is not None]
    assert numbers == sorted(numbers)
    assert len(numbers) == 6
    assert keys[6:] == [None, None]  # rows without an error come last
    (sorted_by,) = page.locator("#overview thead th[aria-sort]").all()
    assert sorted_by.get_attribute("aria-sort") == "ascending"
    assert sorted_by.inner_text().startswith("Max error")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_in_both_themes(
    example_report: lab.Report, show: Any, scheme: Any
) -> None:
    page = show(example_report, color_scheme=scheme)
    colour = "getComputedStyle(document.body).backgroundColor"
    own = page.evaluate(colour)
    assert (own == "rgb(255, 255, 255)") == (scheme == "light")
    other = {"light": "Dark", "dark": "Light"}[scheme]
    assert page.inner_text("#theme") == other
    page.click("#theme")
    assert page.evaluate(colour) != own
    assert page.inner_text("#theme") == scheme.title()
    for selector in ("body", "td", ".badge", "figcaption", "#overview thead button"):
        assert contrast(page, selector) > 4.5, selector
    page.click("#theme")
    assert page.evaluate(colour) == own
    for selector in ("body", "td", ".badge", "figcaption", "#overview thead button"):
        assert contrast(page, selector) > 4.5, selector


def contrast(page: Any, selector: str) -> float:
    """Return the contrast of a text with its background, as WCAG 2 defines it."""
    ratio: float = page.evaluate(
        """(selector) => {
        const luminance = (colour) => {
          const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => {
            const value = part / 255;
            return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
          });
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        let node = document.querySelector(selector);
        const text = luminance(getComputedStyle(node).color);
        while (/, 0\\)$/.test(getComputedStyle(node).backgroundColor)) node = node.parentElement;
        const back = luminance(getComputedStyle(node).backgroundColor);
        return (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
      }""",
        selector,
    )
    return ratio


def test_on_a_phone_only_the_tables_scroll_sideways(example_report: lab.Report, show: Any) -> None:
    page = show(example_report, viewport={"width": 390, "height": 800}, has_touch=True)
    for details in page.locator("details").all():
        details.locator("summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    overview = page.locator("#overview .scroll")
    assert overview.evaluate("box => box.scrollWidth > box.clientWidth")
    overview.evaluate("box => box.scrollLeft = 200")
    name = page.locator("#overview tbody th").first.bounding_box()
    assert name["x"] >= 0  # the name of the row stays
    size = page.locator("figure text").first.evaluate("text => text.getBoundingClientRect().height")
    assert size > 8  # pixels: readable
    # A shadow that stays at the box's side, under a cover that scrolls, shows that there is more.
    attachment = overview.evaluate("box => getComputedStyle(box).backgroundAttachment")
    assert attachment.startswith("local, local, scroll, scroll")


def test_all_tables_fit_a_laptop(example_report: lab.Report, show: Any) -> None:
    """Also with all columns: several batch sizes and threads, ranges and a failure."""
    benchmark = example_report.benchmarks[0]
    rows = [
        msgspec.structs.replace(row, batch=batch, threads=threads)
        for row in benchmark.rows
        for batch, threads in ((1, 1), (1024, 16))
    ]
    rows[2] = msgspec.structs.replace(rows[2], call=None, engine=None, failure="it crashed " * 20)
    many = msgspec.structs.replace(benchmark, rows=tuple(rows))
    for report in (example_report, msgspec.structs.replace(example_report, benchmarks=(many,))):
        page = show(report, viewport={"width": 1280, "height": 800})
        for details in page.locator("details").all():
            details.locator("summary").click()
        assert page.evaluate("document.documentElement.scrollWidth") == 1280
        for box in page.locator(".scroll").all():
            name = box.locator("caption").inner_text()
            widths = box.evaluate("box => [box.scrollWidth, box.clientWidth]")
            assert widths[0] <= widths[1], name


def test_very_long_names_do_not_widen_the_page(example_report: lab.Report, show: Any) -> None:
    long = "a_name_that_goes_on_and_on_" * 8
    comparison = msgspec.structs.replace(
        example_report.comparisons[0], model=f"{long}.py:{long}", command=f"cd /{long} && {long}"
    )
    artifacts = []
    for artifact in example_report.artifacts:
        verification = artifact.manifest.verification
        assert verification is not None
        outputs = tuple(
            msgspec.structs.replace(output, name=long) for output in verification.outputs
        )
        verification = msgspec.structs.replace(verification, outputs=outputs)
        manifest = msgspec.structs.replace(artifact.manifest, verification=verification)
        artifacts.append(msgspec.structs.replace(artifact, manifest=manifest))
    report = msgspec.structs.replace(
        example_report, comparisons=(comparison,), artifacts=tuple(artifacts)
    )
    for width in (1280, 390):
        page = show(report, viewport={"width": width, "height": 800})
        for details in page.locator("details").all():
            details.locator("summary").click()
        assert page.evaluate("document.documentElement.scrollWidth") == width
        widths = page.locator("h1, pre, pre .word, figure, figure svg").evaluate_all(
            "nodes => nodes.map((node) => node.getBoundingClientRect().right)"
        )
        assert max(widths) <= width


@pytest.mark.parametrize("width", [1280, 390])
def test_headers_do_not_cover_their_arrows(
    example_report: lab.Report, show: Any, width: int
) -> None:
    page = show(example_report, viewport={"width": width, "height": 800})
    arrows = page.locator("thead button").evaluate_all(
        "buttons => buttons.map((button) => parseFloat(getComputedStyle(button).paddingRight)"
        " - parseFloat(getComputedStyle(button, '::after').width))"
    )
    assert min(arrows) > 0  # the arrow is in the padding


def test_details_open_and_a_command_is_copied(example_report: lab.Report, show: Any) -> None:
    page = show(example_report, permissions=["clipboard-read", "clipboard-write"])
    detail = page.locator("#verdicts details").first
    assert not detail.locator("dl").is_visible()
    detail.locator("summary").click()
    assert "onnxruntime" in detail.locator("dl").inner_text()
    assert detail.locator("tbody th").inner_text() == "output"
    page.locator(".copy").last.click()
    page.wait_for_selector(".copy:has-text('Copied')")
    assert page.evaluate("navigator.clipboard.readText()") == "enginebay report all"


def test_print_is_black_on_white_with_open_details(example_report: lab.Report, show: Any) -> None:
    page = show(example_report, color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("#theme").is_visible()
    assert not page.locator(".copy").first.is_visible()
    assert page.locator("#verdicts dl").last.is_visible()


def test_page_is_readable_without_scripts(example_report: lab.Report, show: Any) -> None:
    page = show(example_report, java_script_enabled=False)
    assert "✓ verified" in page.inner_text("#overview")
    assert not page.locator("#theme").is_visible()
    assert page.locator("#commands pre").last.inner_text() == "enginebay report all"


def test_text_of_a_record_is_escaped(
    example_report: lab.Report, swept: lab.Report, show: Any
) -> None:
    comparison, evaluation = example_report.comparisons[0], example_report.evaluations[0]
    rows = [
        msgspec.structs.replace(row, backend=EVIL, reason=EVIL, hint=EVIL, notes=(EVIL,))
        for row in comparison.rows
    ]
    metrics = [msgspec.structs.replace(row, metric=EVIL) for row in evaluation.rows]
    evil = msgspec.structs.replace(
        example_report,
        comparisons=(
            msgspec.structs.replace(comparison, model=EVIL, command=EVIL, rows=tuple(rows)),
        ),
        evaluations=(msgspec.structs.replace(evaluation, rows=tuple(metrics), reference=EVIL),),
        command=EVIL,
    )
    (sweep,) = swept.sweeps
    row = msgspec.structs.replace(
        sweep.rows[7], model=EVIL, fault=EVIL, reason=EVIL, host=EVIL, versions={EVIL: EVIL}
    )
    sweep = msgspec.structs.replace(sweep, rows=(row,), regressions=(EVIL,), notes=(EVIL,))
    evil = msgspec.structs.replace(evil, sweeps=(sweep,))
    page = show(evil)
    assert page.inner_text("h1") == EVIL
    assert page.title() == f"{EVIL} · Enginebay report"
    assert page.locator("script").count() == 1
    assert page.locator("img").count() == 0
    assert EVIL in page.inner_text("#commands")


def test_layer_errors_and_times_are_plotted(example_report: lab.Report, show: Any) -> None:
    places = [
        Place(module="features.0", accumulated=1e-7, alone=1e-7),
        Place(module="features.1", accumulated=0.02, alone=0.02, wrong=True, wrong_alone=True),
        Place(module="classifier", accumulated=0.01, alone=1e-7, wrong=True, wrong_alone=False),
    ]
    bisection = lab.Bisection(
        found=True, module="features.1", reason="it leaves PyTorch there", places=tuple(places)
    )
    sensitivity = lab.Sensitivity(
        backend="openvino",
        precision="int8",
        items=64,
        nodes=(NodeSensitivity("node_conv", "Conv", 21.5), NodeSensitivity("node_fc", "Gemm", 40)),
    )
    layer = Layer(name="conv_relu", operator="Conv", seconds=2e-5, share=1.0, modules=("features",))
    benchmark = example_report.benchmarks[0]
    rows = [msgspec.structs.replace(row, layers=(layer,)) for row in benchmark.rows[:2]]
    page = show(
        lab.report(
            example_report,
            bisection,
            sensitivity,
            msgspec.structs.replace(benchmark, rows=tuple(rows)),
        )
    )
    titles = page.locator("figure h3").all_inner_texts()
    assert "Error of each layer" in titles
    assert "Error of each layer: openvino int8" in titles
    assert "Time of each layer: onnxruntime fp32" in titles
    errors = page.locator("figure:has(h3:text-is('Error of each layer'))")
    assert errors.locator("svg .bar").count() == 6
    assert errors.locator(".legend li").count() == 2
    assert "it leaves PyTorch there" in page.locator(".summary").inner_text()
    wrong = page.locator("table:has(caption:text-is('Error of each layer')) tbody td:last-child")
    assert wrong.all_inner_texts() == ["–", "alone", "accumulated"]


@pytest.fixture(scope="module")
def swept(example_report: lab.Report) -> lab.Report:
    """Four models on six engines and two hosts, with cells of each verdict and a lost cell."""
    machine = example_report.benchmarks[0].machine
    planted = {("b.py", 1): "mismatched", ("c.py", 2): "failed", ("d.py", 3): "crashed"}
    rows = []
    for model in ("a.py", "b.py", "c.py", "d.py"):
        for number, row in enumerate(example_report.comparisons[0].rows[:6]):
            fields = msgspec.structs.asdict(row) | {
                "speed": example_report.benchmarks[0].rows[number + 1]
            }
            verdict = planted.get((model, number), row.verdict)
            if verdict != row.verdict:
                fields |= {"verdict": verdict, "reason": f"planted on {model}", "hint": "look"}
            host = f"host-{number % 2}"
            rows.append(
                lab.SweepRow(
                    key=f"{model} {number}",
                    model=model,
                    host=host,
                    machine=machine,
                    versions={"torch": f"2.{number % 2}"},
                    **fields,
                )
            )
    rows[7] = msgspec.structs.replace(
        rows[7], verdict="lost", fault="worker died", reason="it was killed", attempts=3
    )
    worse = ("b.py on ncnn fp32: mismatched (verified in the baseline)",)
    notes = ("cells measured on a different machine, so speed is not compared: 2",)
    command = "enginebay sweep SWEEP.toml"
    return lab.report(lab.Sweep(rows=tuple(rows), regressions=worse, notes=notes, command=command))


def test_sweep_page_shows_verdicts_figures_and_lost_cells(swept: lab.Report, show: Any) -> None:
    page = show(swept)
    assert page.inner_text("h1") == "Sweep of 4 models"
    assert page.locator(".summary li").all_inner_texts() == [
        "1 regression since the baseline.",
        "21 of 24 verified, 1 crashed, 1 failed, 1 lost: 4 models, on 2 machines.",
    ]
    assert "b.py on ncnn fp32: mismatched" in page.inner_text(".worse")
    captions = page.locator(".sweep caption").all_inner_texts()
    glance, *others = captions
    assert glance == "Verdicts: ✓ verified, ! crashed, ✗ failed, ∅ lost"
    assert others == ["Figures of host-0", "Figures of host-1", "Lost: no result"]
    tables = page.locator(".sweep table")
    rows = [tables.nth(number).locator("tbody tr").count() for number in range(4)]
    assert rows == [4, 12, 11, 1]
    signs = tables.first.locator("tbody tr:nth-child(3) td").all_inner_texts()
    assert [text.split("\n")[0][0] for text in signs] == ["✓", "✓", "✗", "✓", "✓", "✓"]
    lost = tables.last.locator("tbody td").all_inner_texts()
    assert lost[1:] == ["worker died", "host-1", "3", "it was killed; hint: look"]
    assert "planted on c.py\nlook" in page.inner_text(".problems")
    assert page.locator(".sweep details summary").all_inner_texts() == [
        *("What limits these figures (1)", "host-0", "host-1")
    ]
    assert page.locator("#commands pre").all_inner_texts() == ["enginebay sweep SWEEP.toml"]
    assert page.locator("#overview").count() == 0


def test_a_cell_that_failed_has_the_precision_of_its_backends_other_cells() -> None:
    rows = [
        lab.SweepRow(
            key=f"{model}{backend}{verdict}",
            model=model,
            backend=backend,
            precision="" if verdict == "failed" else "fp32",
            verdict=verdict,
        )
        for model, backend, verdict in [
            *(("a.py", "ncnn", "verified"), ("b.py", "ncnn", "failed")),
            *(("a.py", "openvino", "failed"), ("b.py", "openvino", "failed")),
        ]
    ]
    table = sweep_section.describe_sweep(lab.Sweep(rows=tuple(rows)))["tables"][0]
    assert table.columns == ("Model", "ncnn fp32", "openvino")
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["a.py", "verified", "failed"],
        ["b.py", "failed", "failed"],
    ]


def test_sweep_of_a_single_model_has_no_overview_table(swept: lab.Report, show: Any) -> None:
    (sweep,) = swept.sweeps
    page = show(lab.report(msgspec.structs.replace(sweep, rows=sweep.rows[:2], notes=())))
    assert page.inner_text("h1") == "a.py"
    assert page.locator(".sweep caption").first.inner_text() == "Figures of host-0"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_sweep_page_fits_a_phone_in_both_themes(swept: lab.Report, show: Any, scheme: Any) -> None:
    page = show(swept, viewport={"width": 390, "height": 800}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    for selector in (".worse li", ".worse h3", ".badge.lost", ".badge.failed", ".badge.verified"):
        assert contrast(page, selector) > 4.5, selector
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert contrast(page, ".worse li") > 20


def test_extreme_figures_and_long_names_do_not_widen_the_page(
    example_report: lab.Report, show: Any
) -> None:
    comparison, benchmark = example_report.comparisons[0], example_report.benchmarks[0]
    rows = []
    for row, error in zip(comparison.rows, (0.0, -1.0, None, 1e300, 1e-300, 1.0), strict=False):
        assert row.verification is not None
        output = msgspec.structs.replace(
            row.verification.outputs[0], max_abs_error=error, name="x" * 300
        )
        verification = msgspec.structs.replace(row.verification, outputs=(output,))
        rows.append(
            msgspec.structs.replace(row, verification=verification, backend="y" * 300, artifact="")
        )
    speeds = [
        msgspec.structs.replace(row, quantiles=(0.0,) * 101, batch=0) for row in benchmark.rows
    ]
    odd = msgspec.structs.replace(
        example_report,
        artifacts=(),
        comparisons=(msgspec.structs.replace(comparison, rows=tuple(rows), model="z" * 300),),
        benchmarks=(msgspec.structs.replace(benchmark, rows=tuple(speeds)),),
    )
    page = show(odd, viewport={"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_page_is_small_self_contained_and_deterministic(example_report: lab.Report) -> None:
    html = example_report.to_html()
    assert len(html.encode()) < 150_000
    assert html == example_report.to_html()
    for part in ("src=", "href=", "@import", "url("):
        assert part not in html
    addresses = html.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "http:" not in addresses
    assert "https:" not in addresses


def test_schema_in_the_docs_matches_the_records() -> None:
    """After a change of a record, ``python -m tests.test_report_page`` writes the schema."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert schema == json_schema()
    example = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    jsonschema.validate(example, schema)


def test_the_plots_are_the_same_with_lxml(example_report: lab.Report) -> None:
    """pygal draws with lxml if it is installed, unless ``NO_LXML`` is set."""
    pytest.importorskip("lxml", reason="lxml is not installed")
    code = (
        "import sys; import enginebay_lab as lab\n"
        f"sys.stdout.write(lab.report({str(EXAMPLE)!r}).to_html())"
    )
    pages = [
        subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
        for env in (dict(os.environ), {**os.environ, "NO_LXML": "1"})
    ]
    assert pages[0].stdout == pages[1].stdout


SCHEMA = ROOT / "docs" / "reference" / "report.schema.json"

if __name__ == "__main__":
    SCHEMA.write_text(json.dumps(json_schema(), indent=1) + "\n", encoding="utf-8")


def test_plots_leave_no_import_finder_without_find_spec() -> None:
    """At a failed import pygal adds a finder of a deprecated kind, which Python warns about."""
    code = (
        "import sys\n"
        "from enginebay_lab.reports.svg_plots import import_pygal\n"
        "import_pygal()\n"
        "assert all(hasattr(finder, 'find_spec') for finder in sys.meta_path)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
