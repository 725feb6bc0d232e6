# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user may write. A bad input gives one exact line; a row is (what is changed in a good spec, the line)."""

from __future__ import annotations

import copy
import random

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.stated_geometry import Override
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError, nearest
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.ext4 import EXT4
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.mounts import mount_path
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan import read_spec, read_volumes
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_spec import read_stacks
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.spec import DeviceName, Selector
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, KIB, MIB

GOOD = {
    "name": "pgdata",
    "devices": ["nvme-FLASH_1", "nvme-FLASH_2"],
    "volumes": [{"name": "data", "size": "70%", "mount": "/data01"}, {"name": "wal", "size": "20%", "mount": "/data02"}],
}
GONE = object()
STACK_KEYS = (
    "valid keys: name, devices, layout, reserve, stripe_size, extent_size, geometry, volumes, accept, blank_proof, "
    "write_cache, power_loss_protection, erase, discard, workload, grow, stripes, mirror, replace"
)
VOLUME_KEYS = (
    "valid keys: name, size, mount, label, mount_options, mount_profile, owner, group, mode, errors, bytes_per_inode, discard, selinux_context, "
    "required_by, lazy_init, device_timeout, filesystem"
)
S, V = "plumbline_stacks[pgdata]", "plumbline_stacks[pgdata].volumes[data]"
UNITS = "wanted one of B, KiB, MiB, GiB, TiB"
NO_SIZE = "write a number with one of B, KiB, MiB, GiB, TiB, for example 64KiB"


def changed(*changes):
    """The good spec with (path, value) set; GONE takes a key out."""
    stacks = [copy.deepcopy(GOOD)]
    for path, value in changes:
        place = stacks
        for key in path[:-1]:
            place = place[key]
        if value is GONE:
            del place[path[-1]]
        else:
            place[path[-1]] = value
    return stacks


def stack(**keys):
    return changed(*(((0, key), value) for key, value in keys.items()))


def volume(**keys):
    return changed(*(((0, "volumes", 0, key), value) for key, value in keys.items()))


def refusal(raw):
    with pytest.raises(PlumblineError) as caught:
        read_stacks(raw)
    assert "\n" not in caught.value.msg.replace("\\n", ""), "one line"
    return caught.value.msg


def more(count, *where):
    return " (and %d more, of %s: see reasons)" % (count, ", ".join(where))


