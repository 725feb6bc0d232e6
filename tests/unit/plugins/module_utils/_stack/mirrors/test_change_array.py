# SPDX-License-Identifier: GPL-3.0-or-later
"""The module that changes the array of a mirrored stack: what it calls, and what it refuses before it calls anything."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.device_links import BY_GUID
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import BlankProof
from ansible_collections.plumbline.ssd.plugins.module_utils._block.md_array import FAULTY, SPARE, MdMember
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.mirrors import change_array, change_replacement, change_sync
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.volumes.standing_disks import check_standing
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, MIB, spec
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.mirrored import MirrorHost


class Lab:
    """A host in memory, a plan's step for its array, and the commands that were run for it."""

    def __init__(self, host, step, codes=()):
        self.host, self.step, self.calls, self.codes = host, step, [], dict(codes)
        self.link()

    def link(self):
        seen = self.host.seen
        for disk, table in seen.tables.items():
            for entry in table.entries if table else ():
                part = next((node.devno for node in seen.nodes.values() if node.parent == disk), None)
                if part:
                    seen.led_to[BY_GUID + entry.guid.lower()] = part

    def run(self, argv):
        self.calls.append(" ".join(argv))
        return (next((code for word, code in self.codes.items() if word in self.calls[-1]), 0), "", "no")

    def take(self, check=False):
        name = {"mirror_create": "create_array", "mirror_add": "add_member", "mirror_replace": "replace_member", "mirror_grow": "grow_array"}
        check_standing(self.host.seen, self.step)
        module = change_replacement if self.step["action"] == "mirror_replace" else change_array
        getattr(module, name[self.step["action"]])(self.run, self.host.seen, self.step, self.look, check)
        return self.calls

    def look(self):
        if self.step["action"] != "mirror_create" or not self.host.seen.md_arrays:
            self.host.carry_out(self.step)
        return self.host.seen


@pytest.fixture(autouse=True)
def written(monkeypatch):
    """md does nothing of its own, and halts nowhere. What is written to its files, and after how many commands."""
    for module in (change_array, change_sync):
        monkeypatch.setattr(module, "wait_for_sync", lambda name, devno="", watch=None: None)
    monkeypatch.setattr(change_sync, "read_setting", lambda name, file: "idle" if file == "sync_action" else "")
    monkeypatch.setattr(change_sync, "compare_members", lambda name: 0)
    monkeypatch.setattr(change_sync, "wait_until_idle", lambda name: None)
    monkeypatch.setattr(change_sync, "_entries", lambda name: [])
    monkeypatch.setattr(change_array, "settle", lambda run: None)
    monkeypatch.setattr(change_array, "_PAUSE", 0)
    files = []
    monkeypatch.setattr(change_sync, "_write", lambda name, file, value: files.append((file, value)))
    return files


@pytest.fixture
def arrays(monkeypatch):
    """The kernel's arrays are those of this host."""

    def of(host):
        for module in (change_array, change_sync):
            monkeypatch.setattr(module, "read_md_arrays", lambda: host.seen.md_arrays)

    return of


def waiting(monkeypatch, wait):
    """What happens while a member is filled."""
    for module in (change_array, change_sync):
        monkeypatch.setattr(module, "wait_for_sync", wait)


def names_of(host):
    return [host.name(node.devno) for node in host.seen.nodes.values() if node.kind == "disk"]


def fresh(limit=1):
    host = MirrorHost(4)
    stacks = spec(host, mirror=True)
    host.build(stacks, limit=limit)
    return Lab(host, next(step for step in make_plan(stacks, host.seen).steps if step["action"] == "mirror_create"))


def replacing(gone=False, replace=None, back=None):
    """A stack that stands, and a step by which a fifth device takes the place of the second; or the second its own."""
    host = MirrorHost(5)
    names, disks = names_of(host), [node.devno for node in host.seen.nodes.values() if node.kind == "disk"]
    host.build(spec(host, disks[:4], mirror=True))
    if gone:
        host.pull(disks[1])
    if back is not None:
        host.bring_back(disks[1], **back)
    wanted = names[:4] if replace else [names[0], names[4], *names[2:4]]
    stacks = spec(host, [], devices=wanted, mirror=True, replace=replace or {"SER0001": "SER0004"})
    plan = make_plan(stacks, host.seen)
    assert not plan.refusals, plan.refusals
    for step in plan.steps:
        if step["action"] == "partition":
            host.carry_out(step)
    return Lab(host, plan.steps[-1])


