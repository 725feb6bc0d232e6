# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import random

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import proc_files, tool_output
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import FstabEntry, Mount, Segment, Signature
from ansible_collections.plumbline.ssd.plugins.module_utils._block.lvm import Lv, Pv, Vg
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import MIB, fixture


def text(name):
    return fixture(name).decode()


# --- LVM -------------------------------------------------------------------------------------------


def test_lvm_report_of_the_lab():
    lvm = tool_output.parse_lvm(text("lvm_fullreport.json"))
    assert lvm.vgs == (Vg("pgdata", 4 * MIB, 3684, 370),)
    assert lvm.pvs == (
        Pv("259:4", "/dev/nvme0n1p1", "2FFx97-hpvr-ZFLe-yppX-RPfV-TT4V-yFDsAC", "pgdata", MIB, 1842),
        Pv("259:2", "/dev/nvme1n1p1", "eRTj5S-JSRE-y5wA-PZ6c-KPoF-Bk0Q-9ED9nc", "pgdata", MIB, 1842),
    )
    assert lvm.lvs == (
        Lv("pgdata", "data", 10812915712, 2, 65536, 1, ("striped",), True, ((2, 65536),)),
        Lv("pgdata", "wal", 3087007744, 2, 65536, 1, ("striped",), True, ((2, 65536),)),
    )


def report(**more):
    one = {"vg": [], "pv": [], "lv": [], "seg": [], "pvseg": []}
    one.update(more)
    return json.dumps({"report": [one]})


VG = {"vg_name": "v", "vg_extent_size": "4194304", "vg_extent_count": "10", "vg_free_count": "1"}
PV = {"pv_name": "/dev/sdb1", "pv_uuid": "u", "vg_name": "v", "pe_start": "1048576", "pv_pe_count": "5", "pv_major": "8", "pv_minor": "17"}


@pytest.mark.parametrize(
    "segments, expected",
    [
        ([("linear", "1", "0", "0")], (1, 0, 1, ("linear",))),
        ([("striped", "3", "8192", "0")], (3, 8192, 1, ("striped",))),
        ([("linear", "1", "0", "4194304"), ("striped", "2", "65536", "0")], (2, 65536, 2, ("linear", "striped"))),
        ([("raid1", "2", "0", "0")], (2, 0, 1, ("raid1",))),
        ([("thin", "0", "", "0")], (0, 0, 1, ("thin",))),
        ([], (0, 0, 0, ())),
    ],
)
def test_lv_kinds(segments, expected):
    rows = [{"lv_name": "data", "segtype": kind, "stripes": stripes, "stripe_size": size, "seg_start": start} for kind, stripes, size, start in segments]
    lv = {"vg_name": "v", "lv_name": "data", "lv_size": "8388608", "lv_active": "active"}
    (found,) = tool_output.parse_lvm(report(vg=[VG], lv=[lv], seg=rows)).lvs
    assert (found.stripes, found.stripe_bytes, found.segments, found.kinds) == expected


@pytest.mark.parametrize("state, active", [("active", True), ("", False), ("inactive", False)])
def test_lv_active(state, active):
    lv = {"vg_name": "v", "lv_name": "data", "lv_size": "8388608", "lv_active": state}
    assert tool_output.parse_lvm(report(vg=[VG], lv=[lv])).lvs[0].active is active


def test_pv_without_vg():
    (pv,) = tool_output.parse_lvm(report(pv=[dict(PV, vg_name="", pv_pe_count="0")])).pvs
    assert (pv.vg, pv.devno, pv.extents) == ("", "8:17", 0)


def test_missing_pv_is_no_device():
    (pv,) = tool_output.parse_lvm(report(vg=[VG], pv=[dict(PV, pv_name="[unknown]", pv_major="-1", pv_minor="-1")])).pvs
    assert pv.devno == "-1:-1"


def test_no_vgs_at_all():
    assert tool_output.parse_lvm('{"report": []}') == ((), (), ())


@pytest.mark.parametrize("broken", ["", "no json", "[]", "{}", '{"report"', "null"])
def test_lvm_report_unreadable(broken):
    with pytest.raises(PlumblineError) as caught:
        tool_output.parse_lvm(broken)
    assert caught.value.msg == ("the report of lvm could not be read: " + broken).strip()