BAD = [
    # the list
    (None, "plumbline_stacks: found nothing; wanted a list of stacks"),
    ({}, "plumbline_stacks: found a mapping; wanted a list of stacks"),
    ("pgdata", "plumbline_stacks: found a string; wanted a list of stacks"),
    (["pgdata"], "plumbline_stacks[0]: found a string; wanted a mapping with " + STACK_KEYS[12:]),
    ([GOOD, 7], "plumbline_stacks[1]: found a number; wanted a mapping with " + STACK_KEYS[12:]),
    # keys of a stack
    (stack(reserv="10%"), "plumbline_stacks[0]: unknown key 'reserv' (did you mean 'reserve'?); " + STACK_KEYS),
    (stack(device=[]), "plumbline_stacks[0]: unknown key 'device' (did you mean 'devices'?); " + STACK_KEYS),
    (stack(stripesize="64KiB"), "plumbline_stacks[0]: unknown key 'stripesize' (did you mean 'stripe_size'?); " + STACK_KEYS),
    (stack(volume=[]), "plumbline_stacks[0]: unknown key 'volume' (did you mean 'volumes'?); " + STACK_KEYS),
    (stack(force=True), "plumbline_stacks[0]: unknown key 'force' (did you mean 'replace'?); " + STACK_KEYS),
    (stack(name=GONE), "plumbline_stacks[0]: 'name' is missing"),
    (stack(devices=GONE), "plumbline_stacks[0]: 'devices' is missing"),
    (stack(volumes=GONE), "plumbline_stacks[0]: 'volumes' is missing"),
    # name
    (stack(name="PgData"), "plumbline_stacks[0].name: 'PgData' does not fit; wanted a lower-case letter, then at most 19 lower-case letters, digits or _"),
    (stack(name="pg-data"), "plumbline_stacks[0].name: 'pg-data' does not fit; wanted a lower-case letter, then at most 19 lower-case letters, digits or _"),
    (stack(name="p" * 21), (
        "plumbline_stacks[0].name: '%s' does not fit; wanted a lower-case letter, then "
        "at most 19 lower-case letters, digits or _"
    ) % ("p" * 21)),
    (stack(name="9data"), "plumbline_stacks[0].name: '9data' does not fit; wanted a lower-case letter, then at most 19 lower-case letters, digits or _"),
    (stack(name=""), "plumbline_stacks[0].name: '' does not fit; wanted a lower-case letter, then at most 19 lower-case letters, digits or _"),
    (stack(name=None), "plumbline_stacks[0].name: 'None' does not fit; wanted a lower-case letter, then at most 19 lower-case letters, digits or _"),
    (stack(name=True), "plumbline_stacks[0].name: 'True' does not fit; wanted a lower-case letter, then at most 19 lower-case letters, digits or _"),
    # layout
    (stack(layout="stripped"), S + ".layout: 'stripped' is not known (did you mean 'striped'?); wanted one of striped, linear, separate"),
    (stack(layout="raid0"), S + ".layout: 'raid0' is not known (did you mean 'striped'?); wanted one of striped, linear, separate"),
    (stack(layout=None), S + ".layout: 'None' is not known; wanted one of striped, linear, separate"),
    (stack(devices=["nvme-FLASH_1"]), S + ".devices: a stripe wants two devices or more; found 1; use layout 'linear' or 'separate' for one"),
    (stack(layout="separate", stripe_size="64KiB"), V + ".size: layout 'separate' gives a volume its whole partition; leave it out and set 'reserve'"
     + more(1, S + ".volumes[wal].size")),
    (
        stack(layout="separate", stripe_size="64KiB", volumes=[{"name": "a"}, {"name": "b"}]),
        S + ".stripe_size: layout 'separate' has no stripes; leave it out",
    ),
    (
        stack(layout="separate", extent_size="auto", volumes=[{"name": "a"}, {"name": "b"}]),
        S + ".extent_size: layout 'separate' has no stripes; leave it out",
    ),
    (
        stack(layout="separate", volumes=[{"name": "a"}]),
        S + ".volumes: layout 'separate' makes one filesystem per device; found 1 volumes for 2 devices",
    ),
    # devices
    (stack(devices=[]), S + ".devices: found an empty list; wanted a list of names below /dev/disk/by-id, or a selector with model, min_size, max_size, count"),
    (stack(devices="nvme-FLASH_1"), S + (
        ".devices: found a string; wanted a list of names below /dev/disk/by-id, or a "
        "selector with model, min_size, max_size, count"
    )),
    (stack(devices=[1, 2]), S + ".devices[0]: found a number; wanted a name below /dev/disk/by-id" + more(1, S + ".devices[1]")),
    (stack(devices=[{"name": "a"}, "b"]), S + ".devices[0]: found a mapping; wanted a name below /dev/disk/by-id"),
    (stack(devices=["a/b", "c"]), S + ".devices[0]: 'a/b' does not name a device; wanted a name below /dev/disk/by-id, such as nvme-MODEL_SERIAL"),
    (stack(devices=["a", "../sda"]), S + ".devices[1]: '../sda' does not name a device; wanted a name below /dev/disk/by-id, such as nvme-MODEL_SERIAL"),
    (stack(devices=["", "b"]), S + ".devices[0]: '' does not name a device; wanted a name below /dev/disk/by-id, such as nvme-MODEL_SERIAL"),
    (stack(devices=["/dev/mapper/x", "b"]), S + (
        ".devices[0]: '/dev/mapper/x' does not name a device; wanted a name below "
        "/dev/disk/by-id, such as nvme-MODEL_SERIAL"
    )),
    (stack(devices=["a;b", "b"]), S + ".devices[0]: 'a;b' does not name a device; wanted a name below /dev/disk/by-id, such as nvme-MODEL_SERIAL"),
    (stack(devices=["..", "b"]), S + ".devices[0]: '..' does not name a device; wanted a name below /dev/disk/by-id, such as nvme-MODEL_SERIAL"),
    (stack(devices=["nvme-A", "nvme-A"]), "plumbline_stacks: device '/dev/disk/by-id/nvme-A' is named twice"),
    (stack(devices=["nvme-A", "/dev/disk/by-id/nvme-A"]), "plumbline_stacks: device '/dev/disk/by-id/nvme-A' is named twice"),
    (stack(devices=[{"path": "/dev/loop0", "test_identitiy": "a"}, "b"]), S + (
        ".devices[0]: unknown key 'test_identitiy' (did you mean "
        "'test_identity'?); valid keys: path, test_identity"
    )),
    (stack(devices=[{"test_identity": "a"}, "b"]), S + ".devices[0]: 'path' is missing"),
    (stack(devices=[{"path": "/dev/loop0", "test_identity": ""}, "b"]), S + (
        ".devices[0].test_identity: '' does not fit; wanted a word "
        "of letters, digits and _ . : -"
    )),
    # selector
    (stack(devices={"modell": "X", "count": 2}), S + ".devices: unknown key 'modell' (did you mean 'model'?); valid keys: model, min_size, max_size, count"),
    (stack(devices={"count": 2}), S + ".devices: 'model' is missing"),
    (stack(devices={"model": "X"}), S + ".devices: 'count' is missing"),
    (stack(devices={"model": "", "count": 2}), S + ".devices.model: '' does not fit; wanted a model name or a shell pattern such as MZQL2*"),
    (stack(devices={"model": 5, "count": 2}), S + ".devices.model: '5' does not fit; wanted a model name or a shell pattern such as MZQL2*"),
    (stack(devices={"model": "X", "count": "2"}), S + ".devices.count: '2' does not fit; wanted a number of devices from 1 to 64"),
    (stack(devices={"model": "X", "count": 0}), S + ".devices.count: '0' does not fit; wanted a number of devices from 1 to 64"),
    (stack(devices={"model": "X", "count": 65}), S + ".devices.count: '65' does not fit; wanted a number of devices from 1 to 64"),
    (stack(devices={"model": "X", "count": True}), S + ".devices.count: 'True' does not fit; wanted a number of devices from 1 to 64"),
    (stack(devices={"model": "X", "count": 2, "min_size": "2TiB", "max_size": "1TiB"}), S + (
        ".devices: min_size 2 TiB is above max_size 1 TiB, so no device can match"
    )),
    (volume(name="snapshot1"), S + ".volumes[0].name: 'snapshot1' is a name that LVM keeps for itself, for its 'snapshot'; choose another"),
    (volume(name="data_tmeta"), S + ".volumes[0].name: 'data_tmeta' is a name that LVM keeps for itself, for its '_tmeta'; choose another"),
    (volume(name="app_mlogs"), S + ".volumes[0].name: 'app_mlogs' is a name that LVM keeps for itself, for its '_mlog'; choose another"),
    (volume(name="my_cdatabase"), S + ".volumes[0].name: 'my_cdatabase' is a name that LVM keeps for itself, for its '_cdata'; choose another"),
    (volume(name="pg_cpool"), S + ".volumes[0].name: 'pg_cpool' is a name that LVM keeps for itself, for its '_cpool'; choose another"),
    (stack(devices={"model": "X", "count": 2, "min_size": "900GB"}), S + (
        ".devices.min_size: '900GB' "
        "has the unit 'GB'; "
    ) + UNITS + " (did you mean '900GiB'?)"),
    (stack(devices={"model": "X", "count": 1}), S + ".devices: a stripe wants two devices or more; found 1; use layout 'linear' or 'separate' for one"),
    # reserve
    (stack(reserve="100%"), S + ".reserve: 100% leaves too little of the device; wanted at most 90%"),
    (stack(reserve="91%"), S + ".reserve: 91% leaves too little of the device; wanted at most 90%"),
    (stack(reserve="101%"), S + ".reserve: '101%' is out of range; wanted more than 0% and at most 100%"),
    (stack(reserve="10"), S + ".reserve: '10' has no unit; " + UNITS + ", or % (did you mean '10%'?)"),
    (stack(reserve=10), S + ".reserve: '10' has no unit; " + UNITS + ", or % (did you mean '10%'?)"),
    (stack(reserve=False), S + ".reserve: 'False' is not a size; " + NO_SIZE),
    (stack(reserve="100G"), S + ".reserve: '100G' has the unit 'G'; " + UNITS + " (did you mean '100GiB'?)"),
    (stack(reserve="-5%"), S + ".reserve: '-5%' is not a percentage; write for example 70%"),
    # stripe and extent sizes
    (stack(stripe_size="96KiB"), S + ".stripe_size: 96 KiB is no power of two, and LVM takes only those; the nearest are 64 KiB and 128 KiB"),
    (stack(stripe_size="100KiB"), S + ".stripe_size: 100 KiB is no power of two, and LVM takes only those; the nearest are 64 KiB and 128 KiB"),
    (stack(stripe_size="2KiB"), S + ".stripe_size: 2 KiB is below the smallest, 4 KiB"),
    (stack(stripe_size="64k"), S + ".stripe_size: '64k' has the unit 'k'; " + UNITS + " (did you mean '64KiB'?)"),
    (stack(stripe_size=64), S + ".stripe_size: '64' has no unit; " + UNITS),
    (stack(stripe_size="Auto"), S + ".stripe_size: 'Auto' does not fit (did you mean 'auto'?); wanted 'auto' or a size such as 64KiB"),
    (stack(stripe_size="0KiB"), S + ".stripe_size: 0 does not fit; wanted 'auto' or a size such as 64KiB"),
    (stack(extent_size="100MiB"), S + ".extent_size: 100 MiB does not fit; wanted a power of two of at least 1 MiB"),
    (stack(extent_size="512KiB"), S + ".extent_size: 512 KiB does not fit; wanted a power of two of at least 1 MiB"),
    (stack(stripe_size="2MiB", extent_size="1MiB"), S + ".stripe_size: 2 MiB is larger than extent_size 1 MiB"),
    # accept, blank_proof, write_cache, power_loss_protection
    (stack(accept="shared_controller"), S + ".accept: found a string; wanted a list of strings"),
    (stack(accept=["shared_controler"]), S + (
        ".accept: 'shared_controler' is not known (did you mean 'shared_controller'?); wanted one of "
        "shared_controller, slow_link, data_loss_on_power_cut, stale_data_after_crash, unknown_mount_options"
    )),
    (stack(accept=[True]), S + ".accept: found a list; wanted a list of strings"),
    (stack(blank_proof="sample"), S + ".blank_proof: 'sample' is not known (did you mean 'sampled'?); wanted one of sampled, full"),
    (stack(discard="timer"), S + ".discard: 'timer' does not fit; wanted true or false"),
    # geometry
    (stack(geometry={}), S + ".geometry: found a mapping; wanted a list of mappings with model, device, grain, alignment_offset"),
    (stack(geometry=[{"grian": "8KiB"}]), S + (
        ".geometry[0]: unknown key 'grian' (did you mean 'grain'?); valid keys: model, "
        "device, grain, alignment_offset"
    )),
    (stack(geometry=[{"grain": "8KiB"}]), S + ".geometry[0]: wanted exactly one of 'model' (a pattern) and 'device' (a name)"),
    (stack(geometry=[{"model": "X", "device": "Y", "grain": "8KiB"}]), S + ".geometry[0]: wanted exactly one of 'model' (a pattern) and 'device' (a name)"),
    (stack(geometry=[{"model": "X"}]), S + ".geometry[0]: wanted grain, alignment_offset, or both"),
    (stack(geometry=[{"model": "X", "grain": "2MiB"}]), S + ".geometry[0].grain: 2 MiB does not fit; wanted a multiple of 512 B, at most 1 MiB"),
    (stack(geometry=[{"model": "X", "grain": "1000B"}]), S + ".geometry[0].grain: 1000 B does not fit; wanted a multiple of 512 B, at most 1 MiB"),
    (stack(geometry=[{"model": "X", "grain": "0B"}]), S + ".geometry[0].grain: 0 B does not fit; wanted a multiple of 512 B, at most 1 MiB"),
    (stack(geometry=[{"model": "X", "grain": 4096}]), S + ".geometry[0].grain: '4096' has no unit; " + UNITS),
    # volumes
    (stack(volumes=[]), S + ".volumes: found an empty list; wanted a list of at least one volume with name, size and mount"),
    (stack(volumes=None), S + ".volumes: found nothing; wanted a list of at least one volume with name, size and mount"),
    (stack(volumes={"data": {}}), S + ".volumes: found a mapping; wanted a list of at least one volume with name, size and mount"),
    (stack(volumes=["data"]), S + ".volumes[0]: found a string; wanted a mapping with " + VOLUME_KEYS[12:]),
    (volume(mout="/a"), S + ".volumes[0]: unknown key 'mout' (did you mean 'mount'?); " + VOLUME_KEYS),
    (volume(options=[]), S + ".volumes[0]: unknown key 'options' (did you mean 'mount_options'?); " + VOLUME_KEYS),
    (volume(fstype="xfs"), S + ".volumes[0]: unknown key 'fstype' (did you mean 'filesystem'?); " + VOLUME_KEYS),
    (volume(name=GONE), S + ".volumes[0]: 'name' is missing"),
    (volume(name="Data"), S + ".volumes[0].name: 'Data' does not fit; wanted a lower-case letter, then at most 31 lower-case letters, digits or _"),
    (volume(name="data-1"), S + ".volumes[0].name: 'data-1' does not fit; wanted a lower-case letter, then at most 31 lower-case letters, digits or _"),
    (volume(name="wal"), S + ".volumes: two volumes are named 'wal'"),
    (volume(size=GONE), V + ": 'size' is missing; with several volumes each wants one, for example 30%"),
    (volume(size="81%"), S + ".volumes: the sizes add up to 101% (81% + 20%); wanted at most 100%"),
    (volume(size="80.1%"), S + ".volumes: the sizes add up to 100.1% (80.1% + 20%); wanted at most 100%"),
    (volume(size="120%"), V + ".size: '120%' is out of range; wanted more than 0% and at most 100%"),
    (volume(size="0%"), V + ".size: '0%' is out of range; wanted more than 0% and at most 100%"),
    (volume(size="100GB"), V + ".size: '100GB' has the unit 'GB'; " + UNITS + " (did you mean '100GiB'?)"),
    (volume(size="100G"), V + ".size: '100G' has the unit 'G'; " + UNITS + " (did you mean '100GiB'?)"),
    (volume(size=100), V + ".size: '100' has no unit; " + UNITS + ', or % (did you mean \'100%\'?)'),
    (volume(size="4MiB"), V + ".size: 4 MiB is too small; wanted at least 8 MiB"),
    (volume(size="70 percent"), V + ".size: '70 percent' has the unit 'percent'; " + UNITS),
    (volume(size=None), V + ".size: 'None' is not a size; " + NO_SIZE),
    # mount points
    (volume(mount="data01"), V + ".mount: 'data01' does not fit; wanted an absolute path such as /data01"),
    (volume(mount=""), V + ".mount: '' does not fit; wanted an absolute path such as /data01"),
    (volume(mount=None), V + ".mount: 'None' does not fit; wanted an absolute path such as /data01"),
    (volume(mount=["/a"]), V + ".mount: '['/a']' does not fit; wanted an absolute path such as /data01"),
    (volume(mount="/data01/"), V + ".mount: '/data01/' is not normalised; wanted /data01"),
    (volume(mount="//data01"), V + ".mount: '//data01' is not normalised; wanted /data01"),
    (volume(mount="/data/./01"), V + ".mount: '/data/./01' is not normalised; wanted /data/01"),
    (volume(mount="/data/../etc"), V + ".mount: '/data/../etc' is not normalised; wanted /etc"),
    (volume(mount="/my data"), V + ".mount: '/my data' holds a character that does not belong in a mount point; wanted letters, digits and / . _ + : @ -"),
    (volume(mount="/data#1"), V + ".mount: '/data#1' holds a character that does not belong in a mount point; wanted letters, digits and / . _ + : @ -"),
    (volume(mount="/data'"), V + ".mount: '/data'' holds a character that does not belong in a mount point; wanted letters, digits and / . _ + : @ -"),
    (volume(mount="/data%i"), V + ".mount: '/data%i' holds a character that does not belong in a mount point; wanted letters, digits and / . _ + : @ -"),
    (volume(mount="/data02"), "plumbline_stacks: two volumes are to be mounted on '/data02'"),
    # labels
    (volume(label="a" * 17), V + ".label: '%s' does not fit; wanted 1 to 16 letters, digits and _ . : - (ext4 keeps 16 bytes)" % ("a" * 17)),
    (volume(label=""), V + ".label: '' does not fit; wanted 1 to 16 letters, digits and _ . : - (ext4 keeps 16 bytes)"),
    (volume(label="a b"), V + ".label: 'a b' does not fit; wanted 1 to 16 letters, digits and _ . : - (ext4 keeps 16 bytes)"),
    (volume(label="pgdata-wal"), "plumbline_stacks: two filesystems are labelled 'pgdata-wal'; set 'label' on one of them"),
    # mount options
    (volume(mount_options="noatime"), V + ".mount_options: found a string; wanted a list of strings"),
    (volume(mount_options=["noatime,nodiratime"]), V + ".mount_options: 'noatime,nodiratime' does not fit; wanted one option a list item, such as noatime"),
    (volume(mount_options=["noatime", "noatime"]), V + ".mount_options: option 'noatime' is named twice"),
    (volume(mount_options=["noload"]), V + ".mount_options: 'noload' is not taken: what was committed before a crash would not be replayed"),
    (volume(mount_options=["barrier=00"]), V + ".mount_options: 'barrier=00' does not fit; wanted barrier=0 or barrier=1"),
    (volume(mount_options=["nobarrier", "barrier=1"]), V + (
        ".mount_options: 'nobarrier' and 'barrier=1' say different things, or the same twice; wanted one of them"
    )),
    (volume(mount_options=["noatime", "strictatime"]), V + ".mount_options: 'noatime' and 'strictatime' say different things; wanted one of them"),
    (volume(mount_options=["noatime", "atime"]), V + ".mount_options: 'noatime' and 'atime' say different things; wanted one of them"),
    (volume(mount_options=["commit=10", "commit=20"]), V + ".mount_options: 'commit=10' and 'commit=20' say different things; wanted one of them"),
    (volume(mount_options=["nosuid", "suid"]), V + ".mount_options: 'nosuid' and 'suid' say different things; wanted one of them"),
    (volume(mount_options=["usrquota", "noquota"]), V + ".mount_options: 'usrquota' and 'noquota' say different things; wanted one of them"),
    (volume(mount_options=["init_itable=20", "noinit_itable"]), V + (
        ".mount_options: 'init_itable=20' and 'noinit_itable' say different things; wanted one of them"
    )),
    (volume(mount_options=["bsdgroups", "nogrpid"]), V + ".mount_options: 'bsdgroups' and 'nogrpid' say different things; wanted one of them"),
    (volume(mount_options=["minixdf", "bsddf"]), V + ".mount_options: 'minixdf' and 'bsddf' say different things; wanted one of them"),
    (volume(mount_options=["sync", "async"]), V + ".mount_options: 'sync' and 'async' say different things; wanted one of them"),
    (volume(mount_options=["dioread_lock", "dioread_nolock"]), V + (
        ".mount_options: 'dioread_lock' and 'dioread_nolock' say different things; wanted one of them"
    )),
    (volume(mount_options=["context=a:b:c:s0"], selinux_context="a:b:d:s0"), V + (
        ": 'selinux_context' and the mount option 'context=a:b:c:s0' exclude each other: with the latter no file of the volume has a label of its own"
    )),
    (volume(owner="4294967295"), V + ".owner: 4294967295 is larger than any number of a user; wanted at most 4294967294"),
    (volume(group=9999999999), V + ".group: 9999999999 is larger than any number of a group; wanted at most 4294967294"),
    (stack(extent_size="2TiB"), S + ".extent_size: 2 TiB is above the largest that LVM takes, 1 TiB"),
    (volume(mount_options=["x-systemd.automount"]), V + (
        ".mount_options: 'x-systemd.automount' is not taken: systemd would put a mount of its own there at boot, and the volume comes when somebody looks: "
        "no run could tell whether it does"
    )),
    (volume(mount_options=["x-a=" + "b" * 900]), V + ".mount_options: together they are 904 characters; wanted at most 900"),
    (volume(mount_options=["data=ordered", "data=writeback"]), V + (
        ".mount_options: 'data=ordered' and 'data=writeback' say different things, or the same twice; wanted one of them"
    )),
    (volume(mount_options=["journal_async_commit"]), V + (
        ".mount_options: 'journal_async_commit' breaks the promise of data=ordered, and ext4 does not mount it so; wanted data=journal beside it, or neither"
    )),
    (volume(mount_profile="benchmark"), V + (
        ".mount_profile: 'benchmark' is not known (did you mean 'benchmark_2016'?); wanted one of default, benchmark_2016"
    )),
    (volume(mount_profile="default", mount_options=["noatime"]), V + (
        ": 'mount_options' and 'mount_profile' are both given; a profile is a list of options, so wanted one of them"
    )),
    (volume(mount=GONE, mount_profile="default"), V + ".mount_profile: the volume has no 'mount'"),
    (volume(mount_options=["nofail"]), V + ".mount_options: 'nofail' is not taken here"),
    (volume(mount_options=["ro"]), V + ".mount_options: 'ro' is not taken here"),
    (volume(mount_options=["noauto"]), V + ".mount_options: 'noauto' is not taken here"),
    (volume(mount_options=["remount"]), V + ".mount_options: 'remount' is not taken here"),
    (volume(mount_options=["errors=panic"]), V + ".mount_options: 'errors=panic' is not taken here; set 'errors'"),
    (volume(mount_options=["x-systemd.device-timeout=5s"]), V + ".mount_options: 'x-systemd.device-timeout=5s' is not taken here"),
    (volume(device_timeout="5 minutes"), V + ".device_timeout: '5 minutes' does not fit; wanted a number with one unit of s, min, h, such as 90s or 5min"),
    (volume(device_timeout="0s"), V + ".device_timeout: 0s does not fit; wanted 10s to 24h"),
    (volume(device_timeout="25h"), V + ".device_timeout: 25h does not fit; wanted 10s to 24h"),
    (volume(device_timeout=90), V + ".device_timeout: '90' does not fit; wanted a number with one unit of s, min, h, such as 90s or 5min"),
    (volume(errors="remount_ro"), V + ".errors: 'remount_ro' is not known (did you mean 'remount-ro'?); wanted one of continue, remount-ro, panic"),
    # owner, mode and the rest
    (volume(mode=750), V + ".mode: 750 is a number, which YAML may have read as octal; write it in quotes, for example '0750'"),
    (volume(mode=0o750), V + ".mode: 488 is a number, which YAML may have read as octal; write it in quotes, for example '0750'"),
    (volume(mode="u=rwx"), V + ".mode: 'u=rwx' does not fit; wanted an octal mode in quotes, for example '0750'"),
    (volume(mode="0789"), V + ".mode: '0789' does not fit; wanted an octal mode in quotes, for example '0750'"),
    (volume(owner="Post Gres"), V + ".owner: 'Post Gres' does not fit; wanted a user name or a number"),
    (volume(owner=True), V + ".owner: 'True' does not fit; wanted a user name or a number"),
    (volume(group="-x"), V + ".group: '-x' does not fit; wanted a group name or a number"),
    (volume(bytes_per_inode="512B"), V + ".bytes_per_inode: 512 B does not fit; wanted 1 KiB to 64 MiB"),
    (volume(bytes_per_inode="128MiB"), V + ".bytes_per_inode: 128 MiB does not fit; wanted 1 KiB to 64 MiB"),
    (volume(bytes_per_inode=16384), V + ".bytes_per_inode: '16384' has no unit; " + UNITS),
    (volume(discard="fstrim"), V + ".discard: 'fstrim' is not known (did you mean 'timer'?); wanted one of timer, none"),
    (volume(discard="time"), V + ".discard: 'time' is not known (did you mean 'timer'?); wanted one of timer, none"),
    (volume(selinux_context="postgresql_db_t"), V + ".selinux_context: 'postgresql_db_t' does not fit; wanted user:role:type:level"),
    (volume(required_by="postgresql.service"), V + ".required_by: found a string; wanted a list of strings"),
    (volume(required_by=["postgresql"]), V + ".required_by: 'postgresql' does not fit; wanted names of systemd units, such as postgresql.service"),
    (volume(required_by=["../x.service"]), V + ".required_by: '../x.service' does not fit; wanted names of systemd units, such as postgresql.service"),
    (volume(lazy_init="yes"), V + ".lazy_init: 'yes' does not fit; wanted true or false"),
    (volume(mount=GONE, owner="postgres"), V + ".owner: the volume has no 'mount'"),
    (volume(mount=GONE, mount_options=[]), V + ".mount_options: the volume has no 'mount'"),
    (volume(mount=GONE, mode="0700"), V + ".mode: the volume has no 'mount'"),
    # between stacks
    ([GOOD, dict(GOOD)], "plumbline_stacks: two stacks are named 'pgdata'"),
    ([GOOD, dict(GOOD, name="other")], "plumbline_stacks: device '/dev/disk/by-id/nvme-FLASH_1' is named twice" + more(3, "plumbline_stacks")),
    ([GOOD, dict(GOOD, name="other", devices=["c", "d"])], "plumbline_stacks: two volumes are to be mounted on '/data01'" + more(1, "plumbline_stacks")),
    # several at once
    (changed(((0, "reserve"), "10"), ((0, "layuot"), "striped"), ((0, "volumes", 0, "mode"), 750), ((0, "volumes", 1, "size"), "3 GB")), (
        "plumbline_stacks[0]: unknown key 'layuot' (did you mean 'layout'?); " + STACK_KEYS + more(3, V + ".mode", S + ".volumes[wal].size", S + ".reserve")
    )),
    ([dict(GOOD, reserve="95%"), dict(GOOD, name="Other")], (
        S + ".reserve: 95% leaves too little of the device; wanted at most 90%" + more(1, "plumbline_stacks[1].name")
    )),
    # what the host would refuse when the tables are written
    *((stack(name=name), "plumbline_stacks[%s].name: a volume group is a directory below /dev, and '%s' is a name that the kernel or udev uses there; "
       "choose another" % (name, name)) for name in ("log", "disk", "shm", "mapper", "input", "block", "null", "sda", "nvme0", "md0", "tty", "vcs7", "ttys1")),
    (stack(stripe_size="256MiB", extent_size="256MiB"), S + ".stripe_size: 256 MiB is above the largest, 128 MiB: ext4 keeps the stride in 16 bits"),
    (stack(devices=["d%d" % number for number in range(65)]), S + ".devices: found 65 devices; wanted at most 64"),
    (volume(mount_options=["noatme"]), V + ".mount_options: 'noatme' is no mount option that is known here (did you mean 'noatime'?); where your kernel "
     "has it, set accept: [unknown_mount_options] on the stack"),
    (
        volume(mount_options=["commit=5s"]),
        V + ".mount_options: 'commit=5s' does not fit; wanted a whole number below a million, without leading zeros behind the =",
    ),
    (
        volume(mount_options=["commit=030"]),  # which the kernel takes for 24
        V + ".mount_options: 'commit=030' does not fit; wanted a whole number below a million, without leading zeros behind the =",
    ),
    (volume(mount_options=["commit"]), V + ".mount_options: 'commit' does not fit; it wants a value, a whole number below a million, without leading zeros"),
    (volume(mount_options=["noatime=1"]), V + ".mount_options: 'noatime=1' does not fit; it takes no value"),
    (volume(mount_options=["users"]), V + ".mount_options: 'users' is not taken: it lets others mount the volume, and no kernel shows it, so that no run "
     "could tell whether it holds"),
    (volume(mount_options=["X-mount.subdir=a"]), V + (
        ".mount_options: 'X-mount.subdir=a' is not taken: the volume would not be mounted, but a directory of it"
    )),
    (volume(mount_options=["dax=always"]), V + ".mount_options: 'dax=always' does not fit; wanted inode or never, since no SSD is memory behind the ="),
    (volume(mount_options=["data=journal", "delalloc"]), V + (
        ".mount_options: 'delalloc' and 'data=journal' exclude each other, and ext4 does not mount so; wanted one of them"
    )),
    (stack(layout="seperate"), S + ".layout: 'seperate' is not known (did you mean 'separate'?); wanted one of striped, linear, separate"),
    # a geometry for nobody
    (stack(geometry=[{"model": None, "grain": "16KiB"}]), S + ".geometry[0].model: found nothing; wanted a model name or a shell pattern such as MZQL2*"),
    (stack(geometry=[{"device": ["a"], "grain": "16KiB"}]), S + ".geometry[0].device: found a list; wanted a name below /dev/disk/by-id"),
    (stack(geometry=[{"model": " ", "grain": "16KiB"}]), S + ".geometry[0].model: found a string; wanted a model name or a shell pattern such as MZQL2*"),
    # sizes
    (volume(size=70), V + ".size: '70' has no unit; " + UNITS + ", or % (did you mean '70%'?)"),
    (volume(size="1PiB"), V + ".size: '1PiB' has the unit 'PiB'; " + UNITS + "; 1PiB are 1024 TiB"),
    (stack(stripe_size="AUTO"), S + ".stripe_size: 'AUTO' does not fit (did you mean 'auto'?); wanted 'auto' or a size such as 64KiB"),
]  # fmt: skip