# --- made ------------------------------------------------------------------------------------------


def test_an_array_is_made(arrays, monkeypatch):
    lab = fresh()
    arrays(lab.host)
    monkeypatch.setattr(change_array, "_appeared", lambda run, devno: (lab.host.carry_out(lab.step), lab.host.array)[1])
    (create,) = lab.take()
    parts = " ".join(lab.host.seen.nodes[part].path for part in lab.host.parts())
    assert create.startswith("/sbin/mdadm --create /dev/md/pgdata --run --level=10 --layout=n2 --raid-devices=4 --chunk=64 --metadata=1.2 --data-offset=1024K")
    assert create.endswith("--bitmap=internal --bitmap-chunk=64M --homehost=any --name=pgdata --uuid=%s %s" % (lab.step["array"], parts))


def test_members_that_read_as_zeros_are_not_copied(arrays, monkeypatch):
    lab = fresh()
    arrays(lab.host)
    lab.step["assume_clean"] = True
    monkeypatch.setattr(change_array, "_appeared", lambda run, devno: (lab.host.carry_out(lab.step), lab.host.array)[1])
    assert " --assume-clean " in lab.take()[0]


def test_an_array_that_was_begun_is_taken_down_first(arrays, monkeypatch):
    lab = fresh()
    part = lab.host.parts()[0]
    lab.host.superblock(part, lab.step["array"], 0, 4)
    stopped = change_array.MdArray("md126", "9:126", "inactive", "", 0, 0, 0, 0, (MdMember(part, -1),))
    lab.host.seen.md_arrays = [stopped]

    def appeared(run, devno):
        lab.host.seen.md_arrays = []
        lab.host.carry_out(lab.step)
        return lab.host.array

    monkeypatch.setattr(change_array, "_appeared", appeared)
    assert [call.split()[1] for call in lab.take()] == ["--stop", "--create"]


@pytest.mark.parametrize("what", ["runs", "foreign", "data", "unproven", "content"])
def test_what_is_not_made_into_an_array(what):
    lab = fresh()
    part, seen = lab.host.parts()[1], lab.host.seen
    if what == "runs":
        lab.host.carry_out(lab.step)
    elif what == "foreign":
        lab.host.superblock(part, "1:2:3:4", 0, 4)
    elif what in ("data", "unproven"):
        lab.host.superblock(part, lab.step["array"], 1, 4)
        seen.proofs[part] = BlankProof(4096, 1, ("data",), MIB)
        if what == "unproven":
            del seen.proofs[part]
    else:
        lab.host.holds_data(part)
    with pytest.raises(PlumblineError, match="nothing was changed"):
        lab.take()
    assert lab.calls == []


def test_check_mode_makes_nothing():
    assert fresh().take(check=True) == []


# --- members ---------------------------------------------------------------------------------------


def test_a_new_member(arrays):
    lab = replacing(gone=True)
    arrays(lab.host)
    assert lab.step["action"] == "mirror_add"
    assert lab.take(check=True) == []
    (add,) = lab.take()
    assert add.startswith("/sbin/mdadm --manage /dev/md127 --add /dev/nvme4n1p1")


def test_two_places_are_filled_one_after_the_other(arrays):
    host = MirrorHost(6)
    names, disks = names_of(host), [node.devno for node in host.seen.nodes.values() if node.kind == "disk"]
    host.build(spec(host, disks[:4], mirror=True))
    host.pull(disks[1])
    host.pull(disks[2])
    wanted = [names[0], names[4], names[5], names[3]]
    plan = make_plan(spec(host, [], devices=wanted, mirror=True, replace={"SER0001": "SER0004", "SER0002": "SER0005"}), host.seen)
    assert [step["action"] for step in plan.steps] == ["partition", "mirror_add", "mirror_add"], plan.refusals
    host.carry_out(plan.steps[0])
    arrays(host)
    for step in plan.steps[1:]:
        assert len(Lab(host, step).take()) == 1
    assert host.array.missing == ()


