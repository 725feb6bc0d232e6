# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host packs is what the controller unpacks, and nothing else is."""

from __future__ import annotations

import base64
import json
import time
import tracemalloc
import zlib

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Accepted, Ends, FstabEntry, Observation, PathState, WriteCache
from ansible_collections.plumbline.ssd.plugins.module_utils._block.link import Link, LinkEnd
from ansible_collections.plumbline.ssd.plugins.module_utils._block.raid_state import RaidState
from ansible_collections.plumbline.ssd.plugins.module_utils._core import unpacking
from ansible_collections.plumbline.ssd.plugins.module_utils._core.packing import pack
from ansible_collections.plumbline.ssd.plugins.module_utils._core.read_path import Part
from ansible_collections.plumbline.ssd.plugins.module_utils._core.unpacking import unpack
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.last_reading import LastReading
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.keeping import Keeping
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.storage_reading import StorageReading
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_spec import read_stacks
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import MIB, Host

SPEC = [{"name": "pgdata", "devices": ["/dev/nvme0n1", "/dev/nvme1n1"], "volumes": [{"name": "data", "size": "70%", "mount": "/data"}]}]


def text_of(value):
    return base64.b64encode(zlib.compress(json.dumps(value).encode())).decode()


def packed(raw):
    return base64.b64encode(zlib.compress(raw if isinstance(raw, bytes) else raw.encode(), 9)).decode()


def blob(raw):
    return base64.b64encode(zlib.compress(raw)).decode()


def reading():
    """A host with a stack, and something of every kind that an observation can hold."""
    host = Host()
    devnos = [host.disk(), host.disk()]
    stacks = read_stacks(SPEC)
    host.build(stacks)
    seen = host.seen
    seen.ends[devnos[0]] = Ends(bytes(range(256)) * 4096, bytes(MIB), 1 << 40, "d")
    seen.namespaces[devnos[0]] = {"dlfeat": 1, "lbafs": [{"ms": 0, "ds": 9, "rp": 0, "in_use": True}]}
    seen.caches[devnos[1]] = WriteCache(True, None, False)
    seen.drive_links[devnos[0]] = (Link("PCIe", LinkEnd("root", 16000, 4), LinkEnd("drive", None, 4), 8000, 4),)
    seen.directories["/data"] = PathState(True, True, way=(Part("/", "directory"), Part("/data", "link", target="x\udc80")))
    seen.accepted = [Accepted("pgdata", "data", "/data", "u", "o", "a", ("s",), "now")]
    seen.fstab += [FstabEntry("UUID=a", "/a", "ext4", ("noatime",), 0, 2)]
    seen.users = {"postgres": 999}
    seen.raids = {devnos[0]: RaidState("check", 1, 2), devnos[1]: RaidState(mismatches=128)}
    record = {"digest": "d", "made": [1], "verdict": "accepted", "parts": {"writes": "inconclusive"}, "accepted": ["unproven_writes"], "tries": 1, "time": "t"}
    proofs, drives = {"pgdata": {**record, "conditions": {"kernel": "6.1"}, "reasons": ["r"]}}, {"k": LastReading(5, "ok", ("a",))}
    return StorageReading(seen, proofs, drives, Keeping({"f": "x"}, True, ("t",)), 7, {"kernel": "6.1"})


def test_a_reading_comes_back_as_it_was():
    one = reading()
    other = unpack(StorageReading, pack(one))
    assert other == one and isinstance(other.seen, Observation)
    stacks = read_stacks(SPEC)
    assert make_plan(stacks, other.seen).digest == make_plan(stacks, one.seen).digest


def test_it_is_short():
    """The ends of blank devices are zeros, and names repeat."""
    one = reading()
    for devno in one.seen.nodes:
        one.seen.ends[devno] = Ends(bytes(MIB), bytes(MIB), 1 << 40)
    assert len(pack(one)) < 32 << 10 and pack(one).isascii() and pack(one).isprintable()


def changed(*way, to):
    """The JSON of a reading with something else in one place."""
    found = json.loads(zlib.decompress(base64.b64decode(pack(reading()))))
    inner = found
    for step in way[:-1]:
        inner = inner[step]
    if to is None:
        del inner[way[-1]]
    else:
        inner[way[-1]] = to
    return found