def test_the_report_asks_for_what_is_read():
    fields = set(",".join(tool_output.LVM_REPORT).split(","))
    assert {"pe_start", "pv_major", "pv_minor", "vg_extent_size", "stripe_size", "segtype", "seg_start", "lv_active"} <= fields
    assert tool_output.LVM_REPORT[:2] == ("lvm", "fullreport") and "--nosuffix" in tool_output.LVM_REPORT


# --- device-mapper ---------------------------------------------------------------------------------


def test_dmsetup_of_the_lab():
    found = tool_output.parse_dm_tables(text("dmsetup_table.txt"))
    assert found == {
        "pgdata-data": (Segment(0, 10812915712, "striped", 65536, (("259:4", MIB), ("259:2", MIB))),),
        "pgdata-wal": (Segment(0, 3087007744, "striped", 65536, (("259:4", 10561536 * 512), ("259:2", 10561536 * 512))),),
    }


@pytest.mark.parametrize(
    "line, expected",
    [
        ("a: 0 100 linear 8:1 2048", Segment(0, 51200, "linear", 0, (("8:1", 1048576),))),
        ("a: 0 100 linear 8:1 1", Segment(0, 51200, "linear", 0, (("8:1", 512),))),
        ("a: 8 100 linear 8:1 0", Segment(4096, 51200, "linear", 0, (("8:1", 0),))),
        ("a: 0 96 striped 3 16 8:1 2048 8:17 4096 8:33 0", Segment(0, 49152, "striped", 8192, (("8:1", 1048576), ("8:17", 2097152), ("8:33", 0)))),
        ("a: 0 100 crypt aes-xts-plain64 :64:logon:cryptsetup:x 0 8:1 4096", Segment(0, 51200, "crypt", 0, (("8:1", 2097152),))),
        ("a: 0 100 crypt aes-xts-plain64 0000 0 8:1 32768 1 allow_discards", Segment(0, 51200, "crypt", 0, (("8:1", 16777216),))),
        ("a: 0 100 delay 8:1 0 5", Segment(0, 51200, "delay", 0, (("8:1", 0),))),
        ("a: 0 100 flakey 8:1 2048 5 1", Segment(0, 51200, "flakey", 0, (("8:1", 1048576),))),
        ("a: 0 100 thin-pool 253:0 253:1 128 0 0", Segment(0, 51200, "thin-pool", 0, ())),
        ("a: 0 100 multipath 0 0 1 1 service-time 0 1 2 8:0 1 1", Segment(0, 51200, "multipath", 0, ())),
        ("a: 0 100 error", Segment(0, 51200, "error", 0, ())),
        ("with: colon: 0 100 error", None),
        ("No devices found", None),
        ("", None),
        ("a: ", None),
    ],
)
def test_dm_line(line, expected):
    found = tool_output.parse_dm_tables(line + "\n")
    assert [segment for segments in found.values() for segment in segments] == ([expected] if expected else [])


def test_dm_segments_come_in_order():
    found = tool_output.parse_dm_tables("a: 200 100 linear 8:1 2048\na: 0 200 linear 8:17 2048\nb: 0 1 error\n")
    assert [segment.start for segment in found["a"]] == [0, 102400] and set(found) == {"a", "b"}


# --- mounts ----------------------------------------------------------------------------------------


def test_mountinfo_of_the_lab():
    assert proc_files.parse_mountinfo(text("mountinfo.txt")) == [
        Mount("254:0", "/", "ext4", ("rw", "noatime", "errors=remount-ro"), True),
        Mount("253:0", "/data01", "ext4", ("rw", "noatime", "stripe=32"), True),
        Mount("253:1", "/data02", "ext4", ("rw", "noatime", "stripe=32"), True),
    ]


@pytest.mark.parametrize(
    "line, expected",
    [
        (r"1 2 8:1 / /a\040b rw - ext4 /dev/sda1 rw", Mount("8:1", "/a b", "ext4", ("rw",), False)),
        (r"1 2 8:1 / /a\134b rw shared:1 master:2 - xfs /dev/sda1 rw,attr2", Mount("8:1", "/a\\b", "xfs", ("rw", "attr2"), False)),
        ("1 2 8:1 /sub /a ro,noatime - ext4 /dev/sda1 rw,errors=panic", Mount("8:1", "/a", "ext4", ("ro", "noatime", "rw", "errors=panic"), False, "/sub")),
        ("1 2 0:45 / /a rw - btrfs /dev/sda1 rw", None),
        ("1 2 8:1 / /a rw", None),
        ("", None),
        ("1 2 8:1 - ext4 /dev/sda1 rw", None),
    ],
)
def test_mountinfo_line(line, expected):
    assert proc_files.parse_mountinfo(line, here=False) == ([expected] if expected else [])