@pytest.mark.parametrize("raw, line", BAD, ids=[str(number) for number in range(len(BAD))])
def test_refused(raw, line):
    assert refusal(raw) == line


SYSTEM = sorted(mount_path.SYSTEM_DIRECTORIES)
SYSTEM += ["/proc/x", "/sys/fs", "/dev/shm", "/run/lock", "/boot/grub", "/etc/pg", "/bin/x", "/sbin/x", "/lib/x", "/lib64/x"]


@pytest.mark.parametrize("path", SYSTEM)
def test_system_directories(path):
    assert refusal(volume(mount=path)) == V + ".mount: '%s' belongs to the system; mounting over it would hide what is there" % path


@pytest.mark.parametrize(
    "path",
    [
        "/data01",
        "/srv/pg",
        "/var/lib/postgresql",
        "/var/lib/mysql/data",
        "/opt/db",
        "/home/db",
        "/mnt/a",
        "/usr/local/pg",
        "/a.b_c+d:e@f-g",
        "/procs",
        "/" + "a" * 254,
    ],
)
def test_mount_points_that_are_taken(path):
    assert read_stacks(volume(mount=path))[0].volumes[0].mount == path


TRAILING = [
    stack(name="pgdata\n"), stack(devices=["a\n", "b"]), volume(name="data\n"), volume(mount="/data01\n"),
    volume(label="x\n"), volume(mount_options=["noatime\n"]),
    volume(owner="postgres\n"), volume(group="postgres\n"), volume(mode="0750\n"), volume(required_by=["a.service\n"]), volume(selinux_context="a:b:c:s0\n"),
]  # fmt: skip


