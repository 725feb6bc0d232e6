# SPDX-License-Identifier: GPL-3.0-or-later
"""The collapses of random writes, as pictures: the simulated SSD as a drive of 4 TB with 13.6 % of hidden space, and fio on it; no machine.

Four pictures: random passes after a trim, beside uniform addresses; the same beside writes in sequence; the drive offered as 4, 3.5, 3 and 2 TB; and the
write amplification (WA) of those four, beside the theory of the reserve. The rate is the inverse of the WA, as where only programs cost time: 1 is that
of a fresh drive. All figures come from the drive's own counts, and the terabytes are those of the drive that it stands for.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "playbooks/collections"))

from _bench import line, parser
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.amplification import amplification_at
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.axes import Scale
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.environment import render_picture
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.lines import Mark, Series, line_plot
from ftl import BLOCK_PAGES, PAGE, SEQUENTIAL_BYTES, WINDOW, Drive, collapses

SOLD, HIDDEN = 4.0, 0.136  # TB, and the share of it beyond
OFFERED = (4.0, 3.5, 3.0, 2.0)
SHOWN = 12.0  # TB written
SETTLING = 2.0  # fills of uniform random pages before they are counted
SHARES = [step / 200 for step in range(101)]
WRITTEN, RATE = Scale("written", "TB", low=0.0, high=SHOWN), Scale("rate, of a fresh drive's", low=0.0, high=1.05)


@contextmanager
def offered(place: Path, terabytes: float, dice: random.Random) -> Iterator[Drive]:
    """A new drive of which only so much is ever written."""
    drive = Drive(place, 100 * HIDDEN, dice)
    try:
        drive.pages = round(drive.pages * terabytes / SOLD)
        yield drive
    finally:
        drive.ssd.stop()


def ratio(terabytes: float) -> float:
    """The physical by the written space."""
    return (1 + HIDDEN) * SOLD / terabytes


def series(name: str, course: Sequence[float], terabytes: float) -> Series:
    """The rate over the terabytes that were written, from the WA of each window."""
    xs = [(number + 0.5) * WINDOW * terabytes for number in range(len(course))]
    return Series(name, [at for at in xs if at <= SHOWN], [1 / wa for at, wa in zip(xs, course, strict=True) if at <= SHOWN])


def pictures(courses: dict[str, Sequence[float]], found: dict[float, float]) -> dict[str, str]:
    """Name → SVG. *courses*: uniform, sequential, and the passes by the terabytes offered; *found*: WA by the terabytes offered."""
    passes = series("random passes", courses["4"], SOLD)
    marks = [Mark(at * SOLD, f"collapse after {at * SOLD:.2f} TB") for at in collapses(courses["4"]) if at * SOLD < SHOWN]
    model = Series("theory of uniform writes", [100 * one for one in SHARES], [amplification_at((1 + HIDDEN) / (1 - one), BLOCK_PAGES) for one in SHARES])
    points = Series("simulated", [100 * (1 - one / SOLD) for one in OFFERED], [found[one] for one in OFFERED])
    by_offer = [series(f"{one:g} TB", courses[f"{one:g}"], one) for one in OFFERED]
    uniform, sequential = series("uniform addresses", courses["uniform"], SOLD), series("in sequence, 128 KiB", courses["sequential"], SOLD)
    drive = "A drive of 4 TB with 13.6 % of hidden space"
    plots = {
        "collapse": line_plot(
            "collapse", "Random writes after a trim", f"{drive}: passes collapse once per user capacity, uniform addresses settle.",
            [passes, uniform], (WRITTEN, RATE), marks=marks,
        ),
        "collapse-sequential": line_plot(
            "collapse-sequential", "Random passes, and writes in sequence", f"{drive}: writes in sequence keep the rate of a fresh drive.",
            [passes, sequential], (WRITTEN, RATE),
        ),
        "collapse-offered": line_plot(
            "collapse-offered", "Random passes over a part of the drive", f"{drive}, offered as 4, 3.5, 3 and 2 TB: the smaller, the milder the fall.",
            by_offer, (WRITTEN, RATE),
        ),
        "collapse-reserve": line_plot(
            "collapse-reserve", "Write amplification against the reserve", f"{drive}: the four parts of it, under uniform writes, and the theory.",
            [model, points], (Scale("reserve", "%", low=0.0), Scale("write amplification", low=1.0)),
        ),
    }  # fmt: skip
    return {name: render_picture(plot) for name, plot in plots.items()}


def simulate(place: Path, dice: random.Random) -> tuple[dict[str, Sequence[float]], dict[float, float]]:
    """The courses and the WA that pictures() takes."""
    courses: dict[str, Sequence[float]] = {}
    found: dict[float, float] = {}
    rounds = math.ceil(SHOWN / SOLD)
    with offered(place, SOLD, dice) as drive:
        courses["uniform"] = drive.course("randwrite", rounds, PAGE, False)
    with offered(place, SOLD, dice) as drive:
        courses["sequential"] = drive.course("write", rounds, SEQUENTIAL_BYTES, False)
    for terabytes in OFFERED:
        with offered(place, terabytes, dice) as drive:
            courses[f"{terabytes:g}"] = drive.course("randwrite", math.ceil(SHOWN / terabytes), PAGE, True)
            drive.run("randwrite", SETTLING)
            found[terabytes] = drive.amplification()
    return courses, found


def judge(courses: dict[str, Sequence[float]], found: dict[float, float], told: Callable[[str], None]) -> list[str]:
    """The names of what is not as it should be; each figure is told in a line."""
    failed = []

    def judged(name: str, figure: float, low: float, high: float) -> None:
        fits = low <= figure <= high
        told(line(name, f"{low:.3f}", f"{high:.3f}", f"{figure:.3f}", "" if fits else "WRONG"))
        if not fits:
            failed.append(name)

    told(line("", "at least", "at most", "found"))
    for terabytes, wa in found.items():
        expected = amplification_at(ratio(terabytes), BLOCK_PAGES)
        judged(f"WA at {terabytes:g} TB", wa, 0.96 * expected, 1.04 * expected)
    # Where a page is written once per pass, the flash is full after all of it was written once. Half of it free, and no pass fills it.
    first, second, *_more = [*collapses(courses["4"]), math.nan, math.nan]
    judged("first fall, TB", first * SOLD, (ratio(SOLD) - 0.02) * SOLD, (ratio(SOLD) + 0.02) * SOLD)
    judged("next fall, TB", (second - first) * SOLD, 0.97 * SOLD, 1.03 * SOLD)
    judged("in sequence, WA", statistics.mean(courses["sequential"]), 1.0, 1.01)
    means = [statistics.mean(courses[f"{terabytes:g}"]) for terabytes in OFFERED]
    for number, (terabytes, mean) in enumerate(zip(OFFERED, means, strict=True)):
        judged(f"mean at {terabytes:g} TB", mean, 1.0, means[number - 1] if number else math.inf)
    return failed


def main() -> int:
    words = parser("collapse", __doc__)
    words.add_argument("--write", type=Path, metavar="DIRECTORY", help="write the four pictures there, such as docs/images")
    options = words.parse_args()
    if not shutil.which("fio"):
        words.error("fio is not installed; it is in the package fio")
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="plumbline-collapse-", dir=shm if shm.is_dir() else None) as place:
        courses, found = simulate(Path(place), random.Random(options.seed))
    failed = judge(courses, found, lambda text: print(text, flush=True))
    if options.write:
        for name, text in pictures(courses, found).items():
            (options.write / f"{name}.svg").write_text(text, encoding="utf-8")
    if options.json:
        print(json.dumps({"seed": options.seed, "wa": {f"{key:g}": round(wa, 4) for key, wa in found.items()}, "failed": failed}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