def test_fstab_of_the_lab():
    entries = proc_files.parse_fstab(text("fstab.txt"))
    assert entries[0] == FstabEntry("/dev/vda", "/", "ext4", ("noatime", "errors=remount-ro"), 0, 0)
    assert entries[1] == FstabEntry("UUID=f5c6ed2e-4c6a-5448-978d-7b743ef3a3fe", "/data01", "ext4", ("noatime", "nofail", "x-systemd.device-timeout=30s"), 0, 2)
    assert len(entries) == 3


@pytest.mark.parametrize(
    "line, expected",
    [
        ("/dev/a /b ext4", FstabEntry("/dev/a", "/b", "ext4", ("defaults",), 0, 0)),
        ("/dev/a /b ext4 ro", FstabEntry("/dev/a", "/b", "ext4", ("ro",), 0, 0)),
        ("/dev/a /b ext4 ro 1", FstabEntry("/dev/a", "/b", "ext4", ("ro",), 1, 0)),
        ("\t/dev/a\t\t/b  ext4 ro,noatime 1 2", FstabEntry("/dev/a", "/b", "ext4", ("ro", "noatime"), 1, 2)),
        ("/dev/a /b ext4 ro 1 2 # not a comment", FstabEntry("/dev/a", "/b", "ext4", ("ro",), 1, 2)),
        ("/dev/a /b ext4 ro x y", FstabEntry("/dev/a", "/b", "ext4", ("ro",), 0, 0)),
        ("/dev/a /b\\040c ext4 ro 0 0", FstabEntry("/dev/a", "/b c", "ext4", ("ro",), 0, 0)),
        ("/dev/a /b ext4 ro 0 2\r", FstabEntry("/dev/a", "/b", "ext4", ("ro",), 0, 2)),
        ("/dev/a /b\u00a0c ext4 ro 0 0", FstabEntry("/dev/a", "/b\u00a0c", "ext4", ("ro",), 0, 0)),
        ("/dev/a /b\x0cc ext4 ro 0 0", FstabEntry("/dev/a", "/b\x0cc", "ext4", ("ro",), 0, 0)),
        ("LABEL=x none swap sw 0 0", FstabEntry("LABEL=x", "none", "swap", ("sw",), 0, 0)),
        ("# /dev/a /b ext4", None),
        ("  #/dev/a /b ext4", None),
        ("", None),
        ("/dev/a /b", None),
    ],
)
def test_fstab_line(line, expected):
    assert proc_files.parse_fstab(line + "\n") == ([expected] if expected else [])


@pytest.mark.parametrize(
    "lines, expected",
    [
        ([], []),
        (["/dev/sda2 partition 100 0 -2"], ["/dev/sda2"]),
        (["/swap\\040file file 100 0 -2", "/dev/dm-1 partition 1 0 -3"], ["/swap file", "/dev/dm-1"]),
    ],
)
def test_swaps(lines, expected):
    assert proc_files.parse_swaps("\n".join(text("swaps.txt").splitlines() + lines) + "\n") == expected


def test_unescape_undoes_what_the_kernel_escapes():
    dice = random.Random(6)
    for _row in range(1000):
        path = "".join(dice.choice("ab/ \t\n\\#é") for _char in range(20))
        escaped = "".join("\\%03o" % ord(char) if char in " \t\n\\" else char for char in path)
        assert proc_files.unescape(escaped) == path


# --- signatures and the distribution ---------------------------------------------------------------


def test_wipefs_of_the_lab():
    found = tool_output.parse_wipefs(text("wipefs.json"))
    assert found["nvme0n1p1"] == [Signature("LVM2_member", "raid", 0x218, "2FFx97-hpvr-ZFLe-yppX-RPfV-TT4V-yFDsAC", "")]
    assert found["pgdata-data"][0].text == "ext4 filesystem at byte 1080 (label 'pgdata-data')"
    assert [signature.type for signature in found["nvme0n1"]] == ["gpt", "gpt", "PMBR"]
    assert found["nvme0n1"][1].offset == 0x1FFFFFE00


@pytest.mark.parametrize("nothing", ["", "\n", '{"signatures": []}'])
def test_wipefs_found_nothing(nothing):
    assert tool_output.parse_wipefs(nothing) == {}


