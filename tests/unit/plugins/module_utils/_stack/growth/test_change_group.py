# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of growth on a host: which commands are run, what is refused before the first of them, and what is found out after it."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.hidden_pv import FILTER, HiddenPv
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import BlankProof
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kinds import FILESYSTEMS
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.growth import change_group
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.growth.change_filesystem import grow_filesystem
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.steps import GROWTH_STEP
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, Host, spec

ONE = [{"name": "data", "mount": "/data01"}]
ACTIONS = {
    "grow_pv": change_group.grow_pvs,
    "extend_vg": change_group.extend_group,
    "grow_lv": change_group.grow_volume,
    "refresh_lv": change_group.refresh_volume,
    "grow_filesystem": grow_filesystem,
}
COMMANDS = {
    "grow_pv": [["/usr/sbin/lvm", "pvresize"]],
    "extend_vg": [["/usr/sbin/lvm", "vgextend", "--dataalignment", "1048576b", "pgdata"]],
    "grow_lv": [["/usr/sbin/lvm", "lvextend", "-i", "2", "-I", "65536b", "-l"]],
    "refresh_lv": [["/usr/sbin/lvm", "lvchange", "--refresh", "pgdata/data"]],
    "grow_filesystem": [["resize2fs", "/dev/mapper/pgdata-data"], ["sync", "--file-system", "/data01"], ["sync", "/dev/mapper/pgdata-data"]],
}


@pytest.fixture(autouse=True)
def stays_suspended(monkeypatch):
    monkeypatch.setattr(change_group, "_is_resumed", lambda node: False)


def at(action):
    """A host as it is when this action is due, and the step."""
    host = Host()
    host.pair(2)
    host.build(spec(host, volumes=ONE))
    if action == "refresh_lv":
        host.edit(host.seen.lv_node("pgdata", "data").devno, suspended=True)
        stacks = spec(host, volumes=ONE)
    elif action == "extend_vg":
        host.pair(2)
        stacks = spec(host, volumes=ONE, stripes=2)
    else:
        for node in [node for node in host.seen.nodes.values() if node.kind == "disk"]:
            host.resize(node.devno, 150 * GIB)
        stacks = spec(host, volumes=ONE, grow=True)
    while True:
        step = make_plan(stacks, host.seen).steps[0]
        if step["action"] == action:
            links(host)
            return host, {**{key: option.get("default") for key, option in GROWTH_STEP.items()}, **step}
        host.carry_out(step)


def links(host):
    """The links to partitions by their GUIDs, as udev makes them."""
    for disk, table in host.seen.tables.items():
        for entry in table.entries if table else ():
            part = next(node for node in host.seen.nodes.values() if node.parent == disk and node.number == entry.number)
            host.seen.led_to["/dev/disk/by-partuuid/" + entry.guid.lower()] = part.devno


def done(host, step, check=False, works=True):
    """Carry the step out with tools that do what they say, unless *works* is False. Returns the commands."""
    called = []

    def run(argv):
        called.append(list(argv))
        if works and len(called) == 1:
            host.carry_out(step)
        return 0, "", ""

    before = copy.deepcopy(host.seen)
    ACTIONS[step["action"]](run, before, step, lambda: host.seen, check)
    return called


@pytest.mark.parametrize("action", ACTIONS)
def test_the_commands(action):
    host, step = at(action)
    called = done(host, step)
    assert [words[: len(wanted)] for words, wanted in zip(called, COMMANDS[action])] == COMMANDS[action] and len(called) == len(COMMANDS[action])
    assert not any("--force" in words or "-f" in words for words in called)


@pytest.mark.parametrize("action", ACTIONS)
def test_check_mode_runs_none(action):
    host, step = at(action)
    assert done(host, step, check=True) == []


@pytest.mark.parametrize("action", ACTIONS)
def test_a_tool_that_does_nothing_and_says_that_it_has_is_found_out(action):
    host, step = at(action)
    with pytest.raises(PlumblineError):
        done(host, step, works=False)


@pytest.mark.parametrize("action", ACTIONS)
def test_a_tool_that_fails_is_told_in_its_words(action):
    host, step = at(action)
    with pytest.raises(PlumblineError, match="some words"):
        ACTIONS[action](lambda argv: (5, "", "some words\n"), host.seen, step, lambda: host.seen, False)


def _missing(host):
    pv = host.seen.lvm.pvs[0]
    host.seen.lvm = host.seen.lvm._replace(pvs=(pv._replace(devno=":"), *host.seen.lvm.pvs[1:]))


def _foreign(host):
    host.pv(host.part(host.disk(), 1 << 20), "pgdata")


def _hidden(host):
    pv = host.seen.lvm.pvs[0]
    host.seen.lvm = host.seen.lvm._replace(pvs=host.seen.lvm.pvs[1:])
    host.seen.hidden[pv.devno] = HiddenPv("pgdata", pv.uuid, (FILTER,))


