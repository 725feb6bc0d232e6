# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import random
import signal
import sys

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core import keep_lines
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import INCONCLUSIVE
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state import run as module
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.criterion import RUNNING, STEADY, LoadRound
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.options import DEFAULTS
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.run import Backend, SteadyRun

CAPACITY = 1_000_003  # no multiple of a round
KILLS = 48


class Drive(Backend):
    """It notes what it did in a file, so that it outlives the process: fast until its hidden space is full, then half as fast."""

    def __init__(self, path, hidden=0.12):
        self.path, self.hidden, self.killed = path, hidden, None
        self.path.touch()

    @property
    def log(self):
        return [json.loads(line) for line in self.path.read_text(encoding="ascii").splitlines()]

    def _note(self, *what):
        with open(self.path, "a", encoding="ascii") as handle:
            handle.write(json.dumps(what) + "\n")

    def discard(self):
        self._note("discard", 0, 0)

    def fill(self, offset, length):
        self._note("fill", offset, length)
        return LoadRound(length, length / 100)

    def load(self, length):
        fresh = sum(one[2] for one in self.log if one[0] == "load") < self.hidden * CAPACITY
        self._note("load", 0, length)
        return LoadRound(length, length / (100 if fresh else 50), 900.0, 40)

    def draw(self, length, window, passes, keep):
        """Windows of a fill. *killed*: behind so many windows the load is ended from outside, once."""
        self._note("passes" if passes else "uniform", 0, 0)
        done = 0
        while done < length - 0.5:
            if self.killed is not None:
                self.killed -= 1
                if self.killed < 0:
                    self.killed = None
                    raise module.LoadKilled("it was killed by signal 9")
            fresh = sum(one[2] for one in self.log if one[0] == "window") < (1 + self.hidden) * CAPACITY
            one = round(min(window, length - done))
            self._note("window", 0, one)
            keep(LoadRound(one, one / (100 if fresh else 50)))
            done += one
        return LoadRound(length, 1.0, 900.0, 40, 100.0, 1500.0)

    def counters(self):
        return {"host_bytes_written": sum(one[2] for one in self.log)}


@pytest.fixture
def place(tmp_path):
    return str(tmp_path / "steady" / "run.jsonl")


@pytest.fixture
def drive(tmp_path):
    return Drive(tmp_path / "drive")


def begin(place, drive, **more):
    return SteadyRun(place, more.get("name", "wwn:1"), more.get("capacity", CAPACITY), drive, more.get("options", DEFAULTS))


def test_a_run(place, drive):
    one = begin(place, drive)
    found = one.run()
    assert found.verdict == STEADY and found.rate == pytest.approx(50) and one.rounds.share == 1
    kinds = [entry[0] for entry in drive.log]
    assert kinds == ["discard"] + ["fill"] * 20 + ["load"] * (len(kinds) - 21)
    done = len(drive.log)
    assert one.advance() == found and len(drive.log) == done
    one.close()
    again = begin(place, drive)
    assert again.run() == found and len(drive.log) == done
    again.close()


def test_the_share_grows_from_nothing_to_all(place, drive):
    one = begin(place, drive)
    seen = [one.rounds.share]
    while one.advance().verdict == RUNNING:
        seen.append(one.rounds.share)
    assert seen[0] == 0 and seen == sorted(seen) and one.rounds.share == 1
    one.close()