@pytest.mark.parametrize("raw", TRAILING, ids=[str(number) for number in range(len(TRAILING))])
def test_a_trailing_newline_is_no_part_of_a_word(raw):
    """As a YAML block scalar leaves one; it would end up in fstab or in a file's name."""
    with pytest.raises(PlumblineError):
        read_stacks(raw)


@pytest.mark.parametrize(
    "name",
    ["ata-KINGSTON SV300_50026B77", "scsi-SATA\\x20DISK_1", "usb-Мой_диск-0:0", "nvme-eui.0025385391b15a3f", "wwn-0x5000c500a1b2c3d4"],
)
def test_names_as_udev_makes_them(name):
    assert read_stacks(stack(devices=[name, "b"]))[0].devices[0].path == "/dev/disk/by-id/" + name


def test_a_mistyped_acceptance_takes_none_of_the_others():
    raw = changed(((0, "accept"), ["shared_controler", "unknown_mount_options"]), ((0, "volumes", 0, "mount_options"), ["brandnew"]))
    assert refusal(raw).startswith(S + ".accept: 'shared_controler' is not known") and "more" not in refusal(raw)


def test_many_names_cost_little():
    volumes = [{"name": "v%d" % (number % 20000), "size": "0.001%"} for number in range(20001)] + [{"name": "v9", "size": "1%"}]
    with pytest.raises(PlumblineError, match=r"two volumes are named 'v0' \(and 1 more"):
        read_stacks(stack(volumes=volumes))