def test_a_lost_member_is_forgotten_first(arrays):
    lab = replacing(gone=True)
    arrays(lab.host)
    lab.host.change(members=(*lab.host.array.members, MdMember("259:99", -1, ("faulty",))))
    assert [call.split()[3:] for call in lab.take()[:2]] == [["--remove", "failed"], ["--fail", "detached", "--remove", "detached"]]


KINDS = ("--re-add", "--remove", "--zero-superblock", "--add", "--add-spare", "--replace")


@pytest.mark.parametrize(("code", "calls"), [(0, ["--re-add"]), (1, ["--re-add", "--zero-superblock", "--add"])])
def test_a_member_that_was_away(arrays, code, calls):
    lab = replacing(gone=True, replace={"SER0001": "SER0001"}, back={})
    lab.codes = {"--re-add": code}
    arrays(lab.host)
    assert [next(word for word in call.split() if word in KINDS) for call in lab.take()] == calls


def test_a_member_that_had_failed_and_is_in_order_again(arrays):
    host = MirrorHost(4)
    host.build(spec(host, mirror=True))
    first, *others = host.array.members
    host.change(members=(first._replace(slot=-1, states=("faulty",)), *others))
    host.set_events(40)
    (step,) = make_plan(spec(host, mirror=True, replace={"SER0000": "SER0000"}), host.seen).steps
    lab = Lab(host, step)
    arrays(host)
    assert [call.split()[3] for call in lab.take()] == ["--remove", "--re-add"]


@pytest.mark.parametrize("change", [{"events": 99}, {"roles": (0, 1, FAULTY, 3)}, {"uuid": "1:2:3:4"}])
def test_a_member_that_was_run_apart_is_not_taken_back(arrays, change):
    lab = replacing(gone=True, replace={"SER0001": "SER0001"}, back={})
    arrays(lab.host)
    part = next(part for part in lab.host.parts() if not lab.host.seen.array_over(part) and part in lab.host.seen.md_superblocks)
    lab.host.seen.md_superblocks[part] = lab.host.seen.md_superblocks[part]._replace(**change)
    with pytest.raises(PlumblineError, match="nothing was changed"):
        lab.take()
    assert lab.calls == []


def test_what_is_no_blank_partition_does_not_join(arrays):
    for lab in (replacing(gone=True), replacing()):
        arrays(lab.host)
        lab.host.holds_data(next(part for part in lab.host.parts() if not lab.host.seen.array_over(part)))
        with pytest.raises(PlumblineError, match="holds something; nothing was changed"):
            lab.take()
        assert lab.calls == []


def test_a_member_is_replaced(arrays, monkeypatch):
    lab = replacing()
    arrays(lab.host)
    assert lab.step["action"] == "mirror_replace" and lab.take(check=True) == []
    old, new = lab.host.parts()[1], lab.host.parts()[4]

    def ended(name, devno="", watch=None):
        lab.host._join(new, 1)
        lab.host.change(members=(*lab.host.array.members, MdMember(old, -1, ("faulty",))))

    waiting(monkeypatch, ended)
    monkeypatch.setattr(lab, "look", lambda: lab.host.seen)
    words = [call.split()[1:] for call in lab.take()]
    at = ["--manage", "/dev/md127"]
    assert words == [
        [*at, "--add-spare", "/dev/nvme4n1p1"],
        [*at, "--replace", "/dev/nvme1n1p1", "--with", "/dev/nvme4n1p1"],
        [*at, "--remove", "/dev/nvme1n1p1"],
        ["--zero-superblock", "/dev/nvme1n1p1"],
    ]


def spare_in(lab):
    """The new device is in the array and has no place: an earlier run added it, and md has filled nothing, or has ended that."""
    new = lab.host.parts()[-1]
    lab.host.superblock(new, lab.step["array"], SPARE, 40)
    lab.host.set_events(40)
    lab.host.change(members=(*lab.host.array.members, MdMember(new, -1, ("spare",))))
    return new


