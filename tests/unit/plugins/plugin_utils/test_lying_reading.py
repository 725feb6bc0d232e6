# SPDX-License-Identifier: GPL-3.0-or-later
"""Readings that no kernel shows: each is planned, or refused in one line; none is a traceback, or without an end. From a seed: a case can be had again."""

from __future__ import annotations

import base64
import copy
import json
import os
import pathlib
import random
import resource
import zlib

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Ends
from ansible_collections.plumbline.ssd.plugins.module_utils._block.raid_state import RaidState
from ansible_collections.plumbline.ssd.plugins.module_utils._core.packing import pack
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.last_reading import LastReading
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.keeping import Keeping
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.storage_reading import PlanAnswer, StorageReading
from ansible_collections.plumbline.ssd.plugins.plugin_utils import sound_reading, views
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan import plan_host
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_spec import read_stacks
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils._core.test_packing import SPEC, reading
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import MIB, Host
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.hostile import HOSTILE
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.mirrored import MirrorHost

SEED = os.environ.get("PLUMBLINE_SEED", "1")
CASES = 400  # of each host
NUMBERS = (0, -1, 1, 2, 3, 511, 512, 1 << 20, (1 << 63) - 1, 1 << 64, 10**39, -(10**38))
DEVNOS = ("259:0", "259:16", "259:17", "253:0", "253:1", "8:99", "")
OTHERS = (None, True, 7, -1.5, "x", [], {}, [[]], {"259:0": []})


def fresh():
    """Two blank disks."""
    host = Host()
    for devno in host.pair(2):
        host.seen.ends[devno] = Ends(bytes(MIB), bytes(MIB), 1 << 36)
        host.seen.namespaces[devno] = {"dlfeat": 1, "lbafs": [{"ms": 0, "ds": 9, "rp": 1, "in_use": True}, {"ms": 0, "ds": 12, "rp": 0, "in_use": False}]}
    host.seen.raids["259:0"] = RaidState("recover", 1, 4, 128)
    host.seen.lvm_filters = {"global_filter": ("a|.*|",), "filter": ("r|^/dev/sd[a-z]+$|", "a(nvme)", "r|.*|")}
    host.seen.disk_links = {"/dev/disk/by-path/pci-0-nvme-1": "259:0", "/dev/disk/by-id/nvme-x": "259:16"}
    return StorageReading(host.seen, {}, {"k": LastReading(5, "ok", ("a",))}, Keeping({}, True, ()), 7)


MIRRORED = [{**SPEC[0], "mirror": True, "devices": [f"/dev/nvme{number}n1" for number in range(4)], "replace": {"SER0004": "SER0001"}}]


def mirrored():
    """A stack with mirrors, one member of which was away and is back, and a device that was replaced."""
    host = MirrorHost(5)
    host.build(read_stacks([{**MIRRORED[0], "replace": {}}]))
    disk = next(iter(host.seen.nodes))
    host.pull(disk)
    host.bring_back(disk)
    host._join(host.parts()[-1], 0)
    return StorageReading(host.seen, {}, {}, Keeping({}, True, ()), 7)


HOSTS = {"built": reading(), "fresh": fresh(), "mirrored": mirrored()}


def tree_of(one):
    return json.loads(zlib.decompress(base64.b64decode(pack(PlanAnswer(one, "", {})))))


def packed(tree):
    return base64.b64encode(zlib.compress(json.dumps(tree).encode(), 1)).decode()


def planned(text, fail_if="never", stacks=tuple(SPEC)):
    def call(module, _arguments):
        return {"changed": False, "answer": text} if module == "stack_plan" else {"lease": {"run": "r"}, "released": True}

    return plan_host.plan_host(call, {"stacks": list(stacks), "verify": {}, "health": {}, "lease": {}, "fail_if": fail_if})


def viewed(name, text, stacks=tuple(SPEC)):
    """What device_info, stack_info or audit makes of it; of an audit, whose parts fail alone, the first part that did."""
    answer = {"answer": text, "storage": {"answer": text}, "drive_health": {"drives": [], "findings": []}}
    result = views.VIEWS[name](lambda _module, _arguments: {"changed": False, **answer}, {"stacks": list(stacks), "verify": {}} if name == "audit" else {})
    return next((part for part in result.values() if isinstance(part, dict) and part.get("failed")), result)


def places(tree, way=()):
    for key in tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ():
        yield (*way, key)
        yield from places(tree[key], (*way, key))


