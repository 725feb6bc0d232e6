# SPDX-License-Identifier: GPL-3.0-or-later
"""What drives say of their write cache, and what is made of it: parsers, judgement, plan."""

from __future__ import annotations

import json
import struct

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import ata, cache_pages, nvme, scsi
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import WriteCache
from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import Identity
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache import command, rules
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.drawing import diff
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_spec import read_stacks
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import VOLUMES, Host, fixture, spec

CACHES = {row["id"]: row for row in json.loads(fixture("cache.json"))}

# --- the bytes -------------------------------------------------------------------------------------


def identify(word82=1 << 5, word83=1 << 14, word85=1 << 5, word87=1 << 14):
    """IDENTIFY DEVICE with these words."""
    raw = bytearray(512)
    for word, value in ((82, word82), (83, word83), (85, word85), (87, word87)):
        struct.pack_into("<H", raw, 2 * word, value)
    return bytes(raw)


@pytest.mark.parametrize(
    ("raw", "supported", "enabled"),
    [
        (identify(), True, True),
        (identify(word85=0), True, False),
        (identify(word82=0xFFDF), False, False),
        (identify(word82=0x746B, word83=0x7D09, word85=0x7469, word87=0x4163), True, True),  # a SATA SSD
        (identify(word82=0x746B, word83=0x7D09, word85=0x7449, word87=0x4163), True, False),  # the same after hdparm -W0
        (identify(word82=0x4021, word83=0x7400, word85=0x4021, word87=0x4000), True, True),  # QEMU's ide-hd
        (identify(word83=0), None, True),
        (identify(word87=0), True, None),
        (identify(word83=3 << 14), None, True),  # 11b: an empty bus
        (identify(word83=0, word87=0), None, None),
        (b"", None, None),
        (identify()[:300], None, None),
    ],
)
def test_identify_device(raw, supported, enabled):
    assert ata.parse_identify(raw) == (supported, enabled)


def mode_page(byte2=0x04, savable=False, ten=True, descriptors=b"", before=b"", code=0x08, length=18):
    """What MODE SENSE returns: header, block descriptors, pages."""
    page = before + bytes([code | 0x80 * savable, length, byte2]) + bytes(length - 1)
    if ten:
        head = struct.pack(">HBBBBH", 6 + len(descriptors) + len(page), 0, 0x10, 0, 0, len(descriptors))
    else:
        head = bytes([3 + len(descriptors) + len(page), 0, 0x10, len(descriptors)])
    return head + descriptors + page


@pytest.mark.parametrize("ten", [True, False])
@pytest.mark.parametrize("descriptors", [b"", bytes(8), bytes(16)], ids=["none", "short", "long"])
@pytest.mark.parametrize("savable", [True, False])
@pytest.mark.parametrize(("byte2", "on"), [(0x04, True), (0x14, True), (0x00, False), (0xFB, False), (0xFF, True)])
def test_caching_page(ten, descriptors, savable, byte2, on):
    raw = mode_page(byte2, savable, ten, descriptors)
    assert scsi.parse_caching_page(raw, ten) == (on, savable)
    assert scsi.parse_caching_page(raw + bytes(100), ten) == (on, savable)


@pytest.mark.parametrize(
    "raw",
    [b"", bytes(3), bytes(8), mode_page(code=0x0A), mode_page()[:9], mode_page(code=0x48), struct.pack(">HBBBBH", 500, 0, 0, 0, 0, 400)],
    ids=["nothing", "short", "empty", "another-page", "cut", "a-subpage", "descriptors-beyond"],
)
def test_no_caching_page(raw):
    assert scsi.parse_caching_page(raw, True) is None