def filled_in(lab, monkeypatch, new):
    """While it is waited for, the new device gets the second place."""

    def ended(name, devno="", watch=None):
        lab.host._drop(new)
        lab.host._join(new, 1)

    waiting(monkeypatch, ended)
    monkeypatch.setattr(lab, "look", lambda: lab.host.seen)


def test_a_copy_that_was_ended_begins_anew_with_the_spare(arrays, monkeypatch):
    """md does not try it again before a member comes anew, bind_rdev_to_array()."""
    lab = replacing()
    arrays(lab.host)
    filled_in(lab, monkeypatch, spare_in(lab))
    assert lab.take(check=True) == []
    assert [call.split()[3:5] for call in lab.take()[:3]] == [
        ["--remove", "/dev/nvme4n1p1"],
        ["--add-spare", "/dev/nvme4n1p1"],
        ["--replace", "/dev/nvme1n1p1"],
    ]
    lab = replacing(gone=True)
    arrays(lab.host)
    filled_in(lab, monkeypatch, spare_in(lab))
    assert lab.take(check=True) == []
    assert [next(word for word in call.split() if word in KINDS) for call in lab.take()] == ["--remove", "--zero-superblock", "--add"]


def test_a_spare_does_not_come_anew_while_another_place_is_empty(arrays):
    lab = replacing()
    arrays(lab.host)
    spare_in(lab)
    lab.host._drop(lab.host.parts()[3])
    with pytest.raises(PlumblineError, match="is not replaced: 1 of 4 members"):
        lab.take()
    assert lab.calls == []


@pytest.mark.parametrize("gets_it", [True, False])
def test_md_ends_what_it_does_before_a_spare_comes_anew(arrays, monkeypatch, gets_it):
    """A check may be under way, and md gives the spare its place behind it."""
    lab, waited = replacing(), []
    arrays(lab.host)
    new = spare_in(lab)
    filled_in(lab, monkeypatch, new)
    monkeypatch.setattr(change_sync, "read_setting", lambda name, file: "check" if file == "sync_action" else "")

    def wait(name):
        waited.append(len(lab.calls))
        if gets_it:
            lab.host._drop(new)
            lab.host._join(new, 1)

    monkeypatch.setattr(change_sync, "wait_until_idle", wait)
    words = [next(word for word in call.split() if word in KINDS) for call in lab.take()]
    assert waited == [0] and words == ([] if gets_it else ["--remove", "--add-spare", "--replace"]) + ["--zero-superblock"]


@pytest.mark.parametrize("what", ["missing", "another place"])
def test_a_member_is_replaced_in_its_own_place(arrays, what):
    lab = replacing()
    arrays(lab.host)
    if what == "missing":
        lab.host._drop(lab.host.parts()[3])
    else:
        part = lab.host.parts()[4]
        lab.host.change(members=(*lab.host.array.members[:3], MdMember(part, 3, ("in_sync",))))
        lab.host.superblock(part, lab.step["array"], 3, 4)
    with pytest.raises(PlumblineError, match="nothing was changed"):
        lab.take()
    assert lab.calls == []


def test_a_spare_that_was_taken_for_another_member(arrays, monkeypatch):
    """Another member fails between two commands: the kernel puts the spare into its place. What was to be replaced stays as it is."""
    lab = replacing()
    arrays(lab.host)
    new = lab.host.parts()[4]
    waiting(monkeypatch, lambda name, devno="", watch=None: lab.host._join(new, 3))
    with pytest.raises(PlumblineError, match=r"has got place 3 of the array .* and not place 1 of /dev/nvme1n1p1"):
        lab.take()
    assert not any("--remove" in call or "--zero-superblock" in call for call in lab.calls)


