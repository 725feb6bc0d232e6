# SPDX-License-Identifier: GPL-3.0-or-later
"""Fuzz, from a seed: whatever a user writes, a tool prints or a device holds gives an answer or one line of refusal, and never anything else.

A failing case names itself: `run("spec", 4711)` does it again. With PLUMBLINE_ALL=1 every target gets 25 times its cases.
"""

from __future__ import annotations

import json
import os
import random
import re
import struct

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import ata, fiemap, nvme, ownership, partition_table, proc_files, scsi, spans, tool_output
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits, make_geometry
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Segment, Signature
from ansible_collections.plumbline.ssd.plugins.module_utils._core import read_sizes
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import escape_unprintable
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health import keep_readings, nvme_health, raid_cli, report, smartctl
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.drive_health import Reading, Source
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache import persist_files
from ansible_collections.plumbline.ssd.plugins.module_utils._measure import fio, keep_baseline
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.fio import Place
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems import ext4
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.mounts import change_mounts, write_fstab
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions.write_tables import check_devices, table_script
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading import keep_risks
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.static_proof import tops, view
from ansible_collections.plumbline.ssd.plugins.plugin_utils import stack_table
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan import drawing, verify_options
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_spec import read_stacks
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, MIB, Host, fixture, spec
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.hostile import damaged_bytes, damaged_text, damaged_tree, text
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.smart import RECORDS, document, health_log

SEED = "plumbline-1"
MOST = 25
TIMES = MOST if os.environ.get("PLUMBLINE_ALL") == "1" else 1

STACKS = [
    {
        "name": "pgdata",
        "devices": ["nvme-FLASH_1", {"path": "/dev/loop1", "test_identity": "one"}],
        "layout": "striped",
        "reserve": "10%",
        "stripe_size": "64KiB",
        "extent_size": "4MiB",
        "write_cache": "off",
        "power_loss_protection": ["S1", 5],
        "blank_proof": "full",
        "discard": False,
        "accept": ["data_loss_on_power_cut"],
        "geometry": [{"model": "Flash*", "grain": "16KiB"}, {"device": "nvme-FLASH_1", "alignment_offset": "3584B"}],
        "volumes": [
            {"name": "data", "size": "70%", "mount": "/data01", "mount_options": ["noatime", "barrier=0"], "owner": "postgres", "group": 5, "mode": "0700"},
            {"name": "wal", "size": "2GiB", "mount": "/data02", "label": "wal", "mount_profile": "default", "errors": "panic", "bytes_per_inode": "64KiB"},
            {"name": "x", "discard": "none", "lazy_init": True},
            {"name": "y", "mount": "/y", "required_by": ["a.service"], "selinux_context": "a:b:c:s0"},
        ],
    },
    {
        "name": "aim",
        "devices": ["nvme-FLASH_3"],
        "layout": "linear",
        "volumes": [{"name": "a"}],
        "reserve": {"target": {"years": 5, "tbw": "1.2PB", "hidden": "13.6%"}},
        "workload": {"writes_per_day": 0.1, "random": "80%"},
    },
    {
        "name": "pin",
        "devices": ["nvme-FLASH_4"],
        "layout": "linear",
        "volumes": [{"name": "p"}],
        "reserve": {"measured": {"model": "M", "firmware": "1.0", "share": 0.12, "hidden": 0.07, "wa": 3.0}},
        "workload": {"random": 0},
    },
    {"name": "two", "devices": {"model": "MZ*", "count": 1, "min_size": "1GiB", "max_size": "2TiB"}, "layout": "separate", "volumes": [{"name": "z"}]},
]
AIMS = [{"target": {"wa": 3}}, {"measured": {"model": "Flash 9000", "firmware": "1.0", "share": 0.12}}]
VERIFY = {
    "policy": "always", "inconclusive": "warn", "fetch": "/tmp", "offset_sweep": {"max_grain": "16KiB", "error": 0.01, "table": True},
    "throughput": {"min_share": 0.9, "span": "1GiB", "max_seconds": 60}, "sync_latency": {"rows": ["fsync"], "min_ops": {"fsync": 10}},
    "fstrim_proof": {"scratch_size": "32MiB", "min_ratio": 2.0},
}  # fmt: skip
MOUNT = {"path": "/data01", "uuid": "11111111-2222-5333-8444-555555555555", "fstype": "ext4", "options": "noatime,nofail", "passno": 2, "mode": ""}
PART = {
    "device": "/dev/sda", "identity": "wwid:x", "size_bytes": GIB, "logical_bytes": 512, "start_bytes": MIB, "length_bytes": 512 * MIB,
    "type_guid": partition_table.TYPE_LVM, "guid": "AAAAAAAA-0000-4000-8000-000000000001", "name": "plumbline:pgdata:0",
}  # fmt: skip
ENTRY = {"identity": "wwid:naa.5", "wwid": "naa.5", "bus": "scsi", "state": "off", "tool": "/usr/bin/sdparm", "serial": "S", "model": "M"}
RECORD = [{"stack": "p", "volume": "d", "mount": "/d", "uuid": "u", "option": "barrier=0", "acceptance": "a", "serials": ["S"], "since": "2026"}]
BASELINE = {
    "format": 1, "legs": [{"key": "k", "serial": "s", "model": "m", "size": 5}],
    "jobs": {"seq_read": {"parameters": {"depth": 4}, "rates": [1.5, 2.5], "when": "now"}},
}  # fmt: skip
MODE_SENSE = bytes([0x1F, 0, 0x10, 8]) + bytes(8) + bytes([0x88, 0x12, 0x04]) + bytes(17)
FIEMAP = fiemap.FIEMAP_HEAD.pack(0, 1 << 30, 0, 2, 2, 0) + fiemap.FIEMAP_EXTENT.pack(0, 4096, 4096, 0, 0, 1, 0, 0, 0) * 2
PLACES = [Place("/dev/sda", 0, MIB)]