def damage(dice, tree, ways):
    """The tree with something changed in a few places, most often to a value of the same type."""
    tree = copy.deepcopy(tree)
    for _time in range(dice.choice((1, 1, 1, 2, 4))):
        way, inner = dice.choice(ways), tree
        try:
            for step in way[:-1]:
                inner = inner[step]
            old = inner[way[-1]]
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took it away
        kind = dice.randrange(8)
        if kind == 0:
            inner[way[-1]] = dice.choice(OTHERS)
        elif kind == 1 and isinstance(inner, dict):
            del inner[way[-1]]
        elif kind == 2 and isinstance(inner, dict):
            inner[dice.choice((*DEVNOS, *HOSTILE))] = inner.pop(way[-1])
        elif isinstance(old, bool):
            inner[way[-1]] = not old
        elif isinstance(old, (int, float)):
            inner[way[-1]] = dice.choice(NUMBERS)
        elif isinstance(old, str):
            inner[way[-1]] = dice.choice(DEVNOS if kind < 5 else HOSTILE)
        elif isinstance(old, list):
            inner[way[-1]] = dice.choice((old[:-1], old * 2, old[::-1]))
    return tree


@pytest.fixture
def little_memory():
    """The process gets 512 MiB more than it has, and no more."""
    has = int(pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (has + (512 << 20), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("name", HOSTS)
def test_any_reading_is_planned_or_refused(name, figure):
    tree = tree_of(HOSTS[name])
    ways, stacks = list(places(tree)), MIRRORED if name == "mirrored" else SPEC
    assert not planned(packed(tree), stacks=stacks).get("failed"), "the host itself has a plan"
    assert not [view for view in views.VIEWS if viewed(view, packed(tree), stacks).get("failed")]
    refused = 0
    for number in range(CASES):
        dice = random.Random(f"{SEED}/{name}/{number}")
        damaged = damage(dice, tree, ways)
        result = planned(packed(damaged), dice.choice(("never", "any", "unsound")), stacks)
        for one in (result, viewed(dice.choice(list(views.VIEWS)), packed(damaged), stacks)):
            words = [one["msg"], *one.get("reasons", [])] if one.get("failed") else []
            assert all(line.isprintable() and len(line) < 5000 for line in words), (number, words)
            assert "MemoryError" not in str(words) and json.dumps(one, allow_nan=False), number
        refused += bool(result.get("failed"))
    assert CASES / 10 < refused < CASES * 9 / 10, refused
    figure("lying_reading", cases=CASES, tracebacks=0, refused=refused)


def node(template, devno, legs, holders=(), chunk=0):
    """A mapped device on others."""
    made = list(template)
    made[:3] = [devno, "dm-" + devno.partition(":")[2], "dm"]
    made[5], made[8], made[9] = "", "t" + devno.partition(":")[2], "u"
    made[10:13] = [list(holders), list(dict.fromkeys(legs)), [[0, 1 << 30, "striped" if chunk else "linear", chunk, [[leg, 0] for leg in legs], 0, 0]]]
    return made


def with_nodes(make):
    """The reading of the built host with more devices on its first disk. *make*: (a node to copy, the disk) → devices by number."""
    tree = tree_of(HOSTS["built"])
    nodes = tree[0][0]["nodes"]
    disk = next(iter(nodes))
    more = make(nodes[disk], disk)
    nodes[disk][10] = list(more)
    nodes.update(more)
    return tree


def doubling(template, disk):
    """Thirty levels, each twice on the next one: 2^30 ways down."""
    return {f"250:{n}": node(template, f"250:{n}", [f"250:{n + 1}" if n < 29 else disk] * 2, chunk=65536) for n in range(30)}


def tops(template, disk):
    """Sixteen levels of doubling, and ten devices on top of them: each has a bounded number of ways, and all together too many."""
    found = {f"250:{n}": node(template, f"250:{n}", [f"250:{n + 1}" if n < 15 else disk] * 2, chunk=65536) for n in range(16)}
    found.update({f"251:{n}": node(template, f"251:{n}", ["250:0"]) for n in range(10)})
    return found


def circle(template, _disk):
    return {f"250:{n}": node(template, f"250:{n}", [f"250:{(n + 1) % 3}"]) for n in range(3)}


def crowd(template, disk):
    """Without segments: with them there are more members than any reading has, which is told first."""
    found = {f"250:{n}": node(template, f"250:{n}", [disk]) for n in range(sound_reading.MOST_NODES)}
    for made in found.values():
        made[12] = []
    return found


def another_name(template, disk):
    return {"250:1": node(template, "250:2", [disk])}


def mirror(template, disk):
    made = node(template, "250:1", [disk])
    made[12][0][2] = "raid1"
    return {"250:1": made}


@pytest.mark.parametrize("number", range(1, 4))
def test_an_array_with_a_number_below_zero(number):
    tree = with_nodes(mirror)
    state = ["resync", 1, 2, 3]
    tree[0][0]["raids"] = {"250:1": state}
    assert not viewed("stack_info", packed(tree)).get("failed")
    state[number] = -1
    assert viewed("stack_info", packed(tree))["msg"] == "what the host returned does not fit together: the array 250:1 has a number below 0"


def below_zero(template, disk):
    made = node(template, "250:1", [disk])
    made[12][0][0] = -1
    return {"250:1": made}


WAYS = {
    doubling: "lies on its disks in more than 65,536 ways",
    tops: "its devices lie on their disks in more than 262,144 ways",
    circle: "lies on itself",
    crowd: "found 10,00",
    another_name: "device 250:1 calls itself 250:2",
    below_zero: "device 250:1 has a size, an address or a chunk below 0",
}


@pytest.mark.parametrize("make", WAYS, ids=lambda make: make.__name__)
def test_devices_that_no_kernel_has(make):
    result = planned(packed(with_nodes(make)))
    assert result["failed"] and "what the host returned does not fit together: " in result["msg"] and WAYS[make] in result["msg"], result["msg"]
    assert all(viewed(name, packed(with_nodes(make)))["msg"] == result["msg"] for name in views.VIEWS)


@pytest.mark.parametrize(
    "space", [{"dlfeat": 1 << 90}, {"lbafs": [{"ms": 0, "ds": 1 << 40, "rp": 0}]}, {"lbafs": "x"}, {"lbafs": ["x"]}, {"lbafs": [{}]}, {"lbafs": {"a": 1}}]
)
def test_an_identify_namespace_that_is_none(space):
    """2 to the power of its block size takes all memory."""
    tree = tree_of(HOSTS["fresh"])
    tree[0][0]["namespaces"]["259:0"] = space
    assert planned(packed(tree))["msg"] == "what the host returned does not fit together: the Identify Namespace of device 259:0 is none"


def test_a_path_to_a_device_that_is_not_there():
    tree = tree_of(HOSTS["fresh"])
    del tree[0][0]["nodes"]["259:0"]
    assert "leads to device 259:0, which is not there" in planned(packed(tree))["msg"]


def test_what_only_the_plan_finds_out_is_a_refusal_that_says_where(monkeypatch):
    def stumble(*_arguments, **_more):
        raise KeyError("8:1\x1b[2J")

    monkeypatch.setattr(plan_host, "plan_reading", stumble)
    result = planned(packed(tree_of(HOSTS["fresh"])))
    assert result["failed"] and result["msg"].startswith("refused: nothing was written. what the host returned does not fit together (KeyError in ")
    assert result["msg"].isprintable() and "test_lying_reading.py, line" in result["msg"]


DEEP = {
    "brackets": "(" * 5000, "ways": "(a*)*" * 9 + "x", "stars": ".*" * (1 << 18), "cut-off": "[", "surrogate": "\ud800", "long": "x" * 900_000,
    "states": "(a|b)*a" + "(a|b)" * 40, "line": HOSTILE[3], "none": "",
}  # fmt: skip


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("name", DEEP)
def test_no_filter_of_lvm_keeps_the_controller_busy(name):
    """Patterns that Python's re would be at for ever, or nested too deeply; names of a megabyte."""
    tree = tree_of(HOSTS["fresh"])
    tree[0][0]["lvm_filters"] = {"filter": ["r|%s|" % DEEP[name]] * 3 + ["r|by-id|"], "global_filter": ["a|.*|"]}
    tree[0][0]["disk_links"] = {"/dev/disk/by-id/" + "ab" * 400_000: "259:0"}
    result = planned(packed(tree))
    words = [result["msg"], *result.get("reasons", [])] if result.get("failed") else result["warnings"]
    assert words and all(line.isprintable() and len(line) < 5000 for line in words)


@pytest.mark.parametrize("member", ["md_arrays", "md_superblocks"])
def test_an_array_without_an_end(member):
    tree = tree_of(HOSTS["mirrored"])
    arrays = tree[0][0][member]
    one = arrays[0] if member == "md_arrays" else next(iter(arrays.values()))
    one[6 if member == "md_arrays" else 5] = 10**30
    result = planned(packed(tree), stacks=MIRRORED)
    assert result["failed"] and "an array of md has" in result["msg"]