@pytest.mark.parametrize("gone", [True, False])
def test_a_member_that_was_filled_but_for_bad_blocks(arrays, monkeypatch, gone):
    """The old one may be the only one that has them: its superblock is kept."""
    lab = replacing(gone=gone)
    arrays(lab.host)
    new = lab.host.parts()[-1]

    def ended(name, devno="", watch=None):
        lab.host._join(new, 1)
        lab.host.change(members=tuple(member._replace(bad=2 if member.devno == new else 0) for member in lab.host.array.members))

    waiting(monkeypatch, ended)
    with pytest.raises(PlumblineError, match=r"was filled, but for 2 ranges that could not be read .* nothing was erased"):
        lab.take()
    assert not any("--remove" in call or "--zero-superblock" in call for call in lab.calls)


def test_a_partition_on_another_disk_than_the_planned_one(arrays):
    """udev leads to a copy: it has the same GUIDs."""
    lab = replacing()
    arrays(lab.host)
    parts = lab.host.parts()
    lab.host.seen.led_to[BY_GUID + lab.step["old"].lower()] = parts[0]
    with pytest.raises(PlumblineError, match=r"one disk is a copy of the other; .*nothing was changed"):
        lab.take()
    assert lab.calls == []


def test_what_is_replaced_is_a_member(arrays):
    lab = replacing()
    arrays(lab.host)
    old = lab.host.parts()[1]
    lab.host._drop(old)
    lab.host.seen.md_superblocks[old] = lab.host.seen.md_superblocks[old]._replace(events=99)
    with pytest.raises(PlumblineError, match="nor an older one"):
        lab.take()
    assert lab.calls == []


def test_nothing_is_added_to_an_array_that_has_lost_a_pair(arrays):
    """--zero-superblock would take away what mdadm --add goes by when it refuses this."""
    lab = replacing(gone=True, replace={"SER0001": "SER0001"}, back={})
    arrays(lab.host)
    lab.codes = {"--re-add": 1}
    lab.host.change(members=tuple(member for member in lab.host.array.members if member.slot > 1))
    with pytest.raises(PlumblineError, match=r"has failed .*no member holds the places 0, 1; nothing was changed"):
        lab.take()
    assert lab.calls == []


@pytest.mark.parametrize("change", [{"level": "raid1"}, {"chunk": 4096}, {"state": "inactive"}, {"disks": 6}])
def test_another_array_than_was_planned(arrays, change):
    lab = replacing(gone=True)
    arrays(lab.host)
    lab.host.change(**change)
    with pytest.raises(PlumblineError, match="nothing was changed"):
        lab.take()
    assert lab.calls == []


# --- grown -----------------------------------------------------------------------------------------


def growing():
    host = MirrorHost(4)
    host.build(spec(host, mirror=True))
    for node in [node for node in host.seen.nodes.values() if node.kind == "disk"]:
        host.resize(node.devno, 150 * GIB)
    partitions, grow, *_rest = make_plan(spec(host, mirror=True, grow=True), host.seen).steps
    host.carry_out(partitions)
    return Lab(host, {**grow, "disks": [{**disk, "size_bytes": 150 * GIB} for disk in grow["disks"]]})


def test_an_array_grows(arrays):
    lab = growing()
    arrays(lab.host)
    assert lab.take(check=True) == []
    assert lab.take() == ["/sbin/mdadm --grow /dev/md127 --size=%d" % (lab.step["component_bytes"] // 1024)]


@pytest.mark.parametrize("what", ["missing", "short"])
def test_an_array_that_does_not_grow(arrays, what):
    lab = growing()
    arrays(lab.host)
    if what == "missing":
        lab.host._drop(lab.host.parts()[0])
    else:
        lab.host.edit(lab.host.parts()[0], size=90 * GIB)
    with pytest.raises(PlumblineError, match="is not grown"):
        lab.take()
    assert lab.calls == []


def test_what_was_done_is_read_back(arrays):
    lab = growing()
    arrays(lab.host)
    with pytest.raises(PlumblineError, match="and 4 of its 4 members are in sync; wanted"):
        change_array.grow_array(lab.run, lab.host.seen, lab.step, lambda: lab.host.seen, False)


def test_without_the_tool(arrays):
    lab = growing()
    arrays(lab.host)
    lab.host.seen.tools = {}
    with pytest.raises(PlumblineError, match="install mdadm"):
        lab.take()