def linear(**more):
    return stack(**{"layout": "linear", "devices": ["nvme-A"], **more})


def test_one_device_with_several_volumes():
    (found,) = read_stacks(linear(extent_size="4MiB"))
    assert (found.layout, found.grouped, found.legs, len(found.volumes)) == ("linear", True, 1, 2)


@pytest.mark.parametrize(
    "raw, line",
    [
        (linear(devices=["a", "b"]), S + ".devices: layout 'linear' is for one device; found 2; use layout 'striped' for several"),
        (linear(stripe_size="64KiB"), S + ".stripe_size: layout 'linear' has no stripes; leave it out"),
        (linear(name="disk"), (
            "plumbline_stacks[disk].name: a volume group is a directory below /dev, and 'disk' is a name that the kernel or udev uses there; choose another"
        )),
    ],
)  # fmt: skip
def test_what_one_device_does_not_take(raw, line):
    assert refusal(raw) == line


def test_no_stacks_are_nothing_to_do():
    assert read_stacks([]) == []


@pytest.mark.parametrize("name", "pgdata logs data db wal nvme disks loopback raid sand mdata usbdata raw zfs log2 video core1".split())
def test_names_that_are_nobody_elses(name):
    assert read_stacks(stack(name=name))[0].name == name


def test_a_stack_without_a_volume_group_may_have_any_name():
    volumes = [{"name": "a", "mount": "/a"}, {"name": "b", "mount": "/b"}]
    assert read_stacks(stack(name="log", layout="separate", volumes=volumes))[0].name == "log"


