# SPDX-License-Identifier: GPL-3.0-or-later
"""What used to fail when the tables were written, or was taken in silence: it is told before the first write."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from labkit.audits import audit_host
from labkit.bench import Bench, Disk, pool
from labkit.harness import HOME, Harness
from labkit.specs import assert_error, assert_refused, said, stack

DISKS = [
    *pool(["one", "other"]),
    {"name": "slash", "bus": "nvme", "size": "96MiB", "serial": "ODD/C"},
    {"name": "line", "bus": "nvme", "size": "96MiB", "serial": "ODD_C"},
]
MOUNT = "/pl/pgdata0"
# Mounts with each option by itself, and asks what a run would still want to change.
TRY_OPTIONS = """
import json, subprocess, sys
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.ext4 import EXT4
from ansible_collections.plumbline.ssd.plugins.module_utils._block.proc_files import parse_mountinfo
device, target = sys.argv[1:]
wrong = {}
for option in EXT4.options.known():
    done = subprocess.run(["mount", "-o", option, device, target], capture_output=True, text=True)
    if done.returncode:
        wrong[option] = done.stderr
        continue
    (live,) = (mount.options for mount in parse_mountinfo(open("/proc/self/mountinfo").read()) if mount.target == target)
    drift = EXT4.options.drift(option.split(","), live)
    if drift != ([], []):
        wrong[option] = (drift, live)
    subprocess.run(["umount", target], check=True)
print(json.dumps({"tried": len(EXT4.options.known()), "wrong": wrong}))
"""


@pytest.fixture
def pair(bench: Bench, plugged: dict[str, Disk]) -> Iterator[list[Disk]]:
    yield [plugged["p0"], plugged["p1"]]
    bench.clean()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        ("mkdir /dev/plnode; touch /dev/plnode/x", "is a directory that holds 1 entries"),
        ("mkdir /dev/plnode", "is a directory that holds nothing"),
        ("mknod /dev/plnode c 1 3", "is there already"),
        ("mkdir /dev/plnode; ln -s /dev/mapper/gone /dev/plnode/gone", "is a directory that holds 1 entries"),
    ],
    ids=["directory", "empty", "node", "links"],
)
def test_a_name_that_is_taken_below_dev(bench: Bench, harness: Harness, pair: list[Disk], make: str, words: str) -> None:
    """LVM refuses it, and by then the tables would be written."""
    harness.must(make)
    try:
        with bench.untouched(*pair):
            for through in ("partition", "filesystem"):
                found = harness.module("stack_plan", {"stacks": [stack(pair, name="plnode")], "through": through})
                assert_error(found, f"plnode: /dev/plnode {words}, so that LVM makes no volume group of that name [name]; rename the stack")
        code, _out, err = harness.run(f"vgcreate plnode {pair[0].path}")
        assert code != 0 and "already exists in filesystem" in err, "LVM takes it"
    finally:
        harness.run("rm -rf /dev/plnode")
        harness.run(f"wipefs -q -a {pair[0].path}")


@pytest.fixture
def lvm_config(harness: Harness, pair: list[Disk]) -> Iterator[str]:
    """The directory of LVM's configuration, which is put back; before the disks are cleaned, since LVM has to see what is on them."""
    home = "/etc/lvm"
    harness.must(f"rm -rf {home}.before; cp -a {home} {home}.before")
    yield home
    harness.must(f"rm -rf {home}; mv {home}.before {home}")


@pytest.mark.parametrize(
    ("file", "setting", "more"),
    [
        pytest.param("lvm.conf", "filter", "", marks=pytest.mark.long(minutes=1)),
        ("lvmlocal.conf", "global_filter", ""),
        pytest.param("lvmlocal.conf", "global_filter", "use_devicesfile=1", marks=pytest.mark.long(minutes=1)),  # and there is no such file yet
    ],
    ids=["filter", "global-filter", "devices-file-to-be"],
)
def test_a_filter_of_lvm_that_rejects_a_new_device(
    bench: Bench, harness: Harness, pair: list[Disk], lvm_config: str, file: str, setting: str, more: str
) -> None:
    """vgcreate would fail, and by then the tables would be written. What the refusal says to do is enough."""
    spec, filters = stack(pair), '"a|^/dev/vd|", "r|.*|"'

    def configure(patterns: str) -> None:
        as_it_was = f"rm -f {lvm_config}/{file}; cp {lvm_config}.before/{file} {lvm_config} 2> /dev/null"
        harness.must(f"{as_it_was}; echo 'devices {{ {setting} = [ {patterns} ]\n{more} }}' >> {lvm_config}/{file}")

    configure(filters)
    with bench.untouched(*pair):
        for through in ("partition", "filesystem"):
            found = harness.module("stack_plan", {"stacks": [spec], "through": through})
            assert_error(found, *(disk.kernel for disk in pair), f"'{setting}' of its configuration rejects", 'by "r|.*|" [hidden]; let LVM see it')
        assert found["reasons"][0] in audit_host(harness, stacks=[spec])["stack_plan"]["reasons"]
    advice = re.search(r'put ("a\|[^"]+") first in (\w+)', said(found))
    assert advice and advice[2] == setting, said(found)
    configure(f"{advice[1]}, {filters}")
    harness.build([spec])
    assert harness.module("stack_plan", {"stacks": [spec]})["steps"] == []
    if not more:
        code, _out, err = harness.run(f"pvcreate --test {bench.disks['slash'].path}")
        assert code == 5 and "rejected by filter" in err, "LVM heeds no such filter"