def decoded(name):
    return fixture(name).decode("utf-8")


# --- targets: (dice) → what is done with one damaged input -------------------------------------------


def fuzz_spec(dice):
    read_stacks(damaged_tree(dice, STACKS))


def fuzz_verify(dice):
    verify_options.read_verify(damaged_tree(dice, VERIFY))


def fuzz_sizes(dice):
    word = damaged_text(dice, dice.choice(("64KiB", "1.5 TiB", "70%", "0", "8EiB")))
    dice.choice((read_sizes.parse_size, read_sizes.parse_share))(word, "here")


def fuzz_lvm(dice):
    good = decoded("lvm_fullreport.json")
    tool_output.parse_lvm(damaged_text(dice, good) if dice.randrange(3) == 0 else json.dumps(damaged_tree(dice, json.loads(good)), default=str))


def fuzz_wipefs(dice):
    good = decoded("wipefs.json")
    found = tool_output.parse_wipefs(damaged_text(dice, good) if dice.randrange(3) == 0 else json.dumps(damaged_tree(dice, json.loads(good)), default=str))
    [signature.text for signatures in found.values() for signature in signatures]


def fuzz_dmsetup(dice):
    tool_output.parse_dm_tables(damaged_text(dice, decoded("dmsetup_table.txt")))


def fuzz_mountinfo(dice):
    proc_files.parse_mountinfo(damaged_text(dice, decoded("mountinfo.txt")))


def fuzz_fstab(dice):
    before = damaged_text(dice, decoded("fstab.txt"))
    proc_files.parse_fstab(before)
    after = write_fstab.edit_fstab(before, [MOUNT])
    assert after.count(write_fstab.fstab_line(MOUNT) + "\n") >= 1
    assert write_fstab.edit_fstab(after, [MOUNT]) == after


def fuzz_proc(dice):
    proc_files.parse_swaps(damaged_text(dice, decoded("swaps.txt")))
    proc_files.parse_os_release(damaged_text(dice, decoded("os-release")))


def fuzz_tables(dice):
    name, logical = dice.choice((("gpt_512.bin", 512), ("gpt_4096.bin", 4096), ("gpt_lab.bin", 512), ("mbr_512.bin", 512)))
    raw = damaged_bytes(dice, fixture(name)[: partition_table.gpt_head_bytes(logical)])
    if name.startswith("gpt") and dice.randrange(4):
        raw = resealed(raw, logical)  # with sums that are right, so that what is behind them is reached
    table = partition_table.parse_table(raw, logical)
    if table:
        ownership.is_ours(table, "pgdata")


def resealed(raw, logical):
    raw = bytearray(raw)
    if len(raw) < logical + 92:
        return bytes(raw)
    at, count, length = struct.unpack_from("<QII", raw, logical + 72)
    size = struct.unpack_from("<I", raw, logical + 12)[0]
    if 92 <= size <= logical and at < 8192 and count * length < len(raw):
        struct.pack_into("<I", raw, logical + 88, partition_table.binascii.crc32(raw[at * logical : at * logical + count * length]))
        raw[logical + 16 : logical + 20] = bytes(4)
        struct.pack_into("<I", raw, logical + 16, partition_table.binascii.crc32(raw[logical : logical + size]))
    return bytes(raw)