def test_options_that_go_together():
    together = ["usrquota", "grpquota", "noatime", "nodiratime", "relatime", "nosuid", "nodev", "x-systemd.requires=a", "x-systemd.requires=b", "init_itable=5"]
    (read,) = read_stacks(volume(mount_options=together))
    assert list(read.volumes[0].mount_options) == together


@pytest.mark.parametrize("name", ["postgres", "Postgres", "postgres@db.example.com", "EXAMPLE\\postgres", "host$", "0", "4294967294"])
def test_owners_as_a_host_may_know_them(name):
    (read,) = read_stacks(volume(owner=name, group=name))
    assert (read.volumes[0].owner, read.volumes[0].group) == (name, name)


def test_a_mount_option_that_nobody_knows_is_taken_by_somebodys_word():
    raw = changed(((0, "accept"), ["unknown_mount_options"]), ((0, "volumes", 0, "mount_options"), ["noatime", "brandnew=7"]))
    assert read_stacks(raw)[0].volumes[0].mount_options == ("noatime", "brandnew=7")
    with pytest.raises(PlumblineError, match="'users' is not taken"):
        read_stacks(changed(((0, "accept"), ["unknown_mount_options"]), ((0, "volumes", 0, "mount_options"), ["users"])))


# --- good ones -------------------------------------------------------------------------------------