def test_caching_page_behind_others():
    """All pages at once: a page in front, and one with a subpage, whose length has 16 bits."""
    other, sub = bytes([0x01, 10]) + bytes(10), bytes([0x59, 0x01, 0, 6]) + bytes(6)
    assert scsi.parse_caching_page(mode_page(before=other + sub), True) == (True, False)


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (bytes([0, 0x86, 0, 60, 0, 0, 0x01]) + bytes(57), (True, False)),
        (bytes([0, 0x86, 0, 60, 0, 0, 0x02]) + bytes(57), (False, True)),
        (bytes([0, 0x86, 0, 60, 0, 0, 0x0F]) + bytes(57), (True, True)),
        (bytes([0, 0x86, 0, 60]) + bytes(60), (False, False)),
        (bytes([0, 0x83, 0, 60, 0, 0, 0x03]) + bytes(57), (False, False)),  # another page than was asked for
        (b"", (False, False)),
    ],
)
def test_extended_inquiry(raw, found):
    assert scsi.parse_extended_inquiry(raw) == found


@pytest.mark.parametrize(
    ("raw", "sense"),
    [
        (bytes([0x70, 0, 0x05, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0]), (5, 0x20, 0)),
        (bytes([0xF0, 0, 0x05, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x20, 0, 0, 0xC0, 0, 0]), (5, 0x20, 0)),  # as a RAID volume: byte 15 is C0h
        (bytes([0x72, 0x01, 0x00, 0x1D, 0, 0, 0, 14]), (1, 0, 0x1D)),
        (bytes(18), (0, 0, 0)),
        (b"", (0, 0, 0)),
    ],
)
def test_sense(raw, sense):
    assert scsi.parse_sense(raw) == sense


@pytest.mark.parametrize("name", [name for name, row in CACHES.items() if "sense" in row])
def test_sense_of_real_drives(name):
    """hdparm's question to a SAS disk and to a RAID volume: an invalid command, which says nothing of the cache."""
    row = CACHES[name]["sense"]
    raw = bytearray(18)
    raw[0], raw[2], raw[12], raw[13], raw[15] = 0x70, row["key"], row["asc"], row["ascq"], row["byte15"]
    assert scsi.parse_sense(bytes(raw)) == (5, 0x20, 0)
    assert "does not know the command" in scsi.sense_text((5, 0x20, 0))


# --- what they mean --------------------------------------------------------------------------------

ATA = [
    ((True, True), "on", True, None),
    ((True, False), "off", True, None),
    ((False, False), "none", False, False),
    ((True, None), "unknown", True, None),
    ((None, True), "on", None, None),
]


@pytest.mark.parametrize(("found", "state", "present", "changeable"), ATA)
def test_cache_of_ata(found, state, present, changeable):
    cache = cache_pages.cache_of_ata(ata.AtaCache(*found))
    assert (rules.state_of(cache), cache.present, cache.changeable, cache.saved, cache.fault) == (state, present, changeable, None, "")


def test_an_ata_drive_that_says_nothing():
    assert cache_pages.cache_of_ata(ata.AtaCache(None, None)).fault


def page(on, savable=False):
    return scsi.CachingPage(on, savable)


SCSI = [
    # current, changeable, saved, V_SUP, NV_SUP → state, changeable, saved, protected
    (page(True), page(True), None, False, False, "on", True, None, None),
    (page(False), page(True), None, False, False, "off", True, None, None),
    (page(False), page(False), None, False, False, "off", False, None, None),
    (page(True, True), page(True), page(True, True), False, False, "on", True, True, None),
    (page(False, True), page(True), page(True, True), True, False, "off", True, True, None),
    (page(True), page(True), page(False), False, False, "on", True, None, None),  # a saved page of a drive that cannot save
    (page(True), None, None, True, True, "on", None, None, None),
    (page(True), page(True), None, False, True, "none", True, None, True),
]


@pytest.mark.parametrize(("current", "changeable", "saved", "volatile", "non_volatile", "state", "may", "kept", "protected"), SCSI)
def test_cache_of_scsi(current, changeable, saved, volatile, non_volatile, state, may, kept, protected):
    cache = cache_pages.cache_of_scsi(current, changeable, saved, volatile, non_volatile)
    assert (rules.state_of(cache), cache.changeable, cache.saved, cache.protected) == (state, may, kept, protected)


def test_a_scsi_drive_without_the_page():
    assert cache_pages.cache_of_scsi(None, None, None, True, False) == WriteCache(fault="it has no caching page")


