# SPDX-License-Identifier: GPL-3.0-or-later
"""What nobody should call a device, a label, a map or a mount point: an answer or one line, nothing run, and not one byte written."""

from __future__ import annotations

import importlib.util
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from labkit.bench import Bench, Disk, pool
from labkit.harness import HOME, Harness
from labkit.specs import assert_error, said, stack

_WHERE = Path(__file__).resolve().parents[1] / "unit/plugins/module_utils/hostile.py"
_SPEC = importlib.util.spec_from_file_location("plumbline_hostile", _WHERE)
assert _SPEC is not None and _SPEC.loader is not None
hostile = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(hostile)

OWNED = "/tmp/plumbline-owned"
# What stands on the disks; {d} is the disk. The shell of the guest is bash: $'…' makes control characters.
CONTENT = {
    "ext4": "mkfs.ext4 -q -L $'\\x1b[31m{{1}}\\n%s' {d}",
    "swap": "mkswap -q -L $'\\xe2\\x80\\xae$(id)' {d}",
    "gpt": f"printf 'label: gpt\\nstart=2048, name=\"$(touch {OWNED})\"\\n' | sfdisk -q {{d}}",
    "ours": "printf 'label: gpt\\nstart=2048, name=\"plumbline:{{ x }}:0\"\\n' | sfdisk -q {d}",
    "vg": "vgcreate -q +pl.od-d_vg {d}; lvcreate -q -Wn -Zn -l 1 -n a.+b-c +pl.od-d_vg",
    "map": "dmsetup create 'pgdata-vol0: 0 8 linear 8:0 0' --table \"0 2048 linear {d} 0\"",
    "map2": "dmsetup create '$(id) {{ 7*7 }} ;`x`' --table \"0 2048 linear {d} 0\"",
    "noise": "printf '{{ x }}$(id)' | dd of={d} bs=1 seek=50000000 conv=notrunc status=none",
}
NAMES = (*CONTENT, "free", "other")
SERIALS = ("$(id)`id`;id", "{{7*7}}", "';id;'|>x", "%s%n../../x")
MODELS = ("{{ 7*7 }}", "$(id)`x`", "a\\x1b[31m'\"", "%s%n,x=y")
DISKS = [
    *pool(NAMES),
    *({"name": f"n{number}", "bus": "nvme", "size": "64MiB", "serial": serial} for number, serial in enumerate(SERIALS)),
    *({"name": f"m{number}", "bus": "scsi", "size": "64MiB", "serial": f"HOSTILE{number}", "model": model} for number, model in enumerate(MODELS)),
]


