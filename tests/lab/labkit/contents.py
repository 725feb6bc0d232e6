# SPDX-License-Identifier: GPL-3.0-or-later
"""What a disk may carry: made by the tools that make it in earnest, or, where the tool needs its own kernel or licence, from the format's definition.

{d} is the device. Each leaves nothing running and nothing mounted.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """How the content is made, and the reason by which a whole device with it is refused. *real*: its own tool makes it."""

    make: str
    reason: str = "[signature]"
    real: bool = True
    behind: bool = True  # whether it can be made behind a device-mapper holder, too


_PLAIN = "cryptsetup -q --key-file - luksFormat --pbkdf pbkdf2 --pbkdf-force-iterations 1000"
_STOP = "udevadm settle; mdadm -q -S {md}; udevadm settle"
_DIR = "mkdir -p /run/pl-tree; cp /etc/services /etc/passwd /run/pl-tree/; "


def _md(metadata: str) -> str:
    """A member of a stopped array; the other member of a mirror is missing."""
    return f"mdadm -q -C /dev/md/pl-gone -e {metadata} -l 1 -n 2 -R --assume-clean {{d}} missing; " + _STOP.format(md="/dev/md/pl-gone")


def _table(kind: str) -> str:
    """parted writes it, and then may complain that the kernel keeps to the table it knows: a partition has none of its own."""
    return f"parted -s {{d}} mklabel {kind} 2> /run/pl-parted || grep -q 'will remain in use' /run/pl-parted; udevadm settle"


def _bytes(at: int, raw: str) -> str:
    """Bytes (in printf's escapes) at a place."""
    return f"printf '{raw}' | dd of={{d}} bs=1 seek={at} conv=notrunc,fsync status=none"


KINDS: dict[str, Kind] = {
    # filesystems
    "ext2": Kind("mkfs.ext2 -q -F {d}"),
    "ext3": Kind("mkfs.ext3 -q -F {d}"),
    "ext4": Kind("mkfs.ext4 -q -F -L ledger {d}"),
    "ext-journal": Kind("mke2fs -q -F -O journal_dev {d}"),
    "xfs": Kind("mkfs.xfs -q -K --unsupported {d}"),
    "btrfs": Kind("mkfs.btrfs -q -M -f -K {d}"),
    "f2fs": Kind("mkfs.f2fs -q -f -t 0 {d}"),
    "fat16": Kind("mkfs.vfat -I -F 16 {d}", "["),  # a boot sector that libblkid may also take for an MBR
    "fat32": Kind("mkfs.vfat -I -F 32 {d}", "["),
    "exfat": Kind("mkfs.exfat {d}", "["),
    "ntfs": Kind("mkfs.ntfs -Q -q -F {d}", "["),
    "jfs": Kind("mkfs.jfs -q {d}"),
    "reiserfs": Kind("mkfs.reiserfs -q -ff {d}"),
    "nilfs2": Kind("mkfs.nilfs2 -q -f -B 256 {d}"),
    "udf": Kind("mkudffs {d} > /dev/null"),
    "iso9660": Kind(_DIR + "genisoimage -quiet -o /run/pl.iso /run/pl-tree; dd if=/run/pl.iso of={d} conv=notrunc,fsync status=none; rm /run/pl.iso"),
    "squashfs": Kind(_DIR + "mksquashfs /run/pl-tree /run/pl.sq -quiet -noappend >/dev/null; dd if=/run/pl.sq of={d} conv=fsync status=none; rm /run/pl.sq"),
    "erofs": Kind(_DIR + "mkfs.erofs /run/pl.erofs /run/pl-tree >/dev/null; dd if=/run/pl.erofs of={d} conv=fsync status=none; rm /run/pl.erofs"),
    "cramfs": Kind(_DIR + "mkfs.cramfs /run/pl-tree /run/pl.cramfs; dd if=/run/pl.cramfs of={d} conv=fsync status=none; rm /run/pl.cramfs"),
    "minix": Kind("mkfs.minix {d} >/dev/null"),
    # memory, volumes, arrays
    "swap": Kind("mkswap -q {d}"),
    "pv": Kind("pvcreate -q {d}", "[pv]", behind=False),
    "pv-in-vg": Kind("vgcreate -q oldvg$(basename {d}) {d}", "[pv]", behind=False),
    "pv-with-lv": Kind("vgcreate -q oldlv$(basename {d}) {d}; lvcreate -q -an -Zn -Wn -l 2 -n some oldlv$(basename {d})", "[pv]", behind=False),
    "md-0.90": Kind(_md("0.90"), behind=False),
    "md-1.0": Kind(_md("1.0"), behind=False),
    "md-1.1": Kind(_md("1.1"), behind=False),
    "md-1.2": Kind(_md("1.2"), behind=False),
    "md-ddf": Kind("mdadm -q -C /dev/md/pl-ddf -e ddf -l container -n 1 --force -R {d}; " + _STOP.format(md="/dev/md/pl-ddf"), behind=False),
    # encryption, integrity
    "luks1": Kind(f"echo secret | {_PLAIN} --type luks1 {{d}}"),
    "luks2": Kind(f"echo secret | {_PLAIN} --type luks2 {{d}}"),
    "noise": Kind(
        "echo secret | cryptsetup -q open --type plain --cipher aes-xts-plain64 --key-size 256 --hash sha256 {d} pl-noise"
        "; dd if=/dev/zero of=/dev/mapper/pl-noise bs=1M count=8 oflag=direct status=none; cryptsetup close pl-noise", "[data]",
    ),
    "integrity": Kind("integritysetup -q --no-wipe format {d}"),
    "verity": Kind("truncate -s 1M /run/pl-verity; veritysetup format /run/pl-verity {d} >/dev/null; rm /run/pl-verity"),
    # caches and replication
    "bcache-backing": Kind("make-bcache -B {d} >/dev/null"),
    "bcache-cache": Kind("make-bcache -C {d} >/dev/null"),
    "drbd": Kind("drbdmeta --force 0 v08 {d} internal create-md >/dev/null 2>&1"),
    # tables
    "gpt": Kind("echo 'label: gpt' | sfdisk -q {d}", "[table]"),
    "gpt-with-partitions": Kind("printf 'label: gpt\\nsize=8MiB\\nsize=8MiB\\n' | sfdisk -q {d}; udevadm settle", "[table]", behind=False),
    "mbr": Kind("printf 'label: dos\\nstart=2048\\n' | sfdisk -q {d}; udevadm settle", "[table]", behind=False),
    "hybrid": Kind("printf 'label: gpt\\nsize=8MiB\\n' | sfdisk -q {d}; sgdisk -h 1 {d} >/dev/null; udevadm settle", "[table]", behind=False),
    "sun": Kind(_table("sun"), "["),
    "sgi": Kind(_table("dvh"), "["),
    "bsd": Kind(_table("bsd"), "[data]"),  # parted puts the label at byte 64, where libblkid does not look
    "mac": Kind(_table("mac"), "[table]"),
    "amiga": Kind(_table("amiga"), "[data]"),  # libblkid has no prober for it
    # databases and files on the raw device
    "postgresql-raw": Kind(
        "rm -rf /tmp/pl-pg; runuser -u postgres -- sh -c '$(ls -d /usr/lib/postgresql/*/bin | tail -1)/initdb -N -D /tmp/pl-pg' >/dev/null"
        "; dd if=/tmp/pl-pg/base/1/1259 of={d} bs=8k conv=notrunc,fsync status=none; rm -rf /tmp/pl-pg"  # 1259 is pg_class
    ),
    "sqlite-raw": Kind(
        "python3 -c 'import sqlite3; c = sqlite3.connect(\"/run/pl.db\"); c.execute(\"create table a(b)\"); c.commit()'"
        "; dd if=/run/pl.db of={d} conv=fsync status=none; rm /run/pl.db"
    ),
    "tar": Kind("tar -C / -cf - etc/passwd etc/services | dd of={d} conv=notrunc,fsync status=none", "[data]"),
    "gzip": Kind("gzip -c /etc/services | dd of={d} conv=notrunc,fsync status=none", "[data]"),
    "text": Kind("dd if=/etc/services of={d} conv=notrunc,fsync status=none", "[data]"),
    "one-byte-at-the-end": Kind("printf x | dd of={d} bs=1 seek=$(($(blockdev --getsize64 {d}) - 1)) conv=notrunc,fsync status=none", "[data]"),
    # by definition of the format
    "asm": Kind(_bytes(32, "ORCLDISKDATA01"), real=False),
    "bluestore": Kind(_bytes(0, "bluestore block device\\n0fc4a3f5-2c6e-4b6a-9a51-6e3a5b0b9f11\\n"), real=False),
    "zfs": Kind(_bytes(262144 + 131072, "\\014\\261\\272\\000\\000\\000\\000\\000"), real=False),
    "oracle-raw": Kind(_bytes(28, "}|{z"), real=False),
}
# Of each family one, for every run; the rest is for long ones.
SHORT = (
    "ext4", "xfs", "btrfs", "ntfs", "swap", "pv-with-lv", "md-0.90", "md-1.2", "luks2", "noise", "bcache-backing", "mbr", "sun", "sqlite-raw", "asm", "zfs",
)  # fmt: skip
