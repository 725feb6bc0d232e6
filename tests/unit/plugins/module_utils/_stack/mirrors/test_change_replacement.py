# SPDX-License-Identifier: GPL-3.0-or-later
"""How a replacement is watched: what md does meanwhile, look by look, and what becomes of the new member."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.md_array import SPARE, MdMember
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.mirrors import change_array, change_replacement, change_sync
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils._stack.mirrors.test_change_array import KINDS, Lab, names_of
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import spec
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.mirrored import MirrorHost

HALT = 1024
FILLS = ("spare", "replacement")


class Md:
    """The kernel: an array of four on a host in memory, and a fifth device that takes a place. Each look is one of a list of things that happen before it."""

    def __init__(self, monkeypatch, slot):
        self.host, self.slot, self.looks, self.compared, self.differ = MirrorHost(5), slot, [], [], iter([0, 0])
        names, disks = names_of(self.host), [node.devno for node in self.host.seen.nodes.values() if node.kind == "disk"]
        self.host.build(spec(self.host, disks[:4], mirror=True))
        wanted = [*names[:slot], names[4], *names[slot + 1 : 4]]
        plan = make_plan(spec(self.host, [], devices=wanted, mirror=True, replace={"SER000%d" % slot: "SER0004"}), self.host.seen)
        self.host.carry_out(plan.steps[0])
        self.lab = Lab(self.host, plan.steps[-1])
        self.lab.run = self.run
        monkeypatch.setattr(self.lab, "look", lambda: self.host.seen)
        parts = self.host.parts()
        self.old, self.new, self.partner = parts[slot], parts[4], parts[slot ^ 1]
        self.files = {"sync_action": "idle", "sync_max": "max"}
        for module in (change_array, change_sync):
            monkeypatch.setattr(module, "read_md_arrays", lambda: self.host.seen.md_arrays)
        monkeypatch.setattr(change_sync, "read_setting", lambda name, file: self.files.get(file, ""))
        monkeypatch.setattr(change_sync, "_write", self.write)
        monkeypatch.setattr(change_sync, "_entries", lambda name: [])
        monkeypatch.setattr(change_sync, "compare_members", self.compare)
        monkeypatch.setattr(change_sync, "wait_for_sync", self.wait)
        monkeypatch.setattr(change_sync, "wait_until_idle", lambda name: None)
        monkeypatch.setattr(change_array, "settle", lambda run: None)
        monkeypatch.setattr(change_array, "_PAUSE", 0)

    def member(self, devno):
        return change_sync.member_of(self.host.array, devno)

    def set(self, devno, **more):
        self.host.change(members=tuple(one._replace(**more) if one.devno == devno else one for one in self.host.array.members))

    def drop(self, devno):
        self.host.change(members=tuple(one for one in self.host.array.members if one.devno != devno))

    def write(self, name, file, value):
        self.lab.calls.append("%s %s" % (file, value))
        self.files[file] = "idle" if (file, value) == ("sync_action", "idle") else value

    def run(self, argv):
        self.lab.calls.append(" ".join(argv))
        path = {self.host.seen.nodes[devno].path: devno for devno in (self.old, self.new)}
        for word, does in (("--fail", lambda devno: self.set(devno, slot=-1, states=("faulty",))), ("--remove", self.drop)):
            if word in argv and "detached" not in argv:
                does(path[argv[argv.index(word) + 1]])
        if "--replace" in argv:
            self.begin()
        elif "--add-spare" in argv:
            self.host.change(members=(*self.host.array.members, MdMember(self.new, -1, ("spare",))))
        return (0, "", "")

    def begin(self):
        """md fills the new member beside the old one."""
        self.drop(self.new)
        self.host.change(members=(*self.host.array.members, MdMember(self.new, self.slot, FILLS)))

    def filled(self):
        """The new member has the place."""
        self.set(self.new, states=("in_sync",))
        self.set(self.old, slot=-1, states=("faulty",))
        self.host.superblock(self.new, self.lab.step["array"], self.slot, 4)

    def fails(self, devno):
        self.set(devno, slot=-1, states=("faulty",))

    def compare(self, name):
        self.compared.append(len(self.lab.calls))
        return next(self.differ)

    def wait(self, name, devno="", watch=None):
        """The looks; md is at its halt in the last of them, and goes to its end if it may."""
        for number, happens in enumerate([*self.looks, None]):
            if happens:
                happens()
            watch(self.host.array, self.member(self.new), HALT * 8 if number == len(self.looks) else 0)
        if self.files["sync_max"] == "max" and not self.member(self.new).in_sync:
            self.filled()

    def take(self):
        change_replacement.replace_member(self.lab.run, self.host.seen, self.lab.step, self.lab.look, False)
        return self.words()

    def words(self):
        kinds = (*KINDS, "--fail", "frozen", "idle", "max")
        return [next((word for word in call.split() if word in kinds), call.split()[0]) for call in self.lab.calls]


@pytest.fixture(params=[0, 1], ids=["first of a pair", "second of a pair"])
def md(monkeypatch, request):
    kernel = Md(monkeypatch, request.param)
    kernel.host.change(component=HALT * 512)
    kernel.lab.step = {**kernel.lab.step, "component_bytes": HALT * 512}
    return kernel


GIVEN_UP = ["sync_max", "--add-spare", "--replace", "frozen", "--fail", "--remove", "max", "idle"]


def source(md):
    """Whom md reads."""
    return md.old if md.slot == 0 else md.partner


def ends(md, words):
    with pytest.raises(PlumblineError, match=words) as told:
        md.take()
    assert md.words() == GIVEN_UP and md.member(md.new) is None
    return str(told.value)


def test_compared_watched_and_let_go(md):
    assert md.take() == ["sync_max", "--add-spare", "--replace", "max", "--remove", "--zero-superblock"]
    assert md.compared == [0]


def test_what_could_not_be_read_ends_it(md):
    md.looks = [lambda: None, lambda: md.set(source(md), errors=8)]
    text = ends(md, r"8 sectors of /dev/nvme0n1p1 could not be read .*run again: all members are compared before a copy")
    assert ("keep /dev/nvme1n1p1, which may have" in text) == (md.slot == 1) and ("--fail /dev/nvme0n1p1, and run again" in text) == (md.slot == 0)
    assert md.member(md.old).in_sync and md.member(md.partner).in_sync


def test_errors_of_whom_md_does_not_read_end_nothing(md):
    md.looks = [lambda: md.set(md.partner if md.slot == 0 else md.old, errors=8)]
    assert "--zero-superblock" in md.take()


def test_the_last_error_is_counted_before_it_is_let_go(md, monkeypatch):
    """Between the look at the members and the look at how far md is: they are looked at once more when it has halted."""
    kept = md.host.array

    def wait(name, devno="", watch=None):
        before = md.host.array
        md.set(source(md), errors=8)
        watch(before, md.member(md.new), HALT * 8)

    monkeypatch.setattr(change_sync, "wait_for_sync", wait)
    ends(md, "8 sectors of /dev/nvme0n1p1 could not be read")
    assert kept.disks == 4


@pytest.mark.parametrize("who", ["old", "partner"])
@pytest.mark.parametrize("leaves", [False, True], ids=["failed", "gone"])
def test_one_of_the_pair_is_lost_meanwhile(md, who, leaves):
    """What was read of it at that moment may be left out, and nothing counts that when it has gone. If the old one is lost, md goes on with the new one."""
    lost = getattr(md, who)

    def happens():
        md.fails(lost)
        if leaves:
            md.drop(lost)
        if who == "old":
            md.set(md.new, states=("spare",))

    md.looks = [happens]
    ends(md, "one of the pair has failed as /dev/nvme")
    assert not any("zero-superblock" in call for call in md.lab.calls)


def test_an_error_behind_the_halt(md, monkeypatch):
    """md has given the place away by then. The old one stays, and so does its superblock."""
    let_go, write = md.filled, md.write

    def wrote(name, file, value):
        write(name, file, value)
        if (file, value) == ("sync_max", "max"):
            let_go()
            md.set(source(md), errors=8)

    monkeypatch.setattr(change_sync, "_write", wrote)
    with pytest.raises(PlumblineError, match=r"may lack .* 8 sectors could not be read at the end of the copy; nothing was erased; keep /dev/nvme"):
        md.take()
    assert not any(word in call for call in md.lab.calls for word in ("--remove", "zero-superblock"))


@pytest.mark.parametrize(
    ("change", "differ", "words"),
    [
        ({}, 0, ""),
        ({}, 128, "128 sectors differ between the members, 0 could not be read"),
        ({"errors": 8}, 0, "8 could not be read"),
        ({"bad": 1}, 0, "1 ranges are noted as bad"),
    ],
)
def test_a_replacement_that_ended_unwatched(md, change, differ, words):
    """It is compared, unless a comparison could not say it: md leaves out what is noted as bad, and writes over what it cannot read."""
    md.host.change(members=(*md.host.array.members, MdMember(md.new, md.slot, FILLS)))
    md.filled()
    md.set(md.partner, **change)
    md.differ = iter([differ])
    if not words:
        assert md.take() == ["--remove", "--zero-superblock"] and len(md.compared) == 1
        return
    with pytest.raises(PlumblineError, match=words + r".*nothing was erased; keep /dev/nvme\dn1p1, .* --fail /dev/nvme4n1p1, and the same run again"):
        md.take()
    assert md.words() == [] and len(md.compared) == (not change)


def test_a_copy_with_our_halt_goes_on(md):
    """A run was killed: what it began is watched further."""
    md.begin()
    md.files.update(sync_max=str(HALT - 128), sync_action="recover")
    assert md.take() == ["max", "--remove", "--zero-superblock"] and md.compared == []


@pytest.mark.parametrize("who", ["old", "partner"])
def test_a_copy_with_our_halt_whose_pair_was_lost(md, who):
    md.begin()
    md.files.update(sync_max=str(HALT - 128), sync_action="recover")
    md.fails(getattr(md, who))
    with pytest.raises(PlumblineError, match="one of the pair has failed"):
        md.take()
    assert md.words() == ["frozen", "--fail", "--remove", "max", "idle"]


def test_a_copy_that_nobody_has_watched_is_begun_anew(md):
    """By hand, or after a boot."""
    md.begin()
    md.files["sync_action"] = "recover"
    words = md.take()
    assert words == ["frozen", "--fail", "--remove", "idle", "sync_max", "--add-spare", "--replace", "max", "--remove", "--zero-superblock"]
    assert md.compared == [4]


def test_a_run_that_was_killed_between_the_halt_and_the_copy(md, monkeypatch):
    """The spare is in, and whatever md does would halt: it would be waited for without end."""
    md.host.change(members=(*md.host.array.members, MdMember(md.new, -1, ("spare",))))
    md.files["sync_max"] = str(HALT - 128)
    halts = []
    monkeypatch.setattr(change_sync, "wait_until_idle", lambda name: halts.append(md.files["sync_max"]))
    assert md.take() == ["max", "--remove", "sync_max", "--add-spare", "--replace", "max", "--remove", "--zero-superblock"]
    assert halts == ["max"]


@pytest.mark.parametrize("states", [("in_sync",), ("in_sync", "replacement")], ids=["", "the old one was just put out"])
def test_it_has_ended_as_it_is_to_be_given_up(md, monkeypatch, states):
    """Nothing that is in use is taken out."""
    md.begin()
    md.files["sync_action"] = "recover"

    def stop(name):
        md.filled()
        md.set(md.new, states=states)

    monkeypatch.setattr(change_sync, "stop_copying", stop)
    waited = md.wait
    monkeypatch.setattr(change_sync, "wait_for_sync", lambda *args: (waited(*args), md.filled()))
    assert md.take() == ["idle", "idle", "--remove", "--zero-superblock"] and len(md.compared) == 1


def test_the_array_is_let_go_where_nothing_is_filled(md, monkeypatch):
    """The new SSD fails, or cannot be added: no later copy and no comparison halts."""

    def wait(name, devno="", watch=None):
        md.fails(md.new)
        raise PlumblineError("the new member failed")

    monkeypatch.setattr(change_sync, "wait_for_sync", wait)
    with pytest.raises(PlumblineError, match="the new member failed"):
        md.take()
    assert md.files["sync_max"] == "max"


def test_removal_is_tried_until_no_request_is_under_way(md, monkeypatch):
    md.looks = [lambda: md.set(source(md), errors=8)]
    tries, run = [], md.run

    def busy(argv):
        if "--remove" in argv and len(tries) < 3:
            tries.append(argv)
            return (1, "", "Device or resource busy")
        return run(argv)

    md.lab.run = busy
    ends(md, "8 sectors")
    assert len(tries) == 3


def test_what_cannot_be_removed_leaves_no_array_frozen(md, monkeypatch):
    md.looks = [lambda: md.set(source(md), errors=8)]
    run = md.run
    md.lab.run = lambda argv: (1, "", "busy") if "--remove" in argv else run(argv)
    with pytest.raises(PlumblineError, match="has failed, and could not be taken out of the array"):
        md.take()
    assert md.words()[-1] in ("idle", "max") and md.files == {"sync_action": "idle", "sync_max": "max"}


def adding(md):
    """The step by which the fifth device gets the place of one that has gone."""
    md.fails(md.old)
    md.drop(md.old)
    md.host.superblock(md.new, md.lab.step["array"], SPARE, 4)
    return {**md.lab.step, "action": "mirror_add", "old": "", "own_place": False}


@pytest.fixture
def waited(monkeypatch):
    """What waits for a plain fill."""
    return lambda does: monkeypatch.setattr(change_array, "wait_for_sync", lambda name, devno="", watch=None: does())


@pytest.mark.parametrize("unplugged", [False, True], ids=["", "another device is gone without a word to md"])
def test_what_was_to_be_a_replacement_is_filled_anew_where_the_old_one_has_gone(md, waited, unplugged):
    """md goes on with it as an ordinary member, and does not do again what it has left out."""
    step = adding(md)
    if unplugged:
        md.host.change(members=(*md.host.array.members, MdMember("", 7, FILLS)))
    md.begin()
    md.set(md.new, states=("spare",))
    md.files.update(sync_max=str(HALT - 128), sync_action="recover")

    def filled():
        md.host.change(members=(*md.host.array.members, MdMember(md.new, md.slot, ("in_sync",))))
        md.host.superblock(md.new, step["array"], md.slot, 4)

    waited(filled)
    change_array.add_member(md.lab.run, md.host.seen, step, md.lab.look, False)
    forgotten = ["--fail"] if unplugged else []  # detached
    assert md.words() == ["frozen", "--fail", "--remove", "max", "idle", *forgotten, "--zero-superblock", "--add"]


@pytest.mark.parametrize("differ", [0, 64])
def test_a_member_that_was_being_filled_is_compared(md, waited, differ):
    """After a boot nothing tells what was to be a replacement from another."""
    step = adding(md)
    md.begin()
    md.set(md.new, states=("spare",))
    md.differ = iter([differ])
    waited(lambda: (md.set(md.new, states=("in_sync",)), md.host.superblock(md.new, step["array"], md.slot, 4)))
    if differ:
        with pytest.raises(PlumblineError, match="64 sectors differ"):
            change_array.add_member(md.lab.run, md.host.seen, step, md.lab.look, False)
    else:
        change_array.add_member(md.lab.run, md.host.seen, step, md.lab.look, False)
    assert md.words() == [] and len(md.compared) == 1