NVME = [
    # vwc, current, capabilities, saved → state, changeable, saved, fault
    (0, None, None, None, "none", False, None, False),
    (6, 1, 4, None, "none", False, None, False),
    (1, 1, None, None, "on", None, None, False),
    (7, 1, 4, 0, "on", True, None, False),
    (7, 0, 4, 1, "off", True, None, False),
    (7, 0, 0, None, "off", False, None, False),
    (7, 0, 5, 1, "off", True, True, False),
    (7, 0, 5, 0, "off", True, False, False),
    (7, None, None, None, "unknown", None, None, True),
]


@pytest.mark.parametrize(("vwc", "current", "capabilities", "saved", "state", "may", "kept", "fault"), NVME)
def test_cache_of_nvme(vwc, current, capabilities, saved, state, may, kept, fault):
    cache = cache_pages.cache_of_nvme(vwc, current, capabilities, saved)
    assert (rules.state_of(cache), cache.changeable, cache.saved, bool(cache.fault)) == (state, may, kept, fault)


@pytest.mark.parametrize("name", [name for name, row in CACHES.items() if "vwc" in row])
def test_vwc_says_there_is_a_cache_and_not_that_it_is_on(name):
    assert CACHES[name]["expect"]["state"] is None
    cache = cache_pages.cache_of_nvme(CACHES[name]["vwc"], None, None, None)
    assert (cache.present, cache.enabled) == (True, None)


def test_the_lab_controller_can_be_asked_for_capabilities():
    found = nvme.parse_id_ctrl(fixture("id_ctrl.bin"))
    assert found["vwc"] & 1 and cache_pages.select_known(found["oncs"])


ON, OFF = WriteCache(True, True, True), WriteCache(True, False, True)


@pytest.mark.parametrize(
    ("caches", "state", "fault"),
    [
        ([], "unknown", True),
        ([ON], "on", False),
        ([ON, OFF], "on", False),
        ([OFF, OFF], "off", False),
        ([OFF, WriteCache(fault="it went away")], "unknown", True),
        ([WriteCache(False, False, False)] * 2, "none", False),
    ],
)
def test_a_subsystem_with_several_controllers(caches, state, fault):
    cache = cache_pages.all_paths(caches)
    assert (rules.state_of(cache), bool(cache.fault)) == (state, fault)


# --- judgement -------------------------------------------------------------------------------------

NONE = WriteCache(False, False, False)
FIXED_ON, FIXED_OFF = WriteCache(True, True, False), WriteCache(None, False, False)
SAVES_ON, SAVES_OFF = WriteCache(True, False, True, True), WriteCache(True, False, True, False)
MUTE, GONE = WriteCache(True), WriteCache(fault="virtio does not pass the question on")

JUDGED = [
    # wanted, cache → set, keepable, words of the refusal
    ("off", ON, True, True, ""),
    ("off", OFF, False, True, ""),
    ("on", OFF, True, True, ""),
    ("on", ON, False, True, ""),
    ("off", NONE, False, False, ""),
    ("on", NONE, False, False, "has no volatile write cache; wanted on"),
    ("off", FIXED_ON, False, False, "its write cache is on and it says that this cannot be changed; wanted off"),
    ("on", FIXED_ON, False, False, ""),
    ("off", FIXED_OFF, False, False, ""),
    ("on", FIXED_OFF, False, False, "its write cache is off and it says that this cannot be changed; wanted on"),
    ("off", MUTE, False, False, "does not say whether its write cache is on; wanted off"),
    ("on", GONE, False, False, "cannot be known: virtio does not pass the question on; wanted on"),
    ("off", SAVES_ON, True, True, ""),  # it is off and would come back on
    ("off", SAVES_OFF, False, True, ""),
    ("off", WriteCache(True, True, None), True, True, ""),  # ATA: it shows when it is tried
]


