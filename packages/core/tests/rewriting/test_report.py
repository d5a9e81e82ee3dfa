from __future__ import annotations

import pytest
import torch
from msgspec import structs
from packages.core.tests.rewriting.contexts import rewrite
from torch import nn

from enginebay.errors import RewriterError
from enginebay.rewriting import AppliedRewriter, RewriteReport, RewriterSet


def applied(name, count, kind="function"):
    return AppliedRewriter(
        kind=kind,
        name=name,
        origin="mine.other",
        condition="always",
        distribution=None,
        count=count,
    )


def test_report_text_lists_every_rewriter_and_problem():
    report = RewriteReport(
        applied=(applied("a.f", 0), applied("a.g", 1), applied("a.M", 7, "module")),
        not_found=("no such thing",),
        not_served=("no such exporter",),
        lost=(
            AppliedRewriter(
                kind="function",
                name="a.f",
                origin="pack.f",
                condition="always",
                distribution="pack",
                count=0,
                lost_to="mine.other",
            ),
        ),
    )
    assert str(report) == (
        "function a.f: never fired\n"
        "function a.g: fired once\n"
        "module a.M: fired 7 times\n"
        "no such thing\n"
        "no such exporter\n"
        "function a.f: pack.f was not used, mine.other has priority"
    )
    assert report.fired == {"a.g": 1, "a.M": 7}
    assert report.never_fired == ("a.f",)


def test_summary_leaves_out_idle_fallbacks_and_idle_rewriters_of_the_backend():
    report = RewriteReport(
        applied=tuple(
            structs.replace(applied(name, 0), distribution=distribution, fallback=fallback)
            for name, distribution, fallback in (
                ("usual", "some-pack", True),
                ("engine", "enginebay-any", False),
                ("pack", "some-pack", False),
                ("mine", None, False),
            )
        )
    )
    assert list(report.summarize("enginebay-any")) == ["never fired: pack, mine"]


def test_empty_report_says_that_no_rewriter_applied():
    assert str(RewriteReport()) == "no rewriter applied"


def test_two_kinds_for_one_name_are_counted_together():
    report = RewriteReport(applied=(applied("a.f", 1), applied("a.f", 2, "symbolic")))
    assert report.fired == {"a.f": 3}


def test_report_counts_inside_the_block_and_stays_after_it():
    rewriters = RewriterSet(backend="any", distribution="some-pack")
    rewriters.function("torch.relu")(lambda ctx, x: ctx.origin_func(x))
    rewriters.function("torch.sigmoid", ir="onnx")(lambda ctx, x: ctx.origin_func(x))
    with rewrite(backend="any", rewriters=[rewriters], builtin=False) as rewriting:
        assert rewriting.report.fired == {}
        torch.relu(torch.zeros(1))
        before = rewriting.report
        torch.relu(torch.zeros(1))
    torch.relu(torch.zeros(1))
    assert before.fired == {"torch.relu": 1}
    here = "test_report_counts_inside_the_block_and_stays_after_it.<locals>"
    assert rewriting.report.applied == (
        AppliedRewriter(
            kind="function",
            name="torch.relu",
            origin=f"{__name__}.{here}.<lambda>",
            condition="backend any",
            distribution="some-pack",
            count=2,
        ),
        AppliedRewriter(
            kind="function",
            name="torch.sigmoid",
            origin=f"{__name__}.{here}.<lambda>",
            condition="backend any, ir onnx",
            distribution="some-pack",
            count=0,
        ),
    )


def test_reused_context_counts_from_zero():
    rewriters = RewriterSet()
    rewriters.function("torch.relu")(lambda ctx, x: ctx.origin_func(x))
    rewriting = rewrite(backend="any", rewriters=[rewriters], builtin=False)
    for _ in range(2):
        with rewriting:
            torch.relu(torch.zeros(1))
        assert rewriting.report.fired == {"torch.relu": 1}


def test_strict_error_lists_every_name_not_found():
    class Other(nn.Module):
        pass

    rewriters = RewriterSet()
    rewriters.function("torch.rellu")(print)
    rewriters.module("torch.nn.Lineaar")(Other)
    with (
        pytest.raises(RewriterError) as caught,
        rewrite(backend="any", rewriters=[rewriters], builtin=False, strict=True),
    ):
        pass
    assert str(caught.value) == (
        '"torch.nn.Lineaar" was not found: "torch.nn" has no "Lineaar" (did you mean "Linear"?)\n'
        '"torch.rellu" was not found: "torch" has no "rellu" (did you mean "relu"?)'
    )