@pytest.mark.parametrize("broken", ["{", "[]", "{}", "nothing"])
def test_wipefs_unreadable(broken):
    with pytest.raises(PlumblineError) as caught:
        tool_output.parse_wipefs(broken)
    assert caught.value.msg == "the report of wipefs could not be read: " + broken


@pytest.mark.parametrize(
    "content, expected",
    [
        (text("os-release"), ("debian",)),
        ("ID=ubuntu\nID_LIKE=debian\n", ("ubuntu", "debian")),
        ('ID_LIKE="rhel fedora"\nID="rocky"\n', ("rocky", "rhel", "fedora")),
        ("ID='sles'\nVERSION_ID=15\nID_LIKE='suse'\n", ("sles", "suse")),
        ("", ()),
    ],
)
def test_os_release(content, expected):
    assert proc_files.parse_os_release(content) == expected


def test_a_target_of_fstab_is_known_without_its_trailing_slash():
    assert [entry.target for entry in proc_files.parse_fstab("UUID=1 /data01/ ext4\nUUID=2 / ext4\n")] == ["/data01", "/"]


COVERS = {
    "nothing over it": ("30 1 253:0 / /data01 rw - ext4 /dev/dm-0 rw", {}),
    "a tmpfs on it": ("30 1 253:0 / /data01 rw - ext4 /dev/dm-0 rw\n31 30 0:40 / /data01 rw - tmpfs none rw", {"/data01": "tmpfs (none)"}),
    "a disk on it": ("30 1 253:0 / /data01 rw - ext4 /dev/dm-0 rw\n31 30 8:1 / /data01 rw - xfs /dev/sda1 rw", {"/data01": "xfs (/dev/sda1)"}),
    "on a directory above": ("30 1 253:0 / /pl/data rw - ext4 /dev/dm-0 rw\n31 1 0:40 / /pl rw - tmpfs none rw", {"/pl/data": "tmpfs (none) on /pl"}),
    "on the root": ("30 1 253:0 / /data rw - ext4 /dev/dm-0 rw\n31 1 0:40 / / rw - tmpfs none rw", {"/": "tmpfs (none)", "/data": "tmpfs (none) on /"}),
    "below it, and made before": ("29 1 0:40 / /pl rw - tmpfs none rw\n30 29 253:0 / /pl/data rw - ext4 /dev/dm-0 rw", {}),
    "inside of it": ("30 1 253:0 / /data rw - ext4 /dev/dm-0 rw\n31 30 0:40 / /data/tmp rw - tmpfs none rw", {}),
    "beside it": ("30 1 253:0 / /data rw - ext4 /dev/dm-0 rw\n31 1 0:40 / /data2 rw - tmpfs none rw", {}),
    "an automount under it": ("29 1 0:40 / /data rw - autofs systemd-1 rw\n30 29 253:0 / /data rw - ext4 /dev/dm-0 rw", {}),
    "the same filesystem twice": ("30 1 253:0 / /data rw - ext4 /dev/dm-0 rw\n31 30 253:0 / /data rw - ext4 /dev/dm-0 rw", {}),
    "two deep": (
        "30 1 253:0 / /data rw - ext4 /dev/dm-0 rw\n31 30 0:40 / /data rw - tmpfs a rw\n32 31 0:41 / /data rw - tmpfs b rw",
        {"/data": "tmpfs (a)"},
    ),
    "blanks in names": ("30 1 253:0 / /da\\040ta rw - ext4 /dev/dm-0 rw\n31 30 0:40 / /da\\040ta rw - tmpfs a\\040b rw", {"/da ta": "tmpfs (a b)"}),
    "no root": ("30 99 253:0 / /data rw - ext4 /dev/dm-0 rw\n31 30 0:40 / /data rw - tmpfs none rw", {"/data": "tmpfs (none)"}),
}


@pytest.mark.parametrize("name", COVERS)
def test_what_is_mounted_over(name):
    text, wanted = COVERS[name]
    assert proc_files.parse_covers("1 0 8:3 / / rw - ext4 /dev/sda3 rw\n" + text + "\n") == wanted


@pytest.mark.parametrize("text", ["", "\n", "x", "1 2 3 - 4", "1 1 8:1 / / rw - ext4 a rw", "1 2 8:1 / / rw - ext4 a rw\n2 1 8:2 / / rw - ext4 b rw"])
def test_odd_mountinfo(text):
    proc_files.parse_covers(text)