def fuzz_ext4(dice):
    raw = fixture(dice.choice(("ext4_striped.bin", "ext4_lv.bin", "ext2.bin", "ext4_1k.bin")))
    ext4.EXT4.parse(damaged_bytes(dice, raw[-1024:]))


def fuzz_nvme(dice):
    space = nvme.parse_id_ns(damaged_bytes(dice, fixture("id_ns.bin"), resize=False))
    nvme.better_format(space["lbafs"])
    nvme.parse_id_ctrl(damaged_bytes(dice, fixture("id_ctrl.bin"), resize=False))
    make_geometry(Limits(512, 512, dice.choice((512, 4096, 33553920)), dice.randrange(1 << 33), dice.randrange(-1, 4096)), space)


def fuzz_scsi_and_ata(dice):
    scsi.parse_caching_page(damaged_bytes(dice, MODE_SENSE), bool(dice.randrange(2)))
    scsi.parse_sense(damaged_bytes(dice, bytes([0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x24, 0])))
    scsi.parse_extended_inquiry(damaged_bytes(dice, bytes([0, 0x86, 0, 60, 0, 0, 1, 0])))
    scsi.parse_block_limits(damaged_bytes(dice, bytes([0, 0xB0, 0, 60]) + bytes(60)), 512)
    ata.parse_identify(damaged_bytes(dice, bytes(range(256)) * 2))


def fuzz_fiemap(dice):
    spans.join(fiemap.written(fiemap.parse_fiemap(damaged_bytes(dice, FIEMAP, resize=False))))


def fuzz_fio(dice):
    name = dice.choice(("fio_randread.json", "fio_missing.json"))
    good = decoded(name)
    if dice.randrange(2):
        fio.parse_output(damaged_text(dice, good), PLACES)
    tree = json.loads(good[good.index("{") : good.rindex("}") + 1])
    fio.parse_output(json.dumps({"jobs": damaged_tree(dice, tree["jobs"])}, default=str), PLACES)


def fuzz_fio_words(dice):
    """No text from outside is ever a word of fio's but the kernel's name of a block device."""
    words = fio.argv("/usr/bin/fio", fio.Load("x", "read", 4096, 1), [Place("/dev/" + text(dice), 0, MIB)], 1, 0)
    assert all(re.fullmatch(r"[A-Za-z0-9_.!=/-]+", word) for word in words) and ":" not in "".join(words)


def fuzz_states(dice):
    """What lies on the host of earlier runs, by whomever it was changed since."""
    persist_files.parse_state(json.dumps(damaged_tree(dice, {"version": 1, "devices": [ENTRY]}), default=str))
    found = damaged_tree(dice, RECORD)
    keep_risks.parse_accepted("p", json.loads(json.dumps(found, default=str)))
    keep_baseline.parse_baseline(json.dumps(damaged_tree(dice, BASELINE), default=str), "/b.json")


def fuzz_kept(dice):
    """A drive's own words in a rule of udev and in a script of sh: as they are, where they mean nothing there, or not at all."""
    entry = persist_files.Entry(**dict(ENTRY, bus=dice.choice(("scsi", "nvme", "ata")), **{dice.choice(("wwid", "serial", "model")): text(dice)}))
    if persist_files.why_not_kept(entry):
        return
    plain = persist_files.Entry(**dict(entry._asdict(), identity=ENTRY["identity"], wwid="W", serial="S", model="M"))
    for made in (persist_files.rules_text, persist_files.script_text):
        own, other = made([entry._replace(identity=ENTRY["identity"])]), made([plain])
        assert own.count("\n") == other.count("\n") and own.count('"') == other.count('"') and own.count("'") == other.count("'")


def fuzz_requests(dice):
    """What the writers are handed: a mount or a partition that is no line, no file and no command of its own."""
    part = dict(PART, **{dice.choice(("type_guid", "guid", "name")): text(dice)})
    mount = dict(MOUNT, **{dice.choice(("path", "uuid", "fstype", "options", "mode")): text(dice)})
    drop_ins = dice.choice(
        ({}, {text(dice): "x"}, {"/etc/systemd/system/a.service.d/50-plumbline-pgdata.conf": "[Unit]\nRequiresMountsFor=" + text(dice) + "\n"})
    )
    try:
        change_mounts.check_mounts([mount], drop_ins)
    except PlumblineError:
        check_devices([part])
        assert table_script(part).count("\n") == 5 and table_script(part).count('"') == 2
    else:
        line = write_fstab.fstab_line(mount)
        assert len(line.split()) == 6 and line.isprintable()