def test_defaults():
    (found,) = read_stacks([GOOD])
    assert found.devices == (DeviceName("/dev/disk/by-id/nvme-FLASH_1"), DeviceName("/dev/disk/by-id/nvme-FLASH_2"))
    assert (found.name, found.layout, found.legs, found.selector) == ("pgdata", "striped", 2, None)
    assert (found.reserve, found.stripe_bytes, found.extent_bytes) == ({"percent": 10.0}, 0, 0)
    assert (found.overrides, found.accept, found.blank_proof) == ((), (), "sampled")
    data, wal = found.volumes
    assert (data.percent, data.size_bytes, data.mount, data.label) == (70.0, 0, "/data01", "pgdata-data")
    assert (data.mount_options, data.owner, data.group, data.mode) == (("noatime",), "", "", "")
    assert (data.bytes_per_inode, data.discard, data.selinux_context, data.required_by, data.lazy_init) == (0, "timer", "", (), False)
    assert read_stacks(stack(volumes=[{"name": "a", "mount": "/a", "device_timeout": "90s"}]))[0].volumes[0].fstab_options.endswith("timeout=90s")
    assert wal.fstab_options == "noatime,nofail,x-systemd.device-timeout=5min"


@pytest.mark.parametrize(
    "raw, member, expected",
    [
        (stack(reserve="0%"), "reserve", {"percent": 0.0}),
        (stack(reserve=0), "reserve", {"percent": 0.0}),
        (stack(reserve="0"), "reserve", {"percent": 0.0}),
        (stack(reserve="12.5%"), "reserve", {"percent": 12.5}),
        (stack(reserve="100GiB"), "reserve", {"bytes": 100 * GIB}),
        (stack(stripe_size="auto"), "stripe_bytes", 0),
        (stack(stripe_size="8KiB"), "stripe_bytes", 8 * KIB),
        (stack(extent_size="128MiB"), "extent_bytes", 128 * MIB),
        (stack(devices=["/dev/sdb", "/dev/disk/by-id/x"]), "devices", (DeviceName("/dev/sdb"), DeviceName("/dev/disk/by-id/x"))),
        (stack(devices=[{"path": "/dev/loop0", "test_identity": "a"}, {"path": "y"}]), "devices",
         (DeviceName("/dev/loop0", "a"), DeviceName("/dev/disk/by-id/y"))),
        (stack(devices={"model": "MZQL2*", "min_size": "900GiB", "count": 3}), "selector", Selector("MZQL2*", 3, 900 * GIB, 0)),
        (stack(devices={"model": "MZQL2*", "count": 3}), "legs", 3),
        (stack(geometry=[{"model": "X*", "grain": "16KiB", "alignment_offset": "4KiB"}]), "overrides",
         (Override("X*", "", {"grain": 16384, "alignment_offset": 4096}),)),
        (stack(geometry=[{"device": "nvme-A", "alignment_offset": "3584B"}]), "overrides", (Override("", "nvme-A", {"alignment_offset": 3584}),)),
        (stack(accept=["shared_controller"], blank_proof="full"), "blank_proof", "full"),
        (stack(), "discard", True),
        (stack(discard=False), "discard", False),
    ],
)  # fmt: skip
def test_stack_members(raw, member, expected):
    assert getattr(read_stacks(raw)[0], member) == expected