@pytest.mark.parametrize(("wanted", "cache", "sets", "keepable", "words"), JUDGED)
def test_judge(wanted, cache, sets, keepable, words):
    verdict = rules.judge_wanted(wanted, cache)
    assert (verdict.set, verdict.keepable) == (sets, keepable)
    assert (words in verdict.refusal) if words else not verdict.refusal


def test_a_drive_without_a_cache_is_off_enough_and_that_is_said():
    assert "nothing to switch off" in rules.judge_wanted("off", NONE).note


@pytest.mark.parametrize(
    ("wanted", "cache", "belief", "rescan"),
    [
        ("on", ON, "write through", True),
        ("on", ON, "write back", False),
        ("on", ON, "", False),
        ("off", OFF, "write back", False),
        ("off", OFF, "write through", False),
    ],
)
def test_the_kernel_has_to_look_again(wanted, cache, belief, rescan):
    assert rules.judge_wanted(wanted, cache, belief).rescan is rescan


@pytest.mark.parametrize(
    ("cache", "belief", "wanted", "stale"),
    [
        (ON, "write through", "on", True),
        (ON, "write back", "on", False),
        (OFF, "write back", "off", False),  # safe: left alone
        (SAVES_ON, "write back", "off", False),  # off now, and back on after a reset
        (SAVES_OFF, "write back", "off", True),
        (SAVES_OFF, "write through", "off", False),
    ],
)
def test_a_belief_write_back_goes_only_where_the_drive_saves_the_setting(cache, belief, wanted, stale):
    assert rules.belief_is_stale(cache, belief, wanted) is stale


@pytest.mark.parametrize(
    ("cache", "belief", "wrong"),
    [(ON, "write through", True), (ON, "write back", False), (OFF, "write through", False), (NONE, "write through", False), (MUTE, "write through", False)],
)
def test_dropped_flushes(cache, belief, wrong):
    assert rules.believed_wrongly(cache, belief) is wrong


@pytest.mark.parametrize(
    ("bus", "state", "save", "argv"),
    [
        ("ata", "off", False, ["T", "-q", "-W0", "N"]),
        ("ata", "on", True, ["T", "-q", "-W1", "N"]),
        ("scsi", "off", False, ["T", "--quiet", "--clear=WCE", "N"]),
        ("scsi", "on", True, ["T", "--quiet", "--set=WCE", "--save", "N"]),
        ("nvme", "off", False, ["T", "set-feature", "N", "--namespace-id=0xffffffff", "--feature-id=6", "--value=0"]),
        ("nvme", "on", True, ["T", "set-feature", "N", "--namespace-id=0xffffffff", "--feature-id=6", "--value=1", "--save"]),
    ],
)
def test_commands(bus, state, save, argv):
    assert command.set_command(bus, "T", "N", state, save) == argv


# --- namespaces of one controller ------------------------------------------------------------------


def shared(host):
    """Two namespaces of one controller, and a third drive."""
    first = host.disk(name="nvme0n1", controller="nvme0")
    second = host.disk(name="nvme0n2", controller="nvme0", nsid=2)
    return first, second, host.disk(name="nvme1n1", controller="nvme1")


@pytest.mark.parametrize(
    ("states", "words"),
    [
        (("off", "off", "off"), ""),
        (("off", "keep", "off"), "nvme0n2"),
        (("off", None, None), "behind which is also nvme0n2"),
        (("off", "on", None), "another state for nvme0n2"),
    ],
)
def test_a_controller_is_set_only_where_all_behind_it_is_named(states, words):
    host = Host()
    devnos = shared(host)
    wanted = {devno: state for devno, state in zip(devnos, states) if state}
    reason = rules.sharing_reason(host.seen, devnos[0], wanted)
    assert (words in reason and "nvme0" in reason) if words else not reason


def test_scsi_disks_are_alone():
    host = Host()
    first, _second = (host.disk(name=name, transport="sas", controller="") for name in ("sda", "sdb"))
    assert [node.name for node in rules.neighbours(host.seen, first)] == ["sda"]


# --- the plan --------------------------------------------------------------------------------------


def plan(host, **more):
    return make_plan(spec(host, **more), host.seen)