@pytest.mark.long(minutes=1.5)
def test_what_the_refusal_advises_is_enough_at_boot(bench: Bench, harness: Harness, pair: list[Disk], lvm_config: str) -> None:
    """The pattern names a link of udev's, and udev asks LVM about a partition while it is about to make its links."""
    harness.must(f"""echo 'devices {{ filter=[ "a|^/dev/disk/by-partlabel/plumbline:pgdata:|", "r|.*|" ] }}' > {lvm_config}/lvmlocal.conf""")
    harness.build([stack(pair)])
    harness.must("sync")
    bench.power_cut()
    harness.run("systemctl is-system-running --wait")
    assert harness.module("stack_plan", {"stacks": [stack(pair)]})["steps"] == []
    assert harness.must(f"findmnt -no TARGET --mountpoint {MOUNT}").strip() == MOUNT


def test_a_devices_file_rejects_no_new_device(harness: Harness, pair: list[Disk], lvm_config: str) -> None:
    """vgcreate adds the PVs to it, and LVM passes its filters over then."""
    settings = 'use_devicesfile=1\nglobal_filter=[ "r|.*|" ]\nfilter=[ "r|.*|" ]'
    harness.must(f"mkdir -p {lvm_config}/devices; touch {lvm_config}/devices/system.devices; echo 'devices {{ {settings} }}' > {lvm_config}/lvmlocal.conf")
    harness.build([stack(pair)])
    assert harness.module("stack_plan", {"stacks": [stack(pair)]})["steps"] == []
    assert harness.must(f"grep -c PVID= {lvm_config}/devices/system.devices").strip() == "2"


@pytest.mark.long(minutes=0.5)
def test_our_own_group_is_no_stranger_below_dev(harness: Harness, pair: list[Disk]) -> None:
    harness.build([stack(pair)])
    assert harness.must("ls /dev/pgdata").split() == ["vol0"]
    assert harness.module("stack_plan", {"stacks": [stack(pair)]})["steps"] == []


def test_every_known_mount_option_is_taken_and_shown(harness: Harness, pair: list[Disk]) -> None:
    """By the kernel of the machine: what is in the table neither fails at the mount nor is asked for again by each run."""
    path = pair[0].path
    harness.must(f"mkfs.ext4 -q -F -b 4096 {path}; mkdir -p {MOUNT}")
    found = json.loads(harness.must(f"cd {HOME} && PYTHONPATH={HOME} python3 - {path} {MOUNT} <<'END'\n{TRY_OPTIONS}\nEND"))
    assert found["tried"] > 70 and not found["wrong"], found["wrong"]


@pytest.mark.parametrize(
    ("make", "undo", "words"),
    [
        ("chattr +i /etc/fstab", "chattr -i /etc/fstab", "/etc/fstab could not be written: /etc/fstab is immutable"),
        ("mkdir -p /pl/pgdata0; mount -t tmpfs -o ro none /pl", "umount /pl", "mount point /pl/pgdata0 could not be made: /pl is on a filesystem that"),
        ("mount --bind /etc /etc; mount -o remount,bind,ro /etc", "umount /etc", "/etc/fstab could not be written: /etc is on a filesystem that"),
    ],
    ids=["immutable", "mount-point", "read-only"],
)
def test_what_the_last_step_would_fail_by(bench: Bench, harness: Harness, pair: list[Disk], make: str, undo: str, words: str) -> None:
    harness.must(make)
    try:
        with bench.untouched(*pair):
            assert_refused(harness, [stack(pair)], words)
    finally:
        harness.must(undo)