@pytest.mark.parametrize("action", [action for action in ACTIONS if action != "grow_filesystem"])
@pytest.mark.parametrize("spoil, words", [(_missing, "or are missing"), (_foreign, "on no partition of the stack"), (_hidden, r"\[hidden\]")])
def test_lvm_has_to_list_just_our_pvs(action, spoil, words):
    host, step = at(action)
    spoil(host)
    with pytest.raises(PlumblineError, match=words) as refused:
        done(host, step)
    assert "wipe it" not in refused.value.msg.replace("do not wipe it", "") and "pvcreate" not in refused.value.msg


@pytest.mark.parametrize("action", ["grow_lv", "extend_vg"])
def test_what_is_taken_has_to_be_blank(action):
    host, step = at(action)
    devno = host.seen.led_to[step["pvs"][0]]
    host.seen.proofs[devno] = BlankProof(4096, 1, ("unrecognised data that is not zero, first at byte 0",), 0)
    with pytest.raises(PlumblineError) as refused:
        done(host, step)
    assert any("[data]" in reason or "[damaged]" in reason for reason in refused.value.reasons) and not any("wipe it " in one for one in refused.value.reasons)


@pytest.mark.parametrize("change", [{"size": 10 * GIB}, {"active": False}])
def test_a_volume_that_is_not_as_planned(change):
    host, step = at("grow_lv")
    host.seen.lvm = host.seen.lvm._replace(lvs=tuple(lv._replace(**change) for lv in host.seen.lvm.lvs))
    with pytest.raises(PlumblineError, match="was planned to grow from"):
        done(host, step)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"uuid": "another"}, "is not the one that was planned"),
        ({"blocks": 1 << 20}, "planned were"),
        ({"growable": GIB}, "is not grown to"),
    ],
)
def test_a_filesystem_that_is_not_as_planned(change, words):
    host, step = at("grow_filesystem")
    host.seen.filesystems = {devno: found._replace(**change) for devno, found in host.seen.filesystems.items()}
    with pytest.raises(PlumblineError, match=words):
        done(host, step)


@pytest.mark.parametrize(("more", "stale"), [(0, False), (-1, True), (3, True), (None, False)])
def test_a_mount_that_counts_other_groups_than_the_superblock_has(tmp_path, monkeypatch, more, stale):
    """As after a crash within an earlier growth: the kernel would stop (BUG_ON in setup_new_flex_group_blocks())."""
    host, step = at("grow_filesystem")
    volume = host.seen.lv_node("pgdata", "data")
    group = 128 << 20
    host.seen.filesystems[volume.devno] = found = host.seen.filesystems[volume.devno]._replace(group=group)
    monkeypatch.setattr(type(FILESYSTEMS["ext4"]), "groups_file", str(tmp_path) + "/%s")
    if more is not None:
        count = -(-found.blocks * found.block // group) + more
        (tmp_path / volume.name).write_text("#group: free\n" + "".join("#%d: 1\n" % number for number in range(count)))
    if not stale:
        assert done(host, step)[0][0] == "resize2fs"
        return
    called = []
    with pytest.raises(PlumblineError, match=r"counts other groups .* umount /dev/mapper/pgdata-data, and mount it again; nothing was changed"):
        grow_filesystem(lambda argv: called.append(argv) or (0, "", ""), host.seen, step, lambda: host.seen, False)
    assert called == []


def test_a_map_that_somebody_resumes_himself_is_left_alone(monkeypatch):
    host, step = at("refresh_lv")
    monkeypatch.setattr(change_group, "_is_resumed", lambda node: True)
    assert done(host, step) == []


def test_a_snapshot_with_the_same_uuid_is_not_taken_for_the_volume():
    host, step = at("grow_filesystem")
    volume = host.seen.lv_node("pgdata", "data")
    devno = host.mapped("pgdata-snap", volume.segments)
    host.seen.filesystems = {devno: host.seen.filesystems[volume.devno], **host.seen.filesystems}
    host.mount(devno, "/backup")
    called = []
    with pytest.raises(PlumblineError, match="wanted"):  # this tool does nothing
        grow_filesystem(lambda argv: called.append(argv) or (0, "", ""), host.seen, step, lambda: host.seen, False)
    assert called[0][:2] == ["resize2fs", "/dev/mapper/pgdata-data"]


def test_a_filesystem_that_is_not_mounted_for_writing():
    host, step = at("grow_filesystem")
    host.seen.mounts = [mount._replace(options=("ro",)) for mount in host.seen.mounts]
    with pytest.raises(PlumblineError, match="not mounted, or not for writing"):
        done(host, step)


def test_a_map_that_is_suspended_and_behind_is_refreshed_twice():
    """The first refresh resumes what was loaded before: the former map."""
    host, step = at("refresh_lv")
    volume, called = host.seen.lv_node("pgdata", "data"), []
    host.edit(volume.devno, size=volume.size - GIB)

    def run(argv):
        called.append(argv)
        host.edit(volume.devno, suspended=False, **({"size": volume.size} if len(called) == 2 else {}))
        return 0, "", ""

    change_group.refresh_volume(run, copy.deepcopy(host.seen), step, lambda: host.seen, False)
    assert len(called) == 2