NODE = (0, "nodes", "259:0")
HOSTILE = {
    "empty": "",
    "no base64": "{}",
    "no zlib": base64.b64encode(b"x" * 99).decode(),
    "cut off": base64.b64encode(zlib.compress(bytes(9999))[:-3]).decode(),
    "no JSON": base64.b64encode(zlib.compress(b"{")).decode(),
    "deep": base64.b64encode(zlib.compress(b"[" * 100000)).decode(),
    "a number": text_of(3),
    "too few": text_of([1, 2]),
    "a member is missing": text_of(changed(0, "nodes", to=None)),
    "a member too many": text_of(changed(0, "more", to=1)),
    "a list for a node": text_of(changed(*NODE, to=[1, 2])),
    "text for a size": text_of(changed(*NODE, 3, to="9")),
    "a truth for a size": text_of(changed(*NODE, 3, to=True)),
    "nodes are a list": text_of(changed(0, "nodes", to=[])),
    "no base64 in it": text_of(changed(0, "ends", "259:0", 0, to="%")),
    "a pair of one": text_of(changed(0, "lvm", 0, 0, 6, to=[[1]])),
    "no ASCII": packed(json.dumps(changed(*NODE, 1, to="REPLACED")).replace("REPLACED", "é")),
    "a number of 5,000 digits": packed('[{"a": %s}]' % ("9" * 5000)),
    "a number of 41 digits": text_of(changed(*NODE, 3, to=10**40)),
    "NaN for a size": text_of(changed(*NODE, 3, to=float("nan"))),
    "more than a float for a size": packed(json.dumps(changed(*NODE, 3, to=-77)).replace("-77", "1e999")),
    "a text of a megabyte": text_of(changed(*NODE, 1, to="x" * ((1 << 20) + 1))),
}
# Texts of a few KiB that come to a lot.
BOMBS = {
    "lists": lambda: packed(b"[" + b"[]," * (22 << 20) + b"0]"),
    "lists within the bytes": lambda: packed(b"[" + b"[]," * (10 << 20) + b"0]"),
    "mappings": lambda: packed(b"[" + b"{}," * (10 << 20) + b"0]"),
    "numbers": lambda: packed(b"[" + b"999," * (7 << 20) + b"0]"),
    "a long number": lambda: packed(b"[" + b"9" * (31 << 20) + b"]"),
    "zeros": lambda: packed(bytes(64 << 20)),
    "deep": lambda: packed(b"[" * (31 << 20)),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_reading_is_refused(text):
    with pytest.raises(ValueError):
        unpack(StorageReading, text)
    assert unpack(StorageReading, text_of(json.loads(zlib.decompress(base64.b64decode(pack(reading())))))) == reading()


def large_host():
    """1,000 disks, half of them blank: more than any stack takes, and any host has in one chassis."""
    host = Host()
    for number, devno in enumerate(host.pair(1000)):
        host.part(devno, MIB, name="plumbline:pgdata:%d" % number, guid="%032d" % number)
        host.seen.ends[devno] = Ends(bytes(MIB), bytes(MIB), 1 << 40)
    return StorageReading(host.seen, {}, {}, Keeping({}, True, ()), 7)


def cost(text):
    """(seconds, bytes at most, whether it was taken) of unpacking."""
    tracemalloc.start()
    began = time.thread_time()
    try:
        unpack(StorageReading, text)
        taken = True
    except ValueError:
        taken = False
    seconds, peak = time.thread_time() - began, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return seconds, peak, taken


@pytest.fixture(scope="module")
def large():
    return pack(large_host())


@pytest.fixture(scope="module")
def honest(large):
    return cost(large)


def test_the_largest_host_fits(large, honest):
    """Blank devices end in zeros, each megabyte of which is kept once. 24 blank devices were refused for them."""
    raw = zlib.decompress(base64.b64decode(large))
    members = sum(raw.count(mark) for mark in (b",", b"[", b"{"))
    assert honest[2] and members < unpacking.MAX_MEMBERS / 2 and len(raw) < unpacking.MAX_BYTES / 4, (members, len(raw))


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_costs_no_more_than_a_large_host(honest, name):
    """87 KB of lists took 12 seconds and 1.7 GB."""
    text = BOMBS[name]()
    seconds, peak, taken = cost(text)
    assert not taken and seconds < 10 * honest[0] and peak < 5 * unpacking.MAX_BYTES, (seconds, honest, peak >> 20)


def test_as_many_members_as_are_taken_cost_little(honest):
    seconds, peak, _taken = cost(packed(b"[" + b"{}," * (unpacking.MAX_MEMBERS // 2 - 9) + b"0]"))
    assert seconds < 10 * honest[0] and peak < 5 * unpacking.MAX_BYTES


@pytest.mark.parametrize("blobs, taken", [([4 << 20], False), ([1 << 20] * 4, False), ([1 << 20] * 2 + [1 << 10], True)])
def test_what_is_held_as_bytes_is_bounded(monkeypatch, blobs, taken):
    """Also by what is left of the bound when nothing is: zlib takes 0 for no bound at all."""
    monkeypatch.setattr(unpacking, "MAX_BLOBS", 3 << 20)
    ends = {str(n): [blob(bytes([n + 1]) * size), blob(b"x"), 0, ""] for n, size in enumerate(blobs)}
    text = text_of(changed(0, "ends", to=ends))
    if taken:
        assert len(unpack(StorageReading, text).seen.ends) == len(blobs)
    else:
        with pytest.raises(ValueError, match=r"longer than|more than"):
            unpack(StorageReading, text)


def test_what_a_host_keeps_may_be_no_number():
    """The record of a proof may have NaN in it, which Python writes: it is nothing, and no reason to refuse the host."""
    one = reading()._replace(proofs={"pgdata": {"a": float("nan"), "b": float("inf"), "c": 1.5, "d": 2**128 - 1}})
    assert unpack(StorageReading, pack(one)).proofs == {"pgdata": {"a": None, "b": None, "c": 1.5, "d": 2**128 - 1}}


def test_what_is_too_long_is_refused(monkeypatch):
    monkeypatch.setattr("ansible_collections.plumbline.ssd.plugins.module_utils._core.unpacking.MAX_BYTES", 1000)
    with pytest.raises(ValueError, match="longer than 1000 bytes"):
        unpack(StorageReading, pack(reading()))