def test_a_first_mount_that_fails_takes_its_line_back(harness: Harness, pair: list[Disk]) -> None:
    """With an option that somebody's word let pass. The next run, without it, mounts."""
    spec = stack(pair[:1], "separate", accept=["unknown_mount_options"])
    spec["volumes"][0]["mount_options"] = ["noatime", "nosuchoption"]
    assert_refused(harness, [{**spec, "accept": []}], "'nosuchoption' is no mount option that is known here", "accept: [unknown_mount_options]")
    before = harness.must("sha256sum /etc/fstab")
    while True:
        plan = harness.module("stack_plan", {"stacks": [spec]})
        assert not plan["failed"], said(plan)
        (step, *_rest) = plan["steps"]
        if step["action"] == "mount":
            break
        harness.apply([step])
    result = harness.module("mount_points", {key: step[key] for key in ("mounts", "drop_ins", "enable_fstrim_timer")})
    assert_error(result, f"{MOUNT} could not be mounted")
    assert harness.must("sha256sum /etc/fstab") == before
    assert "not-found" in harness.must("systemctl show -P LoadState pl-pgdata0.mount || true")
    spec["volumes"][0]["mount_options"] = ["noatime"]
    harness.build([spec])
    assert harness.must(f"findmnt -no TARGET --mountpoint {MOUNT}").strip() == MOUNT


_TARGET = """
modprobe nvmet-tcp; modprobe nvme-tcp
cd /sys/kernel/config/nvmet
for number in 1 2; do
    mkdir ports/$number
    echo ipv4 > ports/$number/addr_adrfam; echo tcp > ports/$number/addr_trtype
    echo 127.0.0.1 > ports/$number/addr_traddr; echo 442$number > ports/$number/addr_trsvcid
done
for pair in {subsystems}; do
    name=${{pair%%:*}}; at=subsystems/$name
    mkdir $at; echo 1 > $at/attr_allow_any_host; echo TWOPORTS01 > $at/attr_serial
    mkdir $at/namespaces/1; echo -n ${{pair#*:}} > $at/namespaces/1/device_path; echo 1 > $at/namespaces/1/enable
done
for pair in {ports}; do
    ln -s /sys/kernel/config/nvmet/subsystems/${{pair%%:*}} ports/${{pair#*:}}/subsystems/${{pair%%:*}}
    nvme connect -t tcp -a 127.0.0.1 -s 442${{pair#*:}} -n ${{pair%%:*}} -i 1 > /dev/null
done
for turn in $(seq 100); do
    udevadm settle
    test $(grep -ls TWOPORTS01 /sys/block/nvme*/device/serial | wc -l) = 2 && break
    sleep 0.1
done
grep -ls TWOPORTS01 /sys/block/nvme*/device/serial | cut -d/ -f4
"""
_TARGET_AWAY = """
nvme disconnect -n port0 >/dev/null; nvme disconnect -n port1 >/dev/null
cd /sys/kernel/config/nvmet
rm -f ports/*/subsystems/*; rmdir ports/*
for at in subsystems/*; do echo 0 > $at/namespaces/1/enable; rmdir $at/namespaces/1 $at; done
modprobe -r nvme-tcp nvmet-tcp
"""


@pytest.mark.parametrize(
    ("subsystems", "ports", "reason"),
    [("port0:{0}", "port0:1 port0:2", "[multipath]"), ("port0:{0} port1:{1}", "port0:1 port1:2", "")],
    ids=["one-ssd-two-ports", "two-targets-one-serial"],
)
def test_one_serial_at_two_controllers(bench: Bench, harness: Harness, pair: list[Disk], subsystems: str, ports: str, reason: str) -> None:
    """An SSD with two ports is one device; two targets that tell one serial are two, and their subsystems have two names."""
    try:
        names = harness.must(_TARGET.format(subsystems=subsystems.format(pair[0].path, pair[1].path), ports=ports)).split()
        assert len(names) == 2
        spec = {**stack(pair), "devices": [f"/dev/{name}" for name in names], "accept": ["shared_controller"]}
        with bench.untouched(*pair):
            if reason:
                assert_refused(harness, [spec], reason, f"it and {names[1]} are paths to one disk")
            else:
                plan = harness.module("stack_plan", {"stacks": [spec]})
                assert not plan["failed"], said(plan)
    finally:
        harness.run(_TARGET_AWAY)