def hostile_host(dice):
    """A host whose devices call themselves anything."""
    host = Host()
    words = {key: text(dice) for key in dice.sample(("model", "serial", "wwid", "firmware", "controller"), dice.randrange(1, 4))}
    one = host.disk(**{key: escape_unprintable(value) for key, value in words.items()})  # as _sysfs reads them
    two = host.disk()
    kind = dice.randrange(8)
    if kind == 0:
        host.part(one, MIB, name=text(dice))
    elif kind == 1:
        host.pv(one, text(dice))
    elif kind == 2:
        host.ext4(one, text(dice))
    elif kind == 3:
        host.seen.signatures[one] = [Signature(text(dice), text(dice), dice.randrange(1 << 40), text(dice), text(dice))]
    elif kind == 4:
        host.mount(one, text(dice))
    elif kind == 5:
        host.seen.faults[one] = text(dice)
    elif kind == 6:
        host.seen.busy[one] = text(dice)
    else:
        host.mapped(text(dice), [Segment(0, GIB, "linear", 0, ((one, 0),))], kind=dice.choice(("dm", "lvm", "crypt")))
    return host, one, two


def fuzz_device_text(dice):
    """From the device to the plan, the drawing, the report and the static proof: every line is one line."""
    host, one, two = hostile_host(dice)
    stacks = read_stacks([{"name": "pgdata", "devices": [host.seen.nodes[one].path, host.seen.nodes[two].path], "volumes": [{"name": "v", "mount": "/v"}]}])
    plan = make_plan(stacks, host.seen)
    drawn = drawing.diff(plan, host.seen)
    lines = drawing.steps_report(plan)
    views = [view(host.seen, devno) for devno in tops(host.seen, [one, two])]
    for found in views:
        lines += stack_table.view_report(found)
    for side in ("before", "after"):
        assert all(line.isprintable() for line in drawn[side].split("\n"))
    assert "\nFAIL" not in drawn["before"] + drawn["after"]
    for step in plan.steps:
        for device in step.get("devices", ()) if step["action"] == "partition" else ():
            assert re.fullmatch(r"plumbline:pgdata:[01]", device["name"])
        if step["action"] == "filesystem":
            assert re.fullmatch(r"[-A-Za-z0-9 _.:=,]+", step["options"])
    if plan.refusals:
        raise PlumblineError(plan.refusals[0], plan.refusals)


def fuzz_spec_on_a_host(dice):
    """A spec that is taken is planned, or refused in lines."""
    host = Host()
    host.pair()
    keys = damaged_tree(dice, {"volumes": STACKS[0]["volumes"], "reserve": dice.choice(["10%", *AIMS]), "stripe_size": "auto"})
    if not isinstance(keys, dict) or not all(isinstance(key, str) for key in keys):
        return
    plan = make_plan(spec(host, **keys), host.seen)
    drawing.diff(plan, host.seen)
    if plan.refusals:
        raise PlumblineError(plan.refusals[0], plan.refusals)


# How often each is done is TIMES this.
SMART = [document(one) for one in RECORDS if one["protocol"] in ("ATA", "NVMe")]
KNOWN = report.Known(
    1_800_000_000,
    [report.StackDrives("pgdata", ("sda",), (), True, True)],
    [("*", 10**15)],
    (),
    {},
)


def judged(health):
    """As the module returns it, which has to be JSON; and what makes a drive healthy, told again from what was read."""
    history = Reading(KNOWN.now - 10**6, health.model, health.serial, health.firmware, 1, dict.fromkeys(health.counters, 0))
    kept = keep_readings.compare_readings(health, [history], KNOWN.now)
    known = KNOWN._replace(histories={health.key: kept.readings})
    result = report.health_result([(Source("/dev/sda", ("sda",)), health)], known)
    json.dumps(result, allow_nan=False)
    (drive,) = result["drives"]
    assert drive["failing"] in (True, False, None) and (drive["failing"] is not None or drive["level"] in ("warning", "error"))
    return drive["failing"]