def steps(made):
    return [step for step in made.steps if step["action"] == "write_cache"]


def test_keep_asks_nothing_and_changes_nothing():
    host = Host()
    host.pair()
    assert not steps(plan(host))
    host.seen.caches = dict.fromkeys(host.seen.caches, GONE)
    assert not plan(host).refusals


@pytest.mark.parametrize("state", ["on", "off"])
def test_the_caches_are_the_first_step_and_are_then_as_asked(state):
    host = Host()
    devnos = host.pair()
    made = plan(host, write_cache=state)
    assert made.steps[0]["action"] == "write_cache" and len(steps(made)) == 1
    first = host.seen.nodes[devnos[0]]
    assert made.steps[0]["devices"][0] == {"device": first.path, "identity": first.identity.key, "serial": first.identity.serial, "state": state}
    host.build(spec(host, write_cache=state))
    assert not plan(host, write_cache=state).steps
    assert set(host.seen.kept.values()) == {state}


def test_all_stacks_have_one_step():
    host = Host()
    first, second = host.disk(), host.disk()
    stacks = [
        {"name": name, "layout": "separate", "devices": [host.name(devno)], "volumes": [{"name": name}], "write_cache": "off"}
        for name, devno in (("one", first), ("two", second))
    ]
    made = make_plan(read_stacks(stacks), host.seen)
    assert len(steps(made)) == 1 and len(steps(made)[0]["devices"]) == 2


def test_a_setting_that_is_not_kept_is_a_step_and_a_damaged_one_too():
    host = Host()
    devnos = host.pair()
    host.build(spec(host, write_cache="off"))
    keys = [host.seen.nodes[devno].identity.key for devno in devnos]
    host.seen.kept = {keys[0]: "off"}
    assert [device["identity"] for device in plan(host, write_cache="off").steps[0]["devices"]] == [keys[1]]
    host.seen.kept = dict.fromkeys(keys, "")
    assert len(plan(host, write_cache="off").steps[0]["devices"]) == 2


def test_back_to_keep_drops_what_was_kept_and_no_more():
    host = Host()
    host.pair()
    host.build(spec(host, write_cache="off"))
    made = plan(host)
    assert [device["state"] for device in made.steps[0]["devices"]] == ["keep", "keep"]
    host.build(spec(host))
    assert not plan(host).steps and not host.seen.kept


def test_a_drive_that_fell_back_is_a_step():
    host = Host()
    first, _second = host.pair()
    host.build(spec(host, write_cache="off"))
    host.seen.caches[first] = ON
    assert [device["device"] for device in plan(host, write_cache="off").steps[0]["devices"]] == [host.seen.nodes[first].path]


@pytest.mark.parametrize(
    ("state", "cache", "words"),
    [
        ("on", NONE, "has no volatile write cache"),
        ("off", FIXED_ON, "cannot be changed"),
        ("off", GONE, "cannot be known"),
    ],
)
def test_what_is_known_is_refused_by_the_plan(state, cache, words):
    host = Host()
    first, _second = host.pair()
    host.seen.caches[first] = cache
    made = plan(host, write_cache=state)
    assert len(made.refusals) == 1 and words in made.refusals[0] and "SER0000" in made.refusals[0] and "pgdata" in made.refusals[0]
    assert not made.steps


@pytest.mark.parametrize(
    ("more", "state", "refused"),
    [
        ({}, "on", True),
        ({"accept": ["data_loss_on_power_cut"]}, "on", False),
        ({"power_loss_protection": ["SER0000", "SER0001"]}, "on", False),
        ({"power_loss_protection": ["SER0000"]}, "on", True),
        ({}, "off", False),
    ],
)
def test_a_cache_is_not_switched_on_below_a_filesystem_without_barriers(more, state, refused):
    """Drift that the same run would repair, too: the caches come first, and a mount may fail."""
    host = Host()
    devnos = host.pair()
    host.build(spec(host))
    host.seen.caches.update(dict.fromkeys(devnos, OFF))
    host.seen.mounts = [mount._replace(options=(*mount.options, "nobarrier")) for mount in host.seen.mounts]
    made = plan(host, write_cache=state, **more)
    assert bool(made.refusals) is refused
    if refused:
        assert "SER0001): its write cache is off, and /data01, /data02 are mounted on it without barriers" in made.refusals[-1]
    elif state == "on":
        (step,) = steps(made)
        assert [device.get("accept", []) for device in step["devices"]] == [more.get("accept", [])] * 2
        assert step["power_loss_protection"] == more.get("power_loss_protection", [])


