# SPDX-License-Identifier: GPL-3.0-or-later
"""The verbs: what each takes, and what it calls."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from . import counters, disks, emulator, guest, host_packages, image, machine, plugging, resizing, sizes, storage
from . import state as states
from .errors import LabError
from .paths import Paths


def parser() -> argparse.ArgumentParser:
    """All verbs and options."""
    root = argparse.ArgumentParser(prog="lab.py", description="The virtual machine in which this collection is tested.")
    verbs = root.add_subparsers(dest="verb", required=True, metavar="VERB")

    verb = verbs.add_parser("packages", help="list the host's missing Debian packages")
    verb.add_argument("--install", action="store_true")

    verb = verbs.add_parser("image", help="build the root image, unless the cache has it")
    suite = os.environ.get("PLUMBLINE_SUITE") or None
    verb.add_argument("--suite", choices=image.SUITES, default=suite or image.SUITES[0])

    verb = verbs.add_parser("up", help="boot the machine, or find it up")
    verb.add_argument("--suite", choices=image.SUITES, default=suite)
    verb.add_argument("--cloud-image", type=Path, metavar="PATH", help="boot this image with a cloud-init seed instead")
    verb.add_argument("--accel", choices=("auto", "kvm", "tcg"), default="auto")
    verb.add_argument("--memory", type=int, metavar="MIB")
    verb.add_argument("--disks", metavar="FILE|-", help="disks that are there from the start (SATA has to be)")

    verb = verbs.add_parser("down", help="stop the machine and forget its overlay and disks")
    verb.add_argument("--keep", action="store_true", help="shut down properly and keep overlay and disks for the next up")

    verb = verbs.add_parser("status", help="what is up, where, with which disks")
    verb.add_argument("--json", action="store_true")

    verb = verbs.add_parser("ssh", help="a shell in the guest, or a command")
    verb.add_argument("words", nargs=argparse.REMAINDER)

    verb = verbs.add_parser("console", help="the console's last lines")
    verb.add_argument("--lines", type=int, default=40)

    verb = verbs.add_parser("attach", help="hot-plug disks")
    verb.add_argument("disks", nargs="?", metavar="FILE|-")
    verb.add_argument("--again", nargs="+", metavar="NAME", help="disks that were detached, with their contents")
    verb.add_argument("--fresh", action="store_true", help="empty the disks first")

    verb = verbs.add_parser("detach", help="unplug disks; their contents are kept")
    verb.add_argument("names", nargs="*", metavar="NAME")
    verb.add_argument("--all", action="store_true")
    verb.add_argument("--surprise", action="store_true", help="do not take down what stands on them first")
    verb.add_argument("--restart", action="store_true", help="boot again where a disk cannot be unplugged (with --all)")

    verb = verbs.add_parser("replace", help="take all disks away and attach these, empty")
    verb.add_argument("disks", metavar="FILE|-")
    verb.add_argument("--restart", action="store_true", help="boot again where a disk cannot be hot-plugged")

    verb = verbs.add_parser("resize", help="make an attached scsi disk larger while the machine runs")
    verb.add_argument("name", metavar="NAME")
    verb.add_argument("size", metavar="SIZE", help="bytes, or a whole number with KiB, MiB, GiB, TiB")

    verb = verbs.add_parser("power-cut", help="kill the machine; the caches of simulated SSDs are lost")
    verb.add_argument("--up", action="store_true", help="boot it again at once")

    verbs.add_parser("reboot", help="reboot the guest and wait for it")

    verb = verbs.add_parser("counters", help="what the disks were asked to do since the last reset")
    verb.add_argument("names", nargs="*", metavar="NAME")
    verb.add_argument("--reset", action="store_true")

    verb = verbs.add_parser("set", help="change parameters of a simulated SSD while it runs")
    verb.add_argument("name", metavar="NAME")
    verb.add_argument("settings", nargs="+", metavar="KEY=VALUE")

    verb = verbs.add_parser("execs", help="how often counting-python was started in the guest")
    verb.add_argument("--reset", action="store_true")
    return root


def _disks(source: str) -> list[disks.Disk]:
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except OSError as error:
        raise LabError(f"cannot read the disks from {source}: {error.strerror}") from error
    return disks.parse_all(text)


def _print(value: Any) -> None:
    print(json.dumps(value, indent=1))


def _status(found: dict[str, Any]) -> str:
    head = "up" if found["up"] else "down"
    lines = [f"machine     {head}" + ("" if found.get("answers", True) or not found["up"] else ", does not answer")]
    lines += [f"{key:11} {found[key]}" for key in ("pid", "accel", "suite", "ssh_config") if found.get(key) is not None]
    for kind in ("attached", "stored"):
        lines += [f"{kind:11} {disk['name']} {disk['bus']} {disk['size']} B, serial {disk['serial']}" for disk in found.get(kind, [])]
    return "\n".join(lines)


def _attach(paths: Paths, options: argparse.Namespace) -> None:
    if bool(options.again) == bool(options.disks):
        raise LabError("attach takes a FILE (or - for stdin), or --again and names")
    if options.disks:
        wanted = _disks(options.disks)
    else:
        state = machine.require_up(paths)
        stored = {disk.name: disk for disk in state.stored_disks()}
        unknown = [name for name in options.again if name not in stored]
        if unknown:
            raise LabError(f"no detached disk {', '.join(unknown)}; there are: {', '.join(stored) or 'none'}")
        wanted = [stored[name] for name in options.again]
    _print(plugging.attach(paths, wanted, options.fresh))


def _detach(paths: Paths, options: argparse.Namespace) -> None:
    if bool(options.names) == options.all:
        raise LabError("detach takes names, or --all")
    if options.all and not options.surprise:
        plugging.detach_all(paths, options.restart)
    else:
        plugging.detach(paths, options.names or None, release=not options.surprise)


def _up(paths: Paths, options: argparse.Namespace) -> None:
    wish = machine.Wish(options.suite, options.cloud_image and options.cloud_image.resolve(), options.accel, options.memory)
    wanted = _disks(options.disks) if options.disks else None
    state = machine.up(paths, wish, wanted)
    if wanted:
        missing = [disk for disk in wanted if disk.to_json() not in state.attached]
        if missing:
            plugging.attach(paths, missing, fresh=False)
        _print(plugging.show(paths, wanted))


def _set(paths: Paths, options: argparse.Namespace) -> None:
    settings = dict(word.partition("=")[::2] for word in options.settings)
    disk = machine.attached(machine.require_up(paths), [options.name])[options.name]
    _print(storage.change_simulated(paths, disk, settings))


def _execs(paths: Paths, reset: bool) -> None:
    machine.require_up(paths)
    remove = "; rm -f /run/plumbline-execs" if reset else ""
    print(guest.execute(paths, f"stat -c %s /run/plumbline-execs 2>/dev/null || echo 0{remove}").strip())


def _changing(paths: Paths, options: argparse.Namespace) -> None:
    """The verbs that change the lab; one at a time."""
    if options.verb == "packages":
        lacking = host_packages.missing()
        print("\n".join(lacking) if lacking else "nothing is missing")
        if options.install:
            host_packages.install(lacking)
    elif options.verb == "image":
        emulator.ensure(paths)
        print(image.ensure(paths, options.suite).root.parent)
    elif options.verb == "up":
        _up(paths, options)
    elif options.verb == "down":
        machine.down(paths, options.keep)
    elif options.verb == "attach":
        _attach(paths, options)
    elif options.verb == "detach":
        _detach(paths, options)
    elif options.verb == "replace":
        _print(plugging.replace(paths, _disks(options.disks), options.restart))
    elif options.verb == "resize":
        _print(resizing.resize(paths, options.name, sizes.to_bytes(options.size)))
    elif options.verb == "power-cut":
        machine.power_cut(paths)
        if options.up:
            machine.up(paths, machine.Wish())
    elif options.verb == "reboot":
        print(f"the guest answers after {machine.reboot(paths):.1f} s", file=sys.stderr)
    elif options.verb == "counters":
        _print(counters.read(paths, options.names, options.reset))
    elif options.verb == "set":
        _set(paths, options)


def main() -> int:
    """Run one verb; an error is one message on standard error and exit code 1."""
    options = parser().parse_args()
    paths = Paths.from_environment()
    try:
        if options.verb == "status":
            found = machine.status(paths)
            print(json.dumps(found, indent=1) if options.json else _status(found))
        elif options.verb == "console":
            print(guest.console_tail(paths, options.lines))
        elif options.verb == "ssh":
            machine.require_up(paths)
            words = guest.ssh_words(paths)
            os.execvp(words[0], words + options.words)
        elif options.verb == "execs":
            _execs(paths, options.reset)
        else:
            with states.exclusive(paths):
                _changing(paths, options)
    except LabError as error:
        print(f"lab.py {options.verb}: {error}", file=sys.stderr)
        return 1
    return 0
