"""The page: a title, all sections that are not empty, a style sheet; light or dark as the reader's system."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from trainer.cli.output import escape_controls
from trainer.cli.report.sections import SECTIONS
from trainer.cli.report.source import Source

STYLE = """
:root { color-scheme: light dark; --ink: #1c1f23; --quiet: #68707a; --line: #d9dde2; --paper: #fff;
  --train: #0072b2; --valid: #d55e00; --ema: #009e73; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7ea; --quiet: #98a1ab; --line: #3a4048; --paper: #16181b;
  --train: #56b4e9; --valid: #e69f00; --ema: #2bc49a; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 1180px; padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; } h3 { font-size: 1rem; margin: 0; }
.quiet, text { color: var(--quiet); fill: var(--quiet); } text { font-size: 11px; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .15rem .9rem .15rem 0; border-bottom: 1px solid var(--line); vertical-align: top;
  overflow-wrap: normal; }
td.number, th.number { text-align: right; } .matrix td, .matrix th { padding: .15rem .5rem; }
.figures { display: flex; flex-wrap: wrap; gap: .5rem 2.5rem; margin: 1.2rem 0; } .figure { margin: 0; }
.figure b { display: block; font-size: 2rem; line-height: 1.15; font-variant-numeric: tabular-nums; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(340px, 100%), 1fr)); gap: 1.4rem 1rem; }
.charts.large { grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); }
.charts.large figure { max-width: 640px; }
.samples { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(200px, 46%), 1fr)); gap: 1rem .6rem; }
.samples.tiny { grid-template-columns: repeat(auto-fill, minmax(84px, 132px)); }
.group { display: flex; gap: 4px; grid-column: span 2; } .group figure { flex: 1 1 0; min-width: 0; }
figure { margin: 0; } figcaption { font-size: .85rem; } svg { width: 100%; height: auto; display: block; }
.picture { position: relative; } .picture img { width: 100%; display: block; }
.picture img.small { image-rendering: pixelated; } .picture .mask { position: absolute; inset: 0; height: 100%; }
.picture svg { position: absolute; inset: 0; height: 100%; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; font-size: .85rem; margin: .6rem 0 0; }
.legend i { display: inline-block; width: .8em; height: .8em; margin-right: .4em; }
.grid { stroke: var(--line); } path { fill: none; stroke-width: 1.6; } rect { fill: none; stroke-width: 1.5; }
path.train { stroke: var(--train); } path.valid { stroke: var(--valid); } path.ema { stroke: var(--ema); }
circle.train { fill: var(--train); } circle.valid { fill: var(--valid); } circle.ema { fill: var(--ema); }
circle.best { fill: none; stroke: var(--ink); stroke-width: 1.5; }
.key { font-size: .85rem; } .key b { font-weight: 600; } .key b::before { content: "\\25CF  "; }
.key .train::before { color: var(--train); } .key .valid::before { color: var(--valid); }
.key .ema::before { color: var(--ema); } .diagram { max-width: 560px; }
path.c0 { stroke: #0072b2; } path.c1 { stroke: #d55e00; } path.c2 { stroke: #009e73; }
path.c3 { stroke: #cc79a7; } path.c4 { stroke: #e69f00; } path.c5 { stroke: #56b4e9; }
.key .c0::before { color: #0072b2; } .key .c1::before { color: #d55e00; } .key .c2::before { color: #009e73; }
.key .c3::before { color: #cc79a7; } .key .c4::before { color: #e69f00; } .key .c5::before { color: #56b4e9; }
path.points { stroke: none; } circle.points { fill: var(--train); } .key .points::before { color: var(--train); }
text.over { paint-order: stroke; stroke: var(--paper); stroke-width: 4; }
rect.box { vector-effect: non-scaling-stroke; }
pre { overflow-x: auto; font-size: 13px; line-height: 1.35; } summary { cursor: pointer; padding: .15rem 0; }
"""

Progress = Callable[[int, int, str], None]
"""Receives progress by section: done, total, current section."""


def report_page(source: Source, progress: Progress = lambda done, total, now: None) -> str:
    """The whole page as HTML."""
    run = source.run
    body = []
    for done, (title, section) in enumerate(SECTIONS):
        progress(done, len(SECTIONS), title)
        content = section(source)
        if content:
            body.append(f"<section><h2>{escape(title)}</h2>{content}</section>" if title else content)
    progress(len(SECTIONS), len(SECTIONS), "")
    return escape_controls(document(run.name, body))


def document(title: str, body: Sequence[str]) -> str:
    """A page with the style sheet of all reports; nothing is loaded from elsewhere."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
        "style-src 'unsafe-inline'\">"
        f"<title>{escape(title)} · trainer</title><style>{STYLE}</style></head>"
        f"<body>{''.join(body)}</body></html>\n"
    )