def fuzz_smartctl(dice):
    """Whatever smartctl prints: healthy is only what says so itself, of which something was read."""
    good = dice.choice(SMART)
    if dice.randrange(3):
        tree = damaged_tree(dice, good)
        printed = json.dumps(tree, default=str)
    else:
        printed = damaged_text(dice, json.dumps(good))
    printed = printed[: dice.randrange(len(printed) + 1)] if dice.randrange(8) == 0 else printed
    code = dice.choice((0, 0, 0, 4, 64, 1, 2, 8, 255, -9, -11))
    failing = judged(smartctl.parse_smartctl(code, printed, text(dice)))
    if failing is False:
        found = json.loads(printed)
        status = found["smart_status"] if isinstance(found.get("smart_status"), dict) else {}
        assert code >= 0 and not code & 0x13
        if found["device"]["protocol"] != "NVMe":
            assert status["passed"] is True and not code & 8
            return
        log, summary = (one if isinstance(one, dict) else {} for one in (found.get("nvme_smart_health_information_log"), status.get("nvme")))
        told = (log.get("critical_warning"), summary.get("value"))
        bits = [one for one in told if isinstance(one, int) and not isinstance(one, bool) and 0 <= one < 256]
        assert not (bits[0] & ~0x32 if bits else status["passed"] is not True)
        assert (bits and bits[0]) or (status.get("passed") is not False and not code & 8)


def fuzz_health_log(dice):
    raw = damaged_bytes(dice, health_log(RECORDS[0]), resize=False)
    assert judged(nvme_health.parse_health(damaged_bytes(dice, fixture("id_ctrl.bin"), resize=False), raw)) is not False or raw[0] == 0


def fuzz_raid_cli(dice):
    state = {"S.M.A.R.T alert flagged by drive": "No", "Media Error Count": 0, "Drive Temperature": " 21C"}
    detail = {"Drive /c0/e1/s1 State": state, "Drive /c0/e1/s1 Device attributes": {"SN": "S", "WWN": "5002538e403e1157"}}
    good = {"Controllers": [{"Response Data": {"Drive /c0/e1/s1": [{"Intf": "SAS"}], "Drive /c0/e1/s1 - Detailed Information": detail}}]}
    printed = json.dumps(damaged_tree(dice, good), default=str) if dice.randrange(3) else damaged_text(dice, json.dumps(good))
    for _source, health in raid_cli.parse_drives(printed):
        assert judged(health) is not False or '"No"' in printed


def fuzz_readings(dice):
    good = {"when": 1_700_000_000, "model": "M", "serial": "S", "firmware": "F", "used": 5, "counters": {"media_errors": 1}}
    line = json.dumps(damaged_tree(dice, good), default=str) if dice.randrange(3) else damaged_text(dice, json.dumps(good))
    readings = keep_readings.parse_readings(line + "\n" + json.dumps(good))
    health = smartctl.parse_smartctl(0, json.dumps(SMART[0]))
    report.health_result([(Source("/dev/sda"), health)], KNOWN._replace(histories={health.key: readings}))
    keep_readings.compare_readings(health, readings, KNOWN.now)


TARGETS = {
    fuzz_spec: 3500, fuzz_verify: 700, fuzz_sizes: 1000, fuzz_lvm: 1500, fuzz_wipefs: 1200, fuzz_dmsetup: 1200, fuzz_mountinfo: 900, fuzz_fstab: 1500,
    fuzz_proc: 600, fuzz_tables: 1500, fuzz_ext4: 800, fuzz_nvme: 600, fuzz_scsi_and_ata: 1000, fuzz_fiemap: 400, fuzz_fio: 700, fuzz_fio_words: 200,
    fuzz_smartctl: 3000, fuzz_health_log: 500, fuzz_raid_cli: 500, fuzz_readings: 300,
    fuzz_states: 800, fuzz_kept: 600, fuzz_requests: 800, fuzz_device_text: 900, fuzz_spec_on_a_host: 300,
}  # fmt: skip


def run(target, number):
    """One case. Returns whether it was refused; anything but an answer or a refusal in printable lines is an AssertionError that names it."""
    dice = random.Random("%s/%s/%d" % (SEED, target.__name__, number))
    try:
        target(dice)
    except PlumblineError as fault:
        for line in [fault.msg, *fault.reasons]:
            assert line.isprintable() and len(line) < 5000, "%s %d: %r" % (target.__name__, number, line)
        assert fault.msg, "%s %d: a refusal without a word" % (target.__name__, number)
        return True
    except Exception as fault:
        raise AssertionError("%s, case %d: %r" % (target.__name__, number, fault)) from fault
    return False


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.__name__[len("fuzz_") :])
def test_fuzz(target, figure):
    cases = TARGETS[target] * TIMES
    refused = sum(run(target, number) for number in range(cases))
    assert not os.path.exists("/tmp/plumbline-owned")
    figure("fuzz", cases=cases, tracebacks=0, refused=refused)


def test_there_are_enough():
    assert MOST * sum(TARGETS.values()) >= 500000