def in_child(place, drive, kill_at):
    """A run in a process that is killed when it comes to that line of the run's code. Returns (whether it was killed, lines that it came to)."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        lines = 0

        def trace(frame, event, _argument):
            nonlocal lines
            if frame.f_code.co_filename not in (module.__file__, keep_lines.__file__):
                return None
            if event == "line":
                lines += 1
                if lines == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace

        sys.settrace(trace)
        try:
            begin(place, drive).run()
        finally:
            sys.settrace(None)
            os.write(write, str(lines).encode())
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as handle:
        lines = int(handle.read() or 0)
    status = os.waitpid(child, 0)[1]
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, lines


def rounds_kept(place):
    if not os.path.exists(place):
        return 0
    with open(place, encoding="ascii") as handle:
        return sum('"step": "%s"' % step in line for line in handle for step in ("fill", "load"))


def test_killed_anywhere_it_loses_one_round_at_most(tmp_path):
    """One kill each, at a line of the code that is drawn, then to the end."""
    killed, whole = in_child(str(tmp_path / "whole" / "run.jsonl"), Drive(tmp_path / "whole-drive"), 0)
    assert not killed and whole > 1000
    dice = random.Random("kills")
    lost = []
    for number in range(KILLS):
        place, drive = str(tmp_path / str(number) / "run.jsonl"), Drive(tmp_path / ("drive-%d" % number))
        killed, _lines = in_child(place, drive, dice.randrange(1, whole))
        assert killed
        lost.append(sum(entry[0] != "discard" for entry in drive.log) - rounds_kept(place))
        assert lost[-1] in (0, 1)
        one = begin(place, drive)
        found = one.run()
        one.close()
        assert found.verdict == STEADY and found.rate == pytest.approx(50), number
        filled = sorted((entry[1], entry[1] + entry[2]) for entry in drive.log if entry[0] == "fill")
        assert filled[0][0] == 0 and filled[-1][1] == CAPACITY
        assert all(filled[at][0] <= filled[at - 1][1] for at in range(1, len(filled)))
    assert 1 in lost and 0 in lost


def test_killed_again_and_again(place, drive):
    """Thirty kills in one run: what was written is never written as if it had not been, and it comes to an end."""
    dice = random.Random("again")
    for _turn in range(30):
        in_child(place, drive, dice.randrange(1, 1500))
    one = begin(place, drive)
    found = one.run()
    one.close()
    assert found.verdict in (STEADY, INCONCLUSIVE)
    rounds = sum(entry[0] != "discard" for entry in drive.log)
    assert 0 <= rounds - rounds_kept(place) <= 30
    assert sum(entry[2] for entry in drive.log if entry[0] == "load") <= (4 + 31 * 0.05) * CAPACITY


def part_of_a_run(place, drive, rounds):
    one = begin(place, drive)
    for _round in range(rounds):
        one.advance()
    one.close()


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_line_that_was_cut_off_is_left_out(place, drive, cut):
    part_of_a_run(place, drive, 30)
    kept = rounds_kept(place)
    with open(place, "rb+") as handle:
        handle.truncate(os.path.getsize(place) - cut)
    one = begin(place, drive)
    assert sum(entry["step"] in ("fill", "load") for entry in one.records) == kept - 1
    assert one.run().verdict == STEADY
    one.close()


def test_the_windows_begin_anew(place, drive):
    part_of_a_run(place, drive, 21 + 24)
    one = begin(place, drive)
    fills = one.verdict.fills
    assert fills == pytest.approx(1.2, rel=0.01)
    assert one.run().fills >= fills + 0.75
    one.close()


def test_a_run_that_was_interrupted_late_is_inconclusive_and_says_so(place, drive):
    drive.hidden = 9
    one = begin(place, drive, options=DEFAULTS._replace(min_fills=4.0))
    for _round in range(21 + 78):
        one.advance()
    one.close()
    one = begin(place, drive, options=DEFAULTS._replace(min_fills=4.0))
    found = one.run()
    one.close()
    assert found.verdict == INCONCLUSIVE and "interrupted after 3.9 fills" in found.why and found.fills == pytest.approx(4.0, rel=0.005)


@pytest.mark.parametrize(
    "more, word",
    [({"name": "wwn:2"}, "another drive"), ({"capacity": CAPACITY + 1}, "another capacity"), ({"options": DEFAULTS._replace(snia=True)}, "another options")],
)
def test_of_another_drive(place, drive, more, word):
    part_of_a_run(place, drive, 3)
    with pytest.raises(PlumblineError, match=word):
        begin(place, drive, **more)


def test_somebody_else_wrote(place, drive):
    part_of_a_run(place, drive, 10)
    drive._note("foreign", 0, CAPACITY // 10)
    with pytest.raises(PlumblineError, match="were written to the drive since"):
        begin(place, drive)
    drive.path.write_text("", encoding="ascii")  # an emulated drive that counts from its start
    begin(place, drive).close()
    drive.counters = dict  # no such counter
    begin(place, drive).close()


def test_a_second_run(place, drive):
    one = begin(place, drive)
    with pytest.raises(PlumblineError, match="another process has this run"):
        begin(place, drive)
    one.close()
    begin(place, drive).close()


@pytest.mark.parametrize(
    "text",
    ["x\n", "[]\n", "{}\n", '{"step": "load"}\n', "\xff\n", '{"step": "load", "bytes": -1, "seconds": 1, "p99_us": null, "temperature": null}\n', "null\n"],
)
def test_damaged_records(place, drive, text):
    part_of_a_run(place, drive, 1)
    with open(place, "ab") as handle:
        handle.write(text.encode("latin-1"))
    with pytest.raises(PlumblineError, match="damaged"):
        begin(place, drive)


def test_a_file_that_is_no_run(place, drive):
    part_of_a_run(place, drive, 1)
    with open(place, "w", encoding="ascii") as handle:
        handle.write('{"step": "discard"}\n')
    with pytest.raises(PlumblineError, match="remove the file"):
        begin(place, drive)


@pytest.mark.parametrize("fails", ["half", "at-all", "fsync"])
def test_a_full_filesystem_loses_one_round(place, drive, monkeypatch, fails):
    part_of_a_run(place, drive, 25)
    kept = rounds_kept(place)
    one = begin(place, drive)
    real = os.write

    def full(fd, data):
        if fails == "half":
            return real(fd, data[: len(data) // 2])
        if fails == "at-all":
            raise OSError(28, "No space left on device")
        return real(fd, data)

    def failing(_fd):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(keep_lines.os, "write", full)
        if fails == "fsync":
            patch.setattr(keep_lines.os, "fsync", failing)
        with pytest.raises(PlumblineError, match="No space left"):
            one.advance()
    one.close()
    assert rounds_kept(place) == kept
    again = begin(place, drive)
    assert again.run().verdict == STEADY
    again.close()


def test_a_drive_that_has_gone(place, drive):
    drive.fill = lambda _offset, _length: LoadRound(0, 1.0)
    one = begin(place, drive)
    one.advance()
    with pytest.raises(PlumblineError, match="has the drive gone"):
        one.advance()
    one.close()


@pytest.mark.parametrize("capacity", [0, -1, 19])
def test_nothing_to_load(place, drive, capacity):
    with pytest.raises(PlumblineError, match="nothing to load"):
        begin(place, drive, capacity=capacity)
    assert not os.path.exists(place)


def test_a_place_that_cannot_be_written(tmp_path, drive):
    (tmp_path / "file").touch()
    with pytest.raises(PlumblineError, match="cannot be kept"):
        begin(str(tmp_path / "file" / "run.jsonl"), drive)
    os.symlink("/etc/passwd", str(tmp_path / "link"))
    with pytest.raises(PlumblineError, match="cannot be kept"):
        begin(str(tmp_path / "link"), drive)


def picture(mode, fills=4.0):
    return DEFAULTS._replace(mode=mode, max_fills=fills)


@pytest.mark.parametrize("mode, kind", [("saturation", "uniform"), ("passes", "passes")])
def test_a_picture(place, drive, mode, kind):
    """No sequential fill, one process for each fill, and as many fills as were asked for."""
    one = begin(place, drive, options=picture(mode, 2.5))
    found = one.run()
    assert (found.verdict, found.why, found.fills) == ("not_judged", "a picture, not judged", pytest.approx(2.5, abs=0.001))
    assert [entry[0] for entry in drive.log if entry[0] != "window"] == ["discard", kind, kind, kind]
    assert one.rounds.picture.collapse == pytest.approx(1.12, abs=0.011) and one.rounds.share == 1 and one.rounds.to_fill == 0
    done = len(drive.log)
    assert one.advance() == found and len(drive.log) == done
    one.close()
    begin(place, drive, options=picture(mode, 2.5)).close()  # its end is no interruption
    assert sum(record["step"] == "resumed" for record in one.records) == 0


def test_a_load_that_is_killed_goes_on_with_the_next_fill(place, drive):
    drive.killed = 30
    one = begin(place, drive, options=picture("passes"))
    found = one.run()
    assert found.fills == pytest.approx(4, abs=0.001) and one.rounds.resumed
    assert any("cut off after 0.30 fills" in doubt for doubt in one.rounds.picture.doubts)
    one.close()


class KilledLoads(Drive):
    """Its next rounds of the load are ended from outside when they have written all but their last byte."""

    def __init__(self, path, kills):
        super().__init__(path)
        self.kills = kills

    def load(self, length):
        if not self.kills:
            return super().load(length)
        self.kills -= 1
        self._note("killed", 0, length - 1)
        raise module.LoadKilled("it was killed by signal 9")


@pytest.mark.parametrize("kills", [1, 2])
def test_what_a_killed_load_wrote_is_ours(place, tmp_path, kills):
    """The process is killed in the round that follows: together they wrote more than a round since the last one that was kept."""
    drive = KilledLoads(tmp_path / "killed", 0)
    part_of_a_run(place, drive, 25)
    drive.kills = kills
    one = begin(place, drive)
    one.advance()
    one.close()
    assert [entry["step"] for entry in one.records][-kills - 2 :] == ["resumed", *["killed"] * kills, "load"]
    with open(place, "rb+") as handle:  # killed before it kept the round
        lines = handle.read().splitlines(keepends=True)
        handle.truncate(sum(map(len, lines[:-1])))
    one = begin(place, drive)
    assert one.run().verdict == STEADY
    one.close()


def test_a_round_that_is_always_killed_ends_the_run(place, tmp_path):
    drive = KilledLoads(tmp_path / "killed", 3)
    part_of_a_run(place, drive, 21)
    one = begin(place, drive)
    with pytest.raises(PlumblineError, match="killed by signal 9"):
        one.advance()
    one.close()
    one = begin(place, drive)
    assert one.run().verdict == STEADY
    one.close()


def test_a_load_that_is_always_killed_comes_to_an_end(place, drive):
    drive.killed = 0
    one = begin(place, drive, options=picture("passes"))
    with pytest.raises(PlumblineError, match="killed by signal 9"):
        one.run()
    one.close()


def test_a_full_filesystem_ends_a_picture_and_the_next_start_goes_on(place, drive, monkeypatch):
    one = begin(place, drive, options=picture("saturation"))
    real, count = os.write, [0]

    def full(fd, data):
        count[0] += 1
        return real(fd, data) if count[0] < 50 else real(fd, data[:3])

    with monkeypatch.context() as patch:
        patch.setattr(keep_lines.os, "write", full)
        with pytest.raises(PlumblineError, match="No space left"):
            one.run()
    one.close()
    again = begin(place, drive, options=picture("saturation"))
    assert again.run().verdict == "not_judged" and again.rounds.resumed
    again.close()


def test_somebody_else_wrote_while_a_picture_was_interrupted(place, drive):
    drive.killed = 150
    one = begin(place, drive, options=picture("saturation"))
    one.advance(), one.advance(), one.advance()
    one.close()
    assert one.records[-1]["step"] == "resumed"
    drive._note("window", 0, CAPACITY // 100)
    begin(place, drive, options=picture("saturation")).close()
    drive._note("foreign", 0, CAPACITY // 10)
    with pytest.raises(PlumblineError, match="were written to the drive since"):
        begin(place, drive, options=picture("saturation"))
