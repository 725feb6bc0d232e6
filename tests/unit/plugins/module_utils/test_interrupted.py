# SPDX-License-Identifier: GPL-3.0-or-later
"""A build on a host in memory that ends anywhere, between steps and within them: what is left is planned, and nothing else, to the same end."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import Host, spec

VOLUMES = {
    "one": [{"name": "data", "mount": "/a"}],
    "three": [{"name": name, "size": "30%", "mount": "/" + name} for name in ("a", "b", "c")],
    "each": [{"name": "data", "mount": "/a"}, {"name": "wal", "mount": "/b"}],
}
by_layout = pytest.mark.parametrize("layout", VOLUMES)


def fresh(layout):
    """Two blank disks, one that is in no spec, and the stack."""
    host = Host()
    legs = host.pair()
    host.disk()
    more = {"layout": "separate"} if layout == "each" else {}
    return host, spec(host, legs, volumes=VOLUMES[layout], **more)


def summaries(host, stacks):
    """What is left to be done."""
    plan = make_plan(stacks, host.seen)
    assert not plan.refusals, plan.refusals
    return [step["summary"] for step in plan.steps]


def end_of(host):
    """What stands, without what an order of things could change."""
    seen = host.seen
    return (
        {devno: table for devno, table in seen.tables.items() if table},
        sorted(seen.lvm.pvs),
        sorted(seen.lvm.vgs),
        sorted(seen.lvm.lvs),
        sorted((seen.nodes[devno].title or seen.nodes[devno].name, found) for devno, found in seen.filesystems.items()),
        sorted((mount.target, mount.options) for mount in seen.mounts),
        sorted(seen.fstab),
        seen.drop_ins,
    )


def undisturbed(layout):
    """What a build that nothing ends makes."""
    host, stacks = fresh(layout)
    host.build(stacks)
    return end_of(host)


@by_layout
def test_every_boundary(layout):
    host, stacks = fresh(layout)
    whole = summaries(host, stacks)
    for done in range(len(whole) + 1):
        host, stacks = fresh(layout)
        host.build(stacks, limit=done)
        assert summaries(host, stacks) == whole[done:]
        host.build(stacks)
        assert summaries(host, stacks) == [] and end_of(host) == undisturbed(layout)


@by_layout
def test_every_boundary_one_after_the_other(layout):
    """Each step is the only one of its run."""
    host, stacks = fresh(layout)
    for _run in summaries(host, stacks):
        host.build(stacks, limit=1)
    assert summaries(host, stacks) == [] and end_of(host) == undisturbed(layout)


def parts(step):
    """A step as the smaller ones that it is carried out by."""
    if step["action"] == "partition":
        return [dict(step, devices=[device]) for device in step["devices"]]
    if step["action"] == "mount":
        empty = dict(step, mounts=[], drop_ins={}, enable_fstrim_timer=False, accepted=[])
        return [dict(empty, mounts=[mount]) for mount in step["mounts"]] + [dict(empty, drop_ins=step["drop_ins"])]
    return [step]


@by_layout
def test_within_a_step(layout):
    """Some devices have their table, some volumes are mounted: any of them, in any number."""
    host, stacks = fresh(layout)
    steps = make_plan(stacks, host.seen).steps
    for at, step in enumerate(steps):
        pieces = parts(step)
        for count in range(len(pieces)):
            for kept in itertools.combinations(range(len(pieces)), count):
                host, stacks = fresh(layout)
                host.build(stacks, limit=at)
                for number in kept:
                    host.carry_out(pieces[number])
                host.build(stacks)
                assert summaries(host, stacks) == [], (step["summary"], kept)
                # The order in which tables came does not show; that of the lines of fstab and of mounts is theirs.
                assert end_of(host) == undisturbed(layout), (step["summary"], kept)


@pytest.mark.parametrize("members", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("layout", ["one", "three"])
def test_pvs_without_their_group(layout, members):
    host, stacks = fresh(layout)
    host.build(stacks, limit=1)
    nodes = [node.devno for node in host.seen.nodes.values() if node.kind == "part"]
    for number in members:
        host.pv(nodes[number], "", extents=0)
    host.build(stacks)
    assert summaries(host, stacks) == [] and end_of(host) == undisturbed(layout)


@pytest.mark.parametrize("layout", ["one", "three"])
def test_volumes_that_were_not_activated(layout):
    """Each lvcreate is killed between its metadata and its activation; and a whole stack is found inactive, with all that is on it."""
    host, stacks = fresh(layout)
    for _run in range(20):
        steps = make_plan(stacks, host.seen).steps
        host.build(stacks, limit=1)
        if steps and steps[0]["action"] == "logical_volume" and not steps[0]["unfinished"]:
            host.deactivate("pgdata", steps[0]["lv"])
    assert summaries(host, stacks) == [] and end_of(host) == undisturbed(layout)
    host, stacks = fresh(layout)
    host.build(stacks, limit=2 + len(VOLUMES[layout]) + 1)
    for volume in VOLUMES[layout]:
        host.deactivate("pgdata", volume["name"])
    assert {line.split(" ")[0] for line in summaries(host, stacks)} == {"activate"}
    host.build(stacks)
    host.build(stacks)
    assert summaries(host, stacks) == [] and end_of(host) == undisturbed(layout)


@by_layout
def test_the_disk_in_no_spec_is_in_no_step(layout):
    host, stacks = fresh(layout)
    bystander = [node for node in host.seen.nodes.values() if node.kind == "disk"][2]
    assert bystander.path not in str(make_plan(stacks, host.seen).steps)