@pytest.mark.parametrize(
    "raw, member, expected",
    [
        (volume(size="100GiB"), "size_bytes", 100 * GIB),
        (volume(size="100GiB"), "percent", 0.0),
        (volume(size="33.3%"), "percent", 33.3),
        (volume(size="80%"), "percent", 80.0),
        (volume(mode="750"), "mode", "0750"),
        (volume(mode="2770"), "mode", "2770"),
        (volume(owner=999), "owner", "999"),
        (volume(owner="postgres", group="postgres"), "group", "postgres"),
        (volume(mount_options=[]), "mount_options", ()),
        (volume(mount_options=["noatime", "nodelalloc"], errors="remount-ro"), "mount_options", ("noatime", "nodelalloc", "errors=remount-ro")),
        (volume(bytes_per_inode="64KiB"), "bytes_per_inode", 65536),
        (volume(discard="none"), "discard", "none"),
        (volume(lazy_init=True), "lazy_init", True),
        (volume(label="pg"), "label", "pg"),
        (volume(name="a_rather_long_name"), "label", "a_rather_long_na"),
        (volume(required_by=["postgresql@15-main.service"]), "required_by", ("postgresql@15-main.service",)),
        (volume(selinux_context="system_u:object_r:postgresql_db_t:s0"), "selinux_context", "system_u:object_r:postgresql_db_t:s0"),
        (changed(((0, "accept"), ["data_loss_on_power_cut"]), ((0, "volumes", 0, "mount_options"), ["barrier=0"])), "mount_options", ("barrier=0",)),
        (changed(((0, "accept"), ["stale_data_after_crash"]), ((0, "volumes", 0, "mount_options"), ["data=writeback"])), "mount_options", ("data=writeback",)),
        (volume(mount=GONE), "mount", ""),
        (stack(volumes=[{"name": "all"}]), "percent", 100.0),
        (stack(layout="separate", volumes=[{"name": "a"}, {"name": "b", "size": "100%"}]), "percent", 100.0),
    ],
)
def test_volume_members(raw, member, expected):
    assert getattr(read_stacks(raw)[0].volumes[0], member) == expected


@pytest.mark.parametrize(
    "keys, options, profile",
    [
        ({}, ("noatime",), "default"),
        ({"mount_profile": "default"}, ("noatime",), "default"),
        ({"mount_profile": "benchmark_2016"}, ("noatime", "nodiratime", "nodelalloc", "barrier=0", "data=writeback"), "benchmark_2016"),
        ({"mount_profile": "benchmark_2016", "errors": "panic"}, (*EXT4.options.profiles["benchmark_2016"], "errors=panic"), "benchmark_2016"),
        ({"mount_options": ["noatime"]}, ("noatime",), ""),
        ({"mount_options": []}, (), ""),
    ],
)
def test_mount_profiles(keys, options, profile):
    """A profile is a list of options; whether they may be is judged when the devices are known."""
    found = read_stacks(volume(**keys))[0].volumes[0]
    assert (found.mount_options, found.mount_profile) == (options, profile)


def test_shares_that_add_up_to_a_hundred():
    """Shares with a decimal that add up exactly are never taken for more than 100 % because of binary fractions."""
    dice = random.Random(8)
    for _row in range(2000):
        cuts = sorted(dice.sample(range(1, 1000), dice.randrange(1, 7)))
        tenths = [high - low for low, high in zip([0] + cuts, cuts + [1000])]
        volumes = [{"name": "v%d" % number, "size": "%d.%d%%" % divmod(part, 10)} for number, part in enumerate(tenths)]
        assert len(read_stacks(stack(volumes=volumes))[0].volumes) == len(tenths)
        volumes[0]["size"] = "%d.%d1%%" % divmod(tenths[0], 10)
        assert "the sizes add up to" in refusal(stack(volumes=volumes))


def test_any_mistyped_key_is_named_with_its_nearest():
    """Every key with one letter doubled, dropped or swapped is refused, and its own name offered."""
    rows = 0
    for level, keys in (("stack", read_spec._STACK_KEYS), ("volume", read_volumes._VOLUME_KEYS)):
        for key in keys:
            for at in range(1, len(key)):
                for wrong in (key[:at] + key[at] * 2 + key[at + 1 :], key[:at] + key[at + 1 :], key[: at - 1] + key[at] + key[at - 1] + key[at + 1 :]):
                    if wrong in keys:
                        continue
                    line = refusal(stack(**{wrong: 1}) if level == "stack" else volume(**{wrong: 1}))
                    assert "unknown key '%s' (did you mean '" % wrong in line, line
                    rows += 1
    assert rows > 400


@pytest.mark.parametrize(
    "names, line",
    [
        (["plumbline_stack"], "unknown variable 'plumbline_stack' (did you mean 'plumbline_stacks'?)"),
        (["plumbline_stacks", "plumbline_instal"], "unknown variable 'plumbline_instal' (did you mean 'plumbline_install'?)"),
        (["plumbline_xyz_nonsense_word"], "unknown variable 'plumbline_xyz_nonsense_word'"),
    ],
)
def test_unknown_variables(names, line):
    with pytest.raises(PlumblineError) as caught:
        read_spec.check_variables(names)
    assert caught.value.msg.startswith(line)
    assert caught.value.msg.endswith("; the public variables are " + ", ".join(read_spec.VARIABLES))


def test_known_variables():
    read_spec.check_variables([*read_spec.VARIABLES, "plumbline_x_disks"])


@pytest.mark.parametrize("word, valid, expected", [("reserv", ["reserve"], " (did you mean 'reserve'?)"), ("xyz", ["reserve"], ""), ("", ["reserve"], "")])
def test_nearest(word, valid, expected):
    assert nearest(word, valid) == expected