def test_a_cache_is_not_switched_on_below_a_mapped_device_that_drops_flushes():
    """No word allows that."""
    host = Host()
    devnos = host.pair()
    host.build(spec(host))
    host.seen.caches.update(dict.fromkeys(devnos, OFF))
    assert not plan(host, write_cache="on").refusals
    host.edit(host.seen.lv_node("pgdata", "data").devno, write_cache="write through")
    for more in ({}, {"accept": ["data_loss_on_power_cut"]}, {"power_loss_protection": ["SER0000", "SER0001"]}):
        said = plan(host, write_cache="on", **more).refusals
        assert len(said) == 2 and "SER0000): its write cache is off, and the kernel believes 'write through' of dm-0 (pgdata-data) above it" in said[0]
        assert "vgchange -an" in said[0]
    assert not plan(host, write_cache="off").refusals


def test_a_drive_without_a_cache_may_be_off():
    host = Host()
    devnos = host.pair()
    host.seen.caches.update(dict.fromkeys(devnos, NONE))
    assert not steps(plan(host, write_cache="off")) and not plan(host, write_cache="off").refusals


def test_a_namespace_that_is_not_ours_refuses():
    host = Host()
    first, _second, third = shared(host)
    made = make_plan(spec(host, [first, third], write_cache="off"), host.seen)
    assert "behind which is also nvme0n2" in made.refusals[0]


def test_namespaces_in_two_stacks_are_ours():
    host = Host()
    first, second, _third = shared(host)
    stacks = [
        {"name": name, "layout": "separate", "devices": [path], "volumes": [{"name": name}], "write_cache": "off"}
        for name, path in (("one", host.name(first)), ("two", host.name(second)))
    ]
    assert not make_plan(read_stacks(stacks), host.seen).refusals
    stacks[1]["write_cache"] = "on"
    assert any("another state" in refusal for refusal in make_plan(read_stacks(stacks), host.seen).refusals)


def test_packages_only_where_a_step_wants_them():
    host = Host()
    devnos = host.pair()
    host.edit(devnos[1], name="sdb")
    host.edit(devnos[1], identity=Identity("naa.5", "S", "M", "1", "sata", ata=True))
    host.seen.geometries[devnos[1]] = host.seen.geometries[devnos[0]]
    assert not plan(host).missing_packages
    assert plan(host, write_cache="off").missing_packages == ["hdparm", "nvme-cli"]
    host.seen.tools = dict(host.seen.tools, nvme="/usr/sbin/nvme")
    assert plan(host, write_cache="off").missing_packages == ["hdparm"]


def test_up_to_the_caches_and_no_further():
    host = Host()
    host.pair()
    made = make_plan(spec(host, write_cache="off"), host.seen, "write_cache")
    assert [step["action"] for step in made.steps] == ["write_cache"]
    assert diff(made, host.seen)["before"].splitlines() == ["nvme%dn1  SER000%d  write cache on" % (n, n) for n in range(2)]
    assert diff(made, host.seen)["after"].splitlines() == ["nvme%dn1  SER000%d  write cache off, kept off" % (n, n) for n in range(2)]


@pytest.mark.parametrize(("word", "state"), [("keep", "keep"), ("on", "on"), ("off", "off"), (True, "on"), (False, "off")])
def test_on_and_off_are_booleans_to_yaml(word, state):
    host = Host()
    host.pair()
    assert spec(host, write_cache=word)[0].write_cache == state
    assert VOLUMES and spec(host, power_loss_protection=["SER0000", 17])[0].power_loss_protection == ("SER0000", "17")