@pytest.fixture(scope="module")
def on(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> Iterator[dict[str, Disk]]:
    """The disk of each content, and the others by their own names."""
    found = {**plugged, **{name: plugged[f"p{number}"] for number, name in enumerate(NAMES)}}
    for name, command in CONTENT.items():
        harness.must(command.replace("{d}", found[name].path) + "; udevadm settle")
    harness.must(
        f"rm -f {OWNED}; ln -s /dev/vda '/dev/disk/by-id/scsi-$(id)'; ln -s /etc/passwd /dev/disk/by-id/scsi-passwd; ln -s / /dev/disk/by-id/scsi-root"
    )
    yield found
    harness.must(
        "rm -f /dev/disk/by-id/scsi-passwd /dev/disk/by-id/scsi-root '/dev/disk/by-id/scsi-$(id)'; dmsetup remove --retry 'pgdata-vol0: 0 8 linear 8:0 0'"
    )
    harness.must("dmsetup remove --retry '$(id) {{ 7*7 }} ;`x`'; rm -rf /plhome")
    bench.clean()


def printable(result: dict[str, Any]) -> None:
    """No traceback, and no character in it that a terminal would obey; the lines that people read are lines."""
    assert not result["traceback"], result["traceback"]
    assert "Traceback" not in said(result)
    for line in (*result.get("report", []), *result.get("reasons", [])):
        assert line.isprintable(), repr(line)
    for text in strings({key: value for key, value in result.items() if key not in ("traceback", "invocation")}):
        assert all(char.isprintable() or char in "\n\t" for char in text), repr(text)


def strings(value: Any) -> Iterator[str]:
    """Every text in a result."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def as_json(value: Any) -> Any:
    """What can be handed to a module of it."""
    text = json.dumps(value, default=str, skipkeys=True, ensure_ascii=False).replace("Infinity", "1e300").replace("NaN", "0")
    return json.loads(text.encode("utf-8", "replace"))


@pytest.mark.parametrize("specs", [40, pytest.param(160, marks=pytest.mark.long)])
def test_hostile_specs_on_hostile_devices(bench: Bench, harness: Harness, on: dict[str, Disk], specs: int, figure: Callable[..., None]) -> None:
    """Damaged specs that name these disks; each is planned or refused, and the host counts no write."""
    disks = [on[name] for name in (*NAMES, "n0", "n1", "n2", "n3", "m0", "m1")]
    refused = 0
    with bench.untouched():
        for number in range(specs):
            dice = random.Random(f"plumbline-lab/{number}")
            spec = as_json(hostile.damaged_tree(dice, stack(dice.sample(disks, 2), volumes=2)))
            result = harness.module("stack_plan", {"stacks": [spec if isinstance(spec, dict) else {}]})  # anything else is refused by Ansible itself
            printable(result)
            assert "\n" not in result.get("msg", ""), (number, result["msg"])
            refused += bool(result["failed"])
    harness.must(f"test ! -e {OWNED}")
    figure("hostile", cases=specs, tracebacks=0, writes=0, refused=refused)


@pytest.mark.long
def test_every_device_is_shown_and_none_is_touched(bench: Bench, harness: Harness, on: dict[str, Disk], figure: Callable[..., None]) -> None:
    cases = 0
    with bench.untouched():
        for module in ("device_info", "stack_info", "audit"):
            result = harness.module(module, {})
            assert not result["failed"], said(result)
            printable(result)
            cases += 1
        for name in (*NAMES, *(f"n{number}" for number in range(len(SERIALS))), *(f"m{number}" for number in range(len(MODELS)))):
            result = harness.module("stack_plan", {"stacks": [stack([on[name]], "separate")]})
            printable(result)
            assert bool(result["failed"]) == (name in CONTENT), (name, said(result))
            cases += 1
    harness.must(f"test ! -e {OWNED}")
    figure("hostile", cases=cases, tracebacks=0, writes=0)


# A name for a device, and what the answer says.
LINKS = {
    "root-disk": ("scsi-$(id)", "does not name a device"),
    "a-file": ("scsi-passwd", "is not there"),
    "a-directory": ("scsi-root", "is not there"),
    "dots": ("../../../etc/passwd", "does not name a device"),
    "blanks": ("scsi a b", "is not there"),
    "nothing": ("scsi-none{{ x }}", "does not name a device"),
    "newline": ("scsi-x\n", "does not name a device"),
    "path": ("/etc/passwd", "does not name a device"),
}


def test_names_of_devices(bench: Bench, harness: Harness, on: dict[str, Disk], figure: Callable[..., None]) -> None:
    with bench.untouched():
        for name, words in LINKS.values():
            result = harness.module("stack_plan", {"stacks": [{**stack([on["free"]], "separate"), "devices": [name]}]})
            printable(result)
            assert_error(result, words)
    figure("hostile", cases=len(LINKS), tracebacks=0, writes=0)


# How the way to a mount point came to be, the mount point, and what the refusal says.
WAYS = {
    "link": ("mkdir -p /pl; ln -sfn /etc /pl/link", "/pl/link/pg", "/pl/link is a symbolic link to /etc"),
    "link-is-it": ("mkdir -p /pl; ln -sfn /var /pl/it", "/pl/it", "a symbolic link to /var"),
    "deep-link": ("mkdir -p /pl/a/b; ln -sfn ../../etc /pl/a/b/c", "/pl/a/b/c/d/e", "/pl/a/b/c is a symbolic link to ../../etc"),
    "owned": ("mkdir -p /plhome/u; chown daemon /plhome/u", "/plhome/u/data", "/plhome/u belongs to user"),
    "owned-above": ("mkdir -p /plhome/v/w; chown daemon /plhome/v", "/plhome/v/w/data", "/plhome/v belongs to user"),
    "writable": ("mkdir -p /pl/open; chmod 0777 /pl/open", "/pl/open/data", "/pl/open can be written to by others"),
    "group": ("mkdir -p /pl/group; chmod 0775 /pl/group", "/pl/group/data", "/pl/group can be written to by others"),
    "file": ("mkdir -p /pl; touch /pl/file", "/pl/file/data", "/pl/file is no directory"),
    "full": ("mkdir -p /pl/full; touch /pl/full/x", "/pl/full", "holds 1 entries"),
    "system": ("true", "/usr/lib/pg", "belongs to the system"),
    "system-state": ("true", "/var/lib/dpkg/info", "belongs to the system"),
    "run": ("true", "/var/run/pg", "belongs to the system"),
    "dots": ("true", "/pl/../etc", "is not normalised"),
    "relative": ("true", "pl/x", "wanted an absolute path"),
    "blank": ("true", "/pl/a b", "holds a character"),
    "template": ("true", "/pl/{{ x }}", "holds a character"),
    "shell": ("true", f"/pl/$(touch {OWNED})", "holds a character"),
    "newline": ("true", "/pl/a\n/dev/vda / ext4", "holds a character"),
    "long": ("true", "/" + "a" * 300, "holds a character"),
}


def test_ways_to_a_mount_point(bench: Bench, harness: Harness, on: dict[str, Disk], figure: Callable[..., None]) -> None:
    with bench.untouched():
        for name, (command, path, words) in WAYS.items():
            harness.must(command)
            spec = stack([on["free"]], "separate") | {"volumes": [{"name": "v", "mount": path}]}
            result = harness.module("stack_plan", {"stacks": [spec]})
            printable(result)
            assert_error(result, words)
            assert harness.run(f"test -e {OWNED}")[0], name
    figure("hostile", cases=len(WAYS), tracebacks=0, writes=0)


MOUNT = {"path": "/pl/never", "uuid": "11111111-2222-5333-8444-555555555555", "fstype": "ext4", "options": "noatime,nofail"}
PART = {
    "identity": "wwid:x", "size_bytes": 96 << 20, "logical_bytes": 512, "start_bytes": 1 << 20, "length_bytes": 64 << 20, "end_bytes": 65 << 20,
    "type_guid": "E6D6D379-F507-44C2-A23C-238F2A3DF928", "guid": "AAAAAAAA-0000-4000-8000-000000000001", "name": "plumbline:pgdata:0",
}  # fmt: skip


@pytest.mark.long
def test_steps_that_were_tampered_with(bench: Bench, harness: Harness, on: dict[str, Disk], figure: Callable[..., None]) -> None:
    """Neither a line of fstab, nor a file, nor a table is written."""
    before = harness.must("sha256sum /etc/fstab; find /etc/systemd/system | sort | sha256sum")
    cases = 0
    with bench.untouched():
        for number in range(40):
            dice = random.Random(f"plumbline-step/{number}")
            bad = hostile.text(dice) + "\n"
            kind = number % 3
            if kind == 0:
                result = harness.module("mount_points", {"mounts": [{**MOUNT, dice.choice(list(MOUNT)): bad}]})
            elif kind == 1:
                name = dice.choice((bad, "/etc/cron.d/x", "/etc/systemd/system/x.service.d/50-plumbline-pgdata.conf"))
                result = harness.module("mount_points", {"drop_ins": {name: bad}})
            else:
                result = harness.module(
                    "aligned_partition", {"devices": [{**PART, "device": on["free"].path, dice.choice(("guid", "type_guid", "name", "identity")): bad}]}
                )
            printable(result)
            assert result["failed"], result
            cases += 1
    assert harness.must("sha256sum /etc/fstab; find /etc/systemd/system | sort | sha256sum") == before
    harness.must(f"test ! -e {OWNED}; test ! -e /pl/never")
    figure("hostile", cases=cases, tracebacks=0, writes=0)


def test_a_way_that_was_exchanged_since_the_plan(bench: Bench, harness: Harness, on: dict[str, Disk]) -> None:
    """mount_points looks again, through descriptors, before it changes fstab."""
    harness.must("rm -rf /pl/way; mkdir -p /pl/way/a")
    spec = [stack([on["other"]], "separate") | {"volumes": [{"name": "v", "mount": "/pl/way/a/data"}]}]
    plan = harness.module("stack_plan", {"stacks": spec})
    assert not plan["failed"], said(plan)
    harness.apply([step for step in plan["steps"] if step["action"] != "mount"])
    (step,) = [step for step in plan["steps"] if step["action"] == "mount"]
    before = harness.must("sha256sum /etc/fstab; rm -rf /pl/way/a; ln -s /etc /pl/way/a; ls /etc | sha256sum")
    arguments = {key: step[key] for key in ("mounts", "drop_ins", "enable_fstrim_timer")}
    assert_error(harness.module("mount_points", arguments), "/pl/way/a is a symbolic link to /etc")
    harness.must("rm /pl/way/a; mkdir /pl/way/a; chown daemon /pl/way/a")
    assert_error(harness.module("mount_points", arguments), "/pl/way/a belongs to user")
    assert harness.must("sha256sum /etc/fstab; ls /etc | sha256sum") == before
    harness.must("chown root /pl/way/a")
    harness.apply([step])
    assert harness.must("findmnt -no TARGET --mountpoint /pl/way/a/data").strip() == "/pl/way/a/data"
    assert harness.module("stack_plan", {"stacks": spec})["steps"] == []


# Runs in the guest: the very file that the next boot reads, killed at every system call of its write.
KILLS = f"""
import os, re, subprocess, sys
sys.path.insert(0, "{HOME}")
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.mounts import change_mounts, write_fstab
from ansible_collections.plumbline.ssd.plugins.module_utils._core.files import replace_file
from kill_steps import at_every_step
PATH = "/etc/fstab"
old = change_mounts._read_file(PATH)
mount = {{"path": "/pl/killed", "uuid": "11111111-2222-5333-8444-555555555555", "fstype": "ext4", "options": "noatime,nofail", "passno": 2}}
new = write_fstab.edit_fstab(old, [mount])
seen = []
def check(step):
    found = change_mounts._read_file(PATH)
    assert found in (old, new), step
    seen.append(found == new)
    said = subprocess.run(["findmnt", "--verify"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={{"LC_ALL": "C", "PATH": os.environ["PATH"]}})
    assert re.search(rb"\\b0 parse errors|Success", said.stdout), (step, said.stdout)
    replace_file(PATH, old)
    assert [name for name in os.listdir("/etc") if name.startswith("fstab.plumbline")] == [], step
kills = at_every_step(lambda: replace_file(PATH, new), check)
assert seen == sorted(seen) and seen[-1] and not seen[0]
print(kills)
"""


def test_fstab_killed_at_every_system_call(harness: Harness, on: dict[str, Disk], figure: Callable[..., None]) -> None:
    before = harness.must("sha256sum /etc/fstab; stat -c '%a %U' /etc/fstab")
    kills = int(harness.must(f"cat > {HOME}/kills.py <<'EOF'\n{KILLS}\nEOF\npython3 {HOME}/kills.py", timeout=300))
    assert kills >= 20
    assert harness.must("sha256sum /etc/fstab; stat -c '%a %U' /etc/fstab") == before
    figure("fstab_kill", kills=kills, neither_old_nor_new=0)
