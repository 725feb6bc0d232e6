# SPDX-License-Identifier: GPL-3.0-or-later
"""PVs that LVM does not list: what hides them is found by asking it without, and nothing is called hidden that LVM does not know either way."""

from __future__ import annotations

import json

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Signature
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_hidden_pvs import DEVICES_FILE, FILTER, read_hidden_pvs
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.static_proof import tops, view
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_spec import read_stacks
from ansible_collections.plumbline.ssd.plugins.plugin_utils.stack_table import view_report
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import Host

LABEL = [Signature("LVM2_member", "raid", 536, "UUID", "")]


class Lvm:
    """LVM of a host that keeps itself from devices by these means; *knows* are the PVs that it would list."""

    def __init__(self, seen, knows, means):
        self.seen, self.knows, self.means, self.calls = seen, knows, set(means), []

    def __call__(self, argv):
        config = argv[argv.index("--config") + 1]
        self.calls.append(config)
        without = {DEVICES_FILE} if "use_devicesfile=0" in config else set()
        without |= {FILTER} if 'global_filter=["a|.*|"]' in config and ' filter=["a|.*|"]' in config else set()
        row = {"pv_uuid": "UUID", "vg_name": "pg", "pe_start": "1048576", "pv_pe_count": "10"}
        pvs = [] if self.means - without else [
            {**row, "pv_name": self.seen.nodes[devno].path, "pv_major": devno.split(":")[0], "pv_minor": devno.split(":")[1]} for devno in self.knows
        ]  # fmt: skip
        group = {"vg_name": "pg", "vg_extent_size": "4194304", "vg_extent_count": "10", "vg_free_count": "0"}
        return 0, json.dumps({"report": [{"vg": [group], "pv": pvs, "lv": [], "seg": [], "pvseg": []}]}), ""


@pytest.mark.parametrize(
    ("means", "by", "calls"),
    [((DEVICES_FILE,), (DEVICES_FILE,), 3), ((FILTER,), (FILTER,), 3), ((DEVICES_FILE, FILTER), (DEVICES_FILE, FILTER), 3)],
)
def test_what_hides_a_pv_is_found(means, by, calls):
    host = Host()
    disk = host.disk()
    host.seen.signatures[disk] = LABEL
    lvm = Lvm(host.seen, [disk], means)
    read_hidden_pvs(lvm, host.seen, [disk])
    assert host.seen.hidden[disk].by == by and host.seen.hidden[disk].vg == "pg" and len(lvm.calls) == calls
    words = host.seen.hidden[disk].remedy("/dev/x")
    assert ("lvmdevices --adddev /dev/x" in words) is (DEVICES_FILE in by) and ("global_filter" in words) is (FILTER in by)


def test_damage_is_not_hidden():
    """A label that LVM does not take either way."""
    host = Host()
    disk = host.disk()
    host.seen.signatures[disk] = LABEL
    lvm = Lvm(host.seen, [], ())
    read_hidden_pvs(lvm, host.seen, [disk])
    assert host.seen.hidden == {} and len(lvm.calls) == 1


@pytest.mark.parametrize("answer", [(5, "", "it fails"), (0, "no json", "")])
def test_an_lvm_that_cannot_say_hides_nothing(answer):
    host = Host()
    disk = host.disk()
    host.seen.signatures[disk] = LABEL
    read_hidden_pvs(lambda argv: answer, host.seen, [disk])
    assert host.seen.hidden == {}


def test_a_sound_host_is_not_asked_again():
    host = Host()
    host.build(read_stacks(spec_of(host)))
    read_hidden_pvs(lambda argv: pytest.fail("asked"), host.seen, list(host.seen.geometries))
    assert host.seen.hidden == {}


def spec_of(host):
    return [{"name": "pg", "devices": [host.seen.link(devno) for devno in host.pair(2)], "volumes": [{"name": "data", "mount": "/data"}]}]


@pytest.fixture
def hidden():
    """(the host, its spec) of a stack of ours whose PVs the devices file hides: the kernel shows its volume, LVM knows nothing."""
    host = Host()
    wanted = spec_of(host)
    host.build(read_stacks(wanted))
    parts = [pv.devno for pv in host.seen.lvm.pvs]
    host.forget_lvm()
    lvm = Lvm(host.seen, parts, [DEVICES_FILE])
    read_hidden_pvs(lvm, host.seen, list(host.seen.geometries))
    assert set(host.seen.hidden) == set(parts)
    return host, wanted


def test_a_stack_whose_pvs_are_hidden_is_refused_and_nothing_is_to_be_made_anew(hidden):
    host, wanted = hidden
    plan = make_plan(read_stacks(wanted), host.seen)
    words = "\n".join(plan.refusals)
    assert plan.refusals and all("[hidden]" in line for line in plan.refusals), words
    assert "lvm lvmdevices --adddev" in words and "do not wipe it" in words
    for advice in ("pvcreate", "vgcfgrestore", "wipefs", "erase:", "by your own tools", "[damaged]"):
        assert advice not in words


def test_a_disk_whose_pv_is_hidden_is_offered_to_nobody(hidden):
    """Under another stack's name, as a new device: no erase is offered either."""
    host, wanted = hidden
    plan = make_plan(read_stacks([{**wanted[0], "name": "other"}]), host.seen)
    words = "\n".join(plan.refusals)
    assert "[hidden]" in words and "[erase]" not in words and "signature:" not in words, words


def test_the_static_proof_does_not_call_it_sound(hidden):
    host, _wanted = hidden
    views = [view(host.seen, devno) for devno in tops(host.seen, None)]
    found = [finding for one in views for finding in one.findings if finding.rule == "pv_hidden"]
    assert len(found) == 2 and {finding.level for finding in found} == {"error"}
    assert not any("aligned: every layer" in line for one in views for line in view_report(one))


def test_one_of_two_is_hidden():
    """LVM lists the group without its PV: the PV's partition says why, and nobody is told to plug it in again."""
    host = Host()
    wanted = spec_of(host)
    host.build(read_stacks(wanted))
    first = host.seen.lvm.pvs[0]
    host.seen.lvm = host.seen.lvm._replace(pvs=tuple(pv._replace(devno="-1:-1", uuid="UUID") if pv == first else pv for pv in host.seen.lvm.pvs))
    read_hidden_pvs(Lvm(host.seen, [first.devno], [FILTER]), host.seen, list(host.seen.geometries))
    words = "\n".join(make_plan(read_stacks(wanted), host.seen).refusals)
    assert "[hidden]" in words and "global_filter" in words and "plug its device in" not in words and "[damaged]" not in words