# As `dmsetup table` shows LVs of lvm2 2.03.16: raid0, raid10, raid5, raid1, one leg of a raid1 missing, and a raid10 in another layout.
RAID = {
    "raid raid0 3 128 region_size 8192 2 - 253:0 - 253:1": ("raid0", 65536, ("253:0", "253:1")),
    "raid raid10 3 128 region_size 4096 4 253:0 253:1 253:2 253:3 253:4 253:5 253:6 253:7": ("raid10", 65536, ("253:1", "253:3", "253:5", "253:7")),
    "raid raid5_ls 3 32 region_size 4096 3 253:0 253:1 253:2 253:3 253:4 253:5": ("raid5", 16384, ("253:1", "253:3", "253:5")),
    "raid raid6_zr 4 32 nosync region_size 4096 3 253:0 253:1 253:2 253:3 253:4 253:5": ("raid6", 16384, ("253:1", "253:3", "253:5")),
    "raid raid1 3 0 region_size 4096 2 253:0 253:1 253:2 253:3": ("raid1", 0, ("253:1", "253:3")),
    "raid raid1 3 0 region_size 4096 2 253:0 253:1 - -": ("raid1", 0, ("253:1",)),
    "raid raid10 5 128 raid10_format far region_size 8 2 253:0 253:1 253:2 253:3": ("raid10", 0, ()),
    "raid raid10 5 128 raid10_copies 3 region_size 8 4 a b c d e f g h": ("raid10", 0, ()),
    "raid raid10 3 128 region_size 8 3 a b c d e f": ("raid10", 0, ()),
    "raid raid42 1 128 2 - 253:0 - 253:1": ("raid42", 0, ()),
    "raid raid0": ("raid", 0, ()),
    "raid raid0 x y": ("raid", 0, ()),
}


@pytest.mark.parametrize("line", RAID)
def test_raid_segments(line):
    kind, chunk, legs = RAID[line]
    (segment,) = tool_output.parse_dm_tables("v-lv: 0 1024 %s\n" % line)["v-lv"]
    assert (segment.kind, segment.chunk, tuple(leg for leg, _first in segment.legs)) == (kind, chunk, legs)


def test_a_raid_without_one_of_its_legs():
    (segment,) = tool_output.parse_dm_tables("v-lv: 0 1024 raid raid5_ls 3 32 region_size 8 4 a b - - e f g h\n")["v-lv"]
    assert (len(segment.legs), segment.width, segment.degraded) == (3, 4, 1)


def test_a_raid_that_begins_behind_its_reserved_space():
    (segment,) = tool_output.parse_dm_tables("v-lv: 0 1024 raid raid5_ls 5 32 region_size 8 data_offset 2048 3 a b c d e f\n")["v-lv"]
    assert segment.legs == (("b", MIB), ("d", MIB), ("f", MIB))


def test_mounts_of_btrfs():
    text = "40 1 0:33 /@ /srv rw,noatime shared:1 - btrfs /dev/sdb1 rw,space_cache\n41 1 8:1 / /x rw - ext4 /dev/sda1 rw\n42 1 0:5 / /dev rw - devtmpfs udev rw"
    ((source, mount),) = proc_files.parse_mounts_of_several(text)
    assert source == "/dev/sdb1" and (mount.target, mount.fstype, mount.options) == ("/srv", "btrfs", ("rw", "noatime", "space_cache"))


def test_mounts_of_bcachefs():
    """All of its devices are named, and the number may be that of one of them."""
    for number in ("0:51", "8:16"):
        found = proc_files.parse_mounts_of_several("43 1 %s / /pool rw,relatime - bcachefs /dev/sdb:/dev/sdc:/dev/sdd rw,replicas=2" % number)
        assert [source for source, _mount in found] == ["/dev/sdb", "/dev/sdc", "/dev/sdd"]
        assert {(mount.target, mount.fstype) for _source, mount in found} == {("/pool", "bcachefs")}


def test_the_layouts_of_an_lv_in_pieces():
    rows = [{"lv_name": "a", "segtype": "striped", "stripes": "2", "stripe_size": size, "seg_start": at} for size, at in (("4096", "8"), ("65536", "0"))]
    lv = {"vg_name": "v", "lv_name": "a", "lv_size": "16", "lv_active": "active"}
    (found,) = tool_output.parse_lvm(report(vg=[VG], lv=[lv], seg=rows)).lvs
    assert found.layouts == ((2, 65536), (2, 4096)) and (found.stripes, found.stripe_bytes, found.segments) == (2, 65536, 2)
