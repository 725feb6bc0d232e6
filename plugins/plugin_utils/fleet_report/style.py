# SPDX-License-Identifier: GPL-3.0-or-later
"""The look of the page and of its plots: light, dark, and on paper."""

from __future__ import annotations

_LIGHT = """
--page:#fff;--panel:#f6f7f9;--text:#1b1f24;--soft:#4b5563;--rule:#c9ced6;--grid:#e3e6eb;--link:#0b57d0;
--ok:#d5f0dc;--ok-t:#14532d;--info:#dbe9fe;--info-t:#1e3a8a;--warning:#fde6b3;--warning-t:#6b3a0b;--error:#f9cdc8;--error-t:#7f1d1d;
--unknown:#e3e5e9;--unknown-t:#30363d;--missing:#dcd7f3;--missing-t:#3b2f80;--none:transparent;--none-t:#5b6470;
--s1:#1d4ed8;--s2:#b45309;--s3:#047857;--s4:#7c3aed;--s5:#be123c;--s6:#0e7490;--window:#fde6b3;
"""
_DARK = """
--page:#14171c;--panel:#1d2127;--text:#e6e9ee;--soft:#aeb6c2;--rule:#454c57;--grid:#2b3038;--link:#8ab4f8;
--ok:#143d24;--ok-t:#a7ecbd;--info:#1c2f57;--info-t:#bcd4ff;--warning:#4a3508;--warning-t:#fcd889;--error:#571b1b;--error-t:#ffc4bd;
--unknown:#343a43;--unknown-t:#dde1e7;--missing:#332a63;--missing-t:#d5ccff;--none:transparent;--none-t:#9aa3af;
--s1:#8ab4f8;--s2:#f5b25d;--s3:#5fd3a2;--s4:#c4a7ff;--s5:#ff95ab;--s6:#67cfe3;--window:#4a3508;
"""
_LEVELS = "".join(
    f".{level}{{--own:var(--{level});--own-t:var(--{level}-t)}}" for level in ("ok", "info", "warning", "error", "unknown", "missing", "none")
) + "".join(f".s{number}{{--line:var(--s{number})}}" for number in range(1, 7))

PLOT_STYLE = """
.plot text{font:12px system-ui,"DejaVu Sans",sans-serif;fill:var(--text)}
.plot .tick,.plot .note{fill:var(--soft)}.plot .label{fill:var(--soft);font-weight:600}.plot .letter,.plot .glyph{font-weight:700}
.plot .axis{fill:none;stroke:var(--soft)}.plot .grid{fill:none;stroke:var(--grid)}
.plot .line{fill:none;stroke:var(--line);stroke-width:1.6;stroke-linejoin:round}
.plot .marker{fill:var(--line);stroke:var(--line);stroke-width:1.6}
.plot .band{fill:var(--line);fill-opacity:.18;stroke:var(--line);stroke-opacity:.5}
.plot .window{fill:var(--window);fill-opacity:.6;stroke:var(--soft);stroke-dasharray:2 3}
.plot .mark{fill:none;stroke:var(--text);stroke-width:1.4;stroke-dasharray:5 3}
.plot .bar,.plot .cell{fill:var(--own);stroke:var(--own-t);stroke-width:.8}.plot .bar.none{fill:var(--unknown);stroke:var(--unknown-t)}
.plot .cell.none{stroke:var(--rule)}.plot .glyph{fill:var(--own-t)}.plot .whisker{fill:none;stroke:var(--text);stroke-width:1.4}
"""

PAGE_STYLE = """
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:16px/1.5 system-ui,"DejaVu Sans",sans-serif;overflow-wrap:anywhere}
main,header,nav,footer{max-width:84rem;margin:0 auto;padding:0 1rem}
h1{font-size:1.7rem;line-height:1.25;margin:1.2rem 0 .4rem}h2{font-size:1.3rem;margin:2.2rem 0 .6rem;padding-top:.6rem;border-top:1px solid var(--rule)}
h3{font-size:1.05rem;margin:1.4rem 0 .4rem}p{max-width:48rem;margin:.5rem 0}a{color:var(--link)}
nav ul{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;list-style:none;padding:0;margin:.8rem 0}
.verdict{border:2px solid var(--own-t);background:var(--own);color:var(--own-t);border-radius:.4rem;padding:.6rem 1rem;font-size:1.15rem;max-width:none}
.chip{display:inline-block;background:var(--own);color:var(--own-t);border:1px solid var(--own-t)}
.chip{border-radius:.3rem;padding:0 .4rem;white-space:nowrap;font-size:.93em}
.chip.none{border-color:var(--rule)}
.scroll{overflow-x:auto;max-width:100%}.scroll:focus-visible,summary:focus-visible,pre:focus-visible{outline:2px solid var(--link);outline-offset:2px}
table{border-collapse:collapse;margin:.6rem 0;font-size:.9rem}caption{text-align:left;font-weight:600;padding:.2rem 0}
th,td{border-bottom:1px solid var(--rule);padding:.25rem .7rem .25rem 0;text-align:left;vertical-align:top}
th,td{max-width:34rem;overflow-wrap:break-word;font-variant-numeric:tabular-nums}
thead th{border-bottom:2px solid var(--rule);white-space:nowrap}tbody th{font-weight:600}
.texts th,.texts td{min-width:9rem}
figure{margin:1rem 0}figcaption,.note{color:var(--soft);font-size:.9rem;max-width:48rem}
.plot{display:block;width:100%;min-width:40rem;max-width:60rem;height:auto}
details{margin:.4rem 0}summary{cursor:pointer;padding:.15rem 0}details>:not(summary){margin-left:1rem}
pre{background:var(--panel);padding:.6rem;overflow:auto;max-height:32rem;font-size:.8rem;white-space:pre-wrap}
code{font-size:.9em}footer{color:var(--soft);font-size:.9rem;padding:1rem}
@media print{
@page{size:landscape;margin:12mm}
body{font-size:10pt}main,header,nav,footer{max-width:none;padding:0}nav{display:none}.scroll{overflow:visible}.plot{min-width:0;max-width:17cm}
tr,figure,.verdict{break-inside:avoid}h2,h3,caption{break-after:avoid}thead{display:table-header-group}pre{max-height:none}
table{font-size:7.5pt}th,td,.texts th,.texts td{min-width:0;padding-right:.4rem}thead th{white-space:normal}.verdict,.chip,.plot rect{print-color-adjust:exact}
}
"""


def _variables() -> str:
    return f":root{{color-scheme:light dark;{_LIGHT}}}@media screen and (prefers-color-scheme:dark){{:root{{{_DARK}}}}}"


def page_style() -> str:
    """The style sheet of the page. Paper is light."""
    return _packed(_variables() + _LEVELS + PAGE_STYLE + PLOT_STYLE)


def picture_style() -> str:
    """The style sheet of a picture that stands alone."""
    return _packed(_variables() + _LEVELS + PLOT_STYLE)


def _packed(css: str) -> str:
    return css.replace("\n", "")