@pytest.mark.long(minutes=0.5)
def test_one_device_with_several_volumes(bench: Bench, harness: Harness, pair: list[Disk]) -> None:
    """Aligned and proven like the others, and as asked afterwards; the device beside it is not touched."""
    spec = [stack(pair[:1], "linear", volumes=2)]
    spec[0]["volumes"] = [{"name": "data", "size": "60%", "mount": "/pl/pgdata0"}, {"name": "wal", "size": "40%", "mount": "/pl/pgdata1"}]
    with bench.untouched(pair[1]):
        harness.build(spec)
    plan = harness.module("stack_plan", {"stacks": spec})
    assert (plan["failed"], plan["steps"], plan["findings"]) == (False, [], []), said(plan)
    assert harness.must("lvs --noheadings -o lv_name,segtype pgdata").split() == ["data", "linear", "wal", "linear"]
    view = harness.module("stack_info", {"devices": [pair[0].by_id]})
    assert view["findings"] == [] and sum("aligned" in line for line in view["report"]) >= 2, view["report"]
    assert_refused(harness, [{**spec[0], "layout": "separate", "volumes": [{"name": "data", "mount": "/pl/pgdata0"}]}])


def test_a_bind_mount_of_a_directory_is_no_other_place(harness: Harness, pair: list[Disk]) -> None:
    spec = [stack(pair[:1], "separate")]
    harness.build(spec)
    harness.must(f"mkdir -p {MOUNT}/sub /pl/elsewhere; mount --bind {MOUNT}/sub /pl/elsewhere")
    assert harness.module("stack_plan", {"stacks": spec})["steps"] == []
    harness.must(f"umount {MOUNT}")
    assert_refused(harness, spec, "volume 'vol0''s directory /sub is mounted on /pl/elsewhere; wanted /pl/pgdata0; unmount it first")
    harness.must("umount /pl/elsewhere")


def test_a_name_that_two_devices_ask_for(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> None:
    """udev writes a slash as _, so that both serials ask for one link; it leads to one of them, and nobody knows to which."""
    slash, line = plugged["slash"], plugged["line"]
    links = harness.must("ls /dev/disk/by-id").split()
    (link,) = (name for name in links if name.startswith("nvme-") and name.endswith("_ODD_C"))
    with bench.untouched(slash, line):
        spec = stack([slash], "separate") | {"devices": [link]}
        words = (f"/dev/disk/by-id/{link} is the name of several devices", "(ODD/C)", "(ODD_C)", "[identity]; name it otherwise, by its WWID")
        assert_refused(harness, [spec], *words)
        by_wwid = [name for name in links if name.startswith(("nvme-eui.", "nvme-uuid.", "nvme-nvme."))]
        plan = harness.module("stack_plan", {"stacks": [stack([slash], "separate") | {"devices": [f"/dev/{slash.kernel}"]}]})
        assert by_wwid and not plan["failed"], said(plan)


def test_what_is_no_disk(harness: Harness, pair: list[Disk]) -> None:
    """A file of the name of a disk, a device of another kind, a part of a disk."""
    kernel = pair[0].kernel
    harness.must(f"truncate -s 1M /dev/shm/{kernel}; modprobe zram num_devices=1; echo 1M > /sys/block/zram0/disksize")
    try:
        for module in ("stack_info", "device_info"):
            found = harness.module(module, {"devices": [f"/dev/shm/{kernel}"]})
            assert_error(found, f"/dev/shm/{kernel} is no block device that the kernel shows; the disks of this host are ")
        found = harness.module("device_info", {"devices": ["/dev/zram0"]})
        assert_error(found, "/dev/zram0 is no whole disk, but of the kind zram; the disks of this host are ")
    finally:
        harness.run(f"rm /dev/shm/{kernel}; modprobe -r zram")


def test_no_stacks_are_nothing_to_do(bench: Bench, harness: Harness, pair: list[Disk]) -> None:
    with bench.untouched(*pair):
        plan = harness.module("stack_plan", {"stacks": [], "verify": {}})
    assert (plan["failed"], plan["steps"], plan["proofs"]) == (False, [], []) and plan["report"] == ["plumbline_stacks names no stack: nothing to do"]


def test_all_mistakes_of_a_spec_are_told_at_once(harness: Harness) -> None:
    volume = {"name": "data", "mount_options": ["noatme"], "mount": "/pl/a", "mode": 750}
    spec = {"name": "log", "devices": ["a", "b"], "reserve": "10", "volumes": [volume]}
    found = harness.module("stack_plan", {"stacks": [spec, {"name": "Other", "devices": ["c"], "volumes": [{"name": "x"}]}]})
    assert_error(found, ".reserve: '10' has no unit", "(did you mean '10%'?)", "'noatme' is no mount option", ".mode: 750 is a number", "'Other' does not fit")
    assert len(found["reasons"]) == 4 and "(and 3 more, of plumbline_stacks[log]" in found["msg"], found
