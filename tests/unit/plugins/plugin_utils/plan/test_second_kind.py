# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A second filesystem, and a further layout, cost their own file and a row: nothing else has to know them."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Filesystem, Mount, Segment, Signature
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import KIB
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kind import FilesystemKind
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kinds import FILESYSTEMS, kind_of_mount
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.mount_options import VFS_FLAGS, VFS_OPPOSITES, VFS_SILENT, MountOptions
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.static_proof import view
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.layouts import LAYOUTS, Layout
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.packages import packages_of
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_spec import read_stacks
from ansible_collections.plumbline.ssd.plugins.plugin_utils.stack_table import view_report
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, MIB, Host


class OtherKind(FilesystemKind):
    """Nothing of it is ext4's: another name, tool, magic and options, one of them a number that no remount changes."""

    family, name, types = "other", "other", ("other",)
    tool, package = "mkfs.other", "otherprogs"
    smallest, too_small = 16 * MIB, "in which it has no room"
    longest_label, largest_stripe, stripe_bits = 12, MIB, "it keeps little"
    superblock = (0, 512)
    stripe_rule, shape_words, new_uuid, set_label = "other_stripe", "sunit and swidth", "other_admin -U", "other_admin -L"
    restore = "other_repair %s"
    options = MountOptions(
        filesystem="other",
        profiles={"default": ("noatime", "fast")},
        flags=VFS_FLAGS | {"fast"},
        values={"logs": ("[1-9]", "1 to 9")},
        cannot_hold={},
        settings={},
        alone={},
        shown={},
        silent=VFS_SILENT,
        silent_starts=(),
        opposites=VFS_OPPOSITES,
        numbers={"logs=": ""},
        brings={},
        uncertain=(),
        modes=(),
        by_no_remount=("logs=",),
        examples={},
        needs={},
    )

    def parse(self, raw):
        return Filesystem("other", "u", "l", 4096, 25600, 16, 32, 0, family="other") if raw[:4] == b"OTHR" else None

    def mark(self, at, base):
        return Signature("other", "filesystem", base) if at(base, 4) == b"OTHR" else None

    def copies(self, size):
        return [size // 2]

    def mkfs_options(self, made):
        return "-l %s -s %d" % (made.label, made.stride)

    def shape(self, stride, stripe_width):
        return "sunit %d" % stride, "swidth %d" % stripe_width

    def changes(self, found, size):
        return []

    def made_otherwise(self, found, options):
        return []

    def mounted_otherwise(self, found, live):
        return []


@pytest.fixture
def other(monkeypatch):
    monkeypatch.setitem(FILESYSTEMS, "other", OtherKind())


def spec_of(host, devnos, **more):
    devices = [host.seen.link(devno) for devno in devnos]
    volumes = [{"name": "data", "mount": "/data", "filesystem": "other", **more}]
    return [{"name": "pg", "devices": devices, "volumes": volumes}]


@pytest.mark.usefixtures("other")
def test_a_volume_of_another_kind_is_planned():
    host = Host()
    stacks = read_stacks(spec_of(host, host.pair(2)))
    assert stacks[0].volumes[0].mount_options == ("noatime", "fast") and stacks[0].volumes[0].label == "pg-data"
    plan = make_plan(stacks, host.seen)
    (made,) = [step for step in plan.steps if step["action"] == "filesystem"]
    stride = plan.stacks[0].volumes[0].stride
    assert (made["fstype"], made["options"]) == ("other", "-l pg-data -s %d" % stride) and "other 'pg-data' on" in made["summary"]
    (mount,) = [mount for step in plan.steps if step["action"] == "mount" for mount in step["mounts"]]
    assert (mount["fstype"], mount["passno"]) == ("other", 0) and mount["options"].startswith("noatime,fast,")
    host.seen.tools = {}
    assert "otherprogs" in packages_of(host.seen, ["mkfs.other"])


@pytest.mark.usefixtures("other")
@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"filesystem": "zfs"}, "filesystem: 'zfs' is not known (did you mean 'xfs'?); wanted one of ext4, xfs, other"),
        ({"label": "thirteen-long"}, "(other keeps 12 bytes)"),
        ({"filesystem": "ext4", "mount_options": ["fast"]}, "'fast' is no mount option that is known here"),
        ({"mount_options": ["data=ordered"]}, "'data=ordered' is no mount option that is known here"),
        ({"errors": "panic"}, "errors: a filesystem of the kind other has no use for it"),
        ({"bytes_per_inode": "64KiB"}, "bytes_per_inode: a filesystem of the kind other has no use for it"),
    ],
)
def test_each_kind_has_its_own_limits(more, words):
    host = Host()
    with pytest.raises(PlumblineError) as refused:
        read_stacks(spec_of(host, host.pair(2), **more))
    assert words in " ".join([refused.value.msg, *refused.value.reasons])


@pytest.mark.parametrize(("live", "refused"), [("logs=4", []), ("logs=2", [("logs=2", "logs=4")]), ("", [("no logs", "logs=4")])])
def test_a_number_that_no_remount_changes(live, refused):
    assert OtherKind.options.wants_unmount(("noatime", "logs=4"), tuple(filter(None, ("rw", live)))) == refused


@pytest.mark.usefixtures("other")
def test_what_stands_is_judged_by_its_kind():
    host = Host()
    parts = [host.part(disk, MIB, 50 * GIB) for disk in host.pair(2)]
    volume = host.mapped("pg-data", [Segment(0, 40 * GIB, "striped", 64 * KIB, tuple((part, MIB) for part in parts))])
    host.seen.filesystems[volume] = FILESYSTEMS["other"].parse(b"OTHR")
    host.seen.mounts.append(Mount(volume, "/data", "other", ("rw", "noatime")))
    report = "\n".join(view_report(view(host.seen, volume)))
    assert "other, sunit 16, swidth 32" in report and kind_of_mount("other").name == "other" and kind_of_mount("nfs") is None


def test_a_kind_that_is_not_the_wanted_one_is_refused():
    host = Host()
    devnos = host.pair(2)
    stacks = read_stacks([{**spec_of(host, devnos)[0], "volumes": [{"name": "data", "mount": "/data"}]}])
    host.build(stacks)
    volume = next(devno for devno in host.seen.filesystems)
    host.seen.filesystems[volume] = host.seen.filesystems[volume]._replace(kind="ext4")
    assert not make_plan(stacks, host.seen).refusals
    FILESYSTEMS["other"] = OtherKind()
    try:
        host.seen.filesystems[volume] = host.seen.filesystems[volume]._replace(kind="other")
        assert any("other" in reason and "ext4" in reason for reason in make_plan(stacks, host.seen).refusals)
    finally:
        del FILESYSTEMS["other"]


def test_a_further_layout_is_a_row(monkeypatch):
    row = Layout("threes", True, "striped", 3, 3, "layout 'threes' is for three devices; found %d")
    monkeypatch.setitem(LAYOUTS, "threes", row)
    host = Host()
    devnos = [host.disk() for _number in range(3)]
    wanted = {"name": "pg", "devices": [host.seen.link(devno) for devno in devnos], "layout": "threes", "volumes": [{"name": "data", "mount": "/data"}]}
    plan = make_plan(read_stacks([wanted]), host.seen)
    (volume,) = [step for step in plan.steps if step["action"] == "logical_volume"]
    assert volume["stripes"] == 3 and not plan.refusals
    with pytest.raises(PlumblineError, match="is for three devices; found 2"):
        read_stacks([{**wanted, "devices": wanted["devices"][:2]}])
