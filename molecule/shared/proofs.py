# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that every scenario has in common, as classes: a scenario derives from them and writes down its numbers.

The numbers are literal in the scenarios, not computed: a mistake in the collection's arithmetic cannot hide in the same one here.
All of them are bytes.
"""

from __future__ import annotations

from typing import ClassVar

import pytest
from reading import TYPE_LINUX, TYPE_LVM, Leg, Mapping, Partition, Reading
from testinfra.host import Host

MIB = 1 << 20


@pytest.fixture(scope="module")
def reading(host: Host) -> Reading:
    """One reading for all tests of a module: none of them changes what another looks at."""
    assert host.file("/etc/plumbline-lab").exists
    return Reading(host)


class Legs:
    """The devices of a stack, from their first byte to their last."""

    stack: ClassVar[str]
    sizes: ClassVar[dict[str, int]]  # the disks by serial, in the order of the legs
    reserves: ClassVar[dict[str, int]]  # at least this much is free at the end
    start: ClassVar[int] = 1 * MIB
    lengths: ClassVar[dict[str, int]]
    grain: ClassVar[int] = 4096
    phase: ClassVar[int] = 0
    type: ClassVar[str] = TYPE_LVM

    def test_each_disk_has_one_partition_and_it_is_where_it_should_be(self, reading: Reading) -> None:
        found = {serial: [(one.start, one.size, one.name, one.type) for one in reading.partitions(serial)] for serial in self.sizes}
        assert found == {
            serial: [(self.start, self.lengths[serial], f"plumbline:{self.stack}:{number}", self.type)] for number, serial in enumerate(self.sizes)
        }

    def test_partitions_begin_and_end_on_the_grain(self, reading: Reading) -> None:
        for part in self.parts(reading):
            assert part.start % self.grain == self.phase
            assert part.size % self.grain == 0

    def test_the_kernel_sees_the_same(self, reading: Reading) -> None:
        for part in self.parts(reading):
            name = part.path.removeprefix("/dev/")
            assert reading.shell(f"cat /sys/class/block/{name}/start /sys/class/block/{name}/size").split() == [
                str(part.start // 512),
                str(part.size // 512),
            ]

    def test_the_reserve_is_free_at_the_end(self, reading: Reading) -> None:
        for serial, size in self.sizes.items():
            assert reading.disk_size(serial) == size
            (part,) = reading.partitions(serial)
            assert size - part.start - part.size >= self.reserves[serial]

    def parts(self, reading: Reading) -> list[Partition]:
        return [part for serial in self.sizes for part in reading.partitions(serial)]


class StripedLegs(Legs):
    """Legs that carry a volume group."""

    extent: ClassVar[int] = 4 * MIB
    extents: ClassVar[int]  # of each leg

    def test_pvs_have_their_data_where_it_should_be(self, reading: Reading) -> None:
        row = {"vg_name": self.stack, "pe_start": str(MIB), "pv_pe_count": str(self.extents), "vg_extent_size": str(self.extent)}
        assert {serial: {key: reading.pvs[serial][key] for key in row} for serial in self.sizes} == dict.fromkeys(self.sizes, row)
        assert set(reading.pvs) == set(self.sizes)

    def test_the_pv_label_is_in_the_second_sector_of_the_partition(self, reading: Reading) -> None:
        for serial in self.sizes:
            label = reading.shell(f"dd if={reading.disk(serial)} bs=512 skip={self.start // 512 + 1} count=1 status=none | head -c 8")
            assert label == "LABELONE"


class CacheOff:
    """The drives of a stack have their write caches off, by a tool's own word, and the host keeps them so."""

    sizes: ClassVar[dict[str, int]]  # the disks by serial
    ask: ClassVar[str]  # prints 0 where the cache of {0}, the device node, is off

    def test_every_drive_says_that_its_cache_is_off(self, reading: Reading) -> None:
        assert {serial: reading.shell(self.ask.format(reading.disk(serial))).strip() for serial in self.sizes} == dict.fromkeys(self.sizes, "0")

    def test_a_rule_and_a_service_keep_it_so(self, reading: Reading) -> None:
        rules = reading.shell("cat /etc/udev/rules.d/90-plumbline-write-cache.rules")
        for serial in self.sizes:
            assert reading.shell(f"cat $(find /sys/class/block/{reading.kernel_names[serial]}/ -follow -maxdepth 2 -name wwid | head -1)").strip() in rules
        assert reading.shell("systemctl is-enabled plumbline-write-cache.service").strip() == "enabled"
        assert reading.shell("systemctl list-timers --all --no-legend 'plumbline-write-cache*'").strip() == "", "no drive is asked by the clock"


class SeparateLegs(Legs):
    """Legs that carry a filesystem each."""

    type: ClassVar[str] = TYPE_LINUX

    def test_there_is_no_lvm(self, reading: Reading) -> None:
        assert reading.pvs == {}


class Volume:
    """A filesystem and its mount."""

    mount: ClassVar[str]
    label: ClassVar[str]
    size: ClassVar[int]
    stride: ClassVar[int]
    width: ClassVar[int]
    options: ClassVar[tuple[str, ...]] = ("noatime",)  # as fstab has them
    device_timeout: ClassVar[str] = "5min"
    shown: ClassVar[tuple[str, ...]] = ("noatime",)  # as the kernel shows them
    owner: ClassVar[str] = "root:root"
    mode: ClassVar[str] = "755"

    def device(self, reading: Reading) -> str:
        raise NotImplementedError

    def test_ext4_knows_the_stripe(self, reading: Reading) -> None:
        found = reading.superblock(self.device(reading))
        assert {key: found.get(key) for key in ("Filesystem volume name", "Block size", "RAID stride", "RAID stripe width", "First block")} == {
            "Filesystem volume name": self.label,
            "Block size": "4096",
            "RAID stride": str(self.stride),
            "RAID stripe width": str(self.width),
            "First block": "0",
        }

    def test_ext4_fills_its_device(self, reading: Reading) -> None:
        assert int(reading.superblock(self.device(reading))["Block count"]) * 4096 == self.size

    def test_ext4_keeps_nothing_for_root_and_leaves_nothing_for_later(self, reading: Reading) -> None:
        device = self.device(reading)
        assert reading.superblock(device)["Reserved block count"] == "0"
        assert reading.itables_not_zeroed(device) == 0
        assert reading.shell("pgrep -x ext4lazyinit || echo none") == "none"

    def test_fstab_names_the_filesystem_and_does_not_hold_up_the_boot(self, reading: Reading) -> None:
        identifier = reading.superblock(self.device(reading))["Filesystem UUID"]
        options = ",".join((*self.options, "nofail", f"x-systemd.device-timeout={self.device_timeout}"))
        assert reading.fstab[self.mount] == [f"UUID={identifier}", self.mount, "ext4", options, "0", "2"]

    def test_it_is_mounted_as_asked(self, reading: Reading) -> None:
        found = reading.mount(self.mount)
        assert found["uuid"] == reading.superblock(self.device(reading))["Filesystem UUID"]
        assert found["fstype"] == "ext4"
        assert {"rw", *self.shown} <= set(found["options"].split(","))
        # ext4 takes a width of one block for none at all.
        assert self.width == 1 or f"stripe={self.width}" in found["options"].split(",")

    def test_the_root_directory_is_whose_it_should_be(self, reading: Reading) -> None:
        assert reading.shell(f"stat -c %U:%G,%a {self.mount}") == f"{self.owner},{self.mode}"

    def test_nothing_can_be_written_where_it_is_not_mounted(self, reading: Reading) -> None:
        assert "i" in reading.attributes_below(self.mount)
        assert "i" not in reading.shell(f"lsattr -d {self.mount}").split()[0]


class StripedVolume(Volume):
    """A filesystem on a striped logical volume."""

    vg: ClassVar[str]
    lv: ClassVar[str]
    stripe: ClassVar[int]
    starts: ClassVar[dict[str, int]]  # the first byte of the volume, absolute, on each leg, in order
    grain: ClassVar[int] = 4096
    phase: ClassVar[int] = 0

    def device(self, reading: Reading) -> str:
        return f"/dev/{self.vg}/{self.lv}"

    def test_the_kernel_maps_it_to_the_bytes_that_are_meant(self, reading: Reading) -> None:
        legs = tuple(Leg(serial, start) for serial, start in self.starts.items())
        assert reading.mapping(f"{self.vg}-{self.lv}") == Mapping(self.size, self.stripe, legs)
        assert all(start % self.grain == self.phase for start in self.starts.values())
        assert self.stripe % self.grain == 0

    def test_lvm_says_the_same(self, reading: Reading) -> None:
        assert reading.lvs(self.vg)[self.lv] == {
            "lv_name": self.lv,
            "segtype": "striped",
            "stripes": str(len(self.starts)),
            "stripe_size": str(self.stripe),
            "lv_size": str(self.size),
        }

    def test_the_superblock_is_on_the_first_leg(self, reading: Reading) -> None:
        serial, start = next(iter(self.starts.items()))
        # By direct I/O: the disk's own page cache knows nothing of what was written through the mapping.
        block = f"dd if={reading.disk(serial)} bs=4096 skip={start // 4096} count=1 iflag=direct status=none"
        magic = reading.shell(f"{block} | od -An -tx1 -j {0x438} -N 2")
        assert magic.split() == ["53", "ef"]

    def test_a_file_lies_on_the_legs_where_the_layers_say(self, reading: Reading) -> None:
        """Read from the raw disks, chunk by chunk, and from the volume: the same bytes."""
        path = f"{self.mount}/where-am-i"
        extent = reading.new_file(path, 2 * len(self.starts) * max(self.stripe, 64 * 1024))
        legs = list(self.starts.items())
        first = -(-extent.start // self.stripe)
        chunks = range(first, min(first + 2 * len(legs), (extent.start + extent.size) // self.stripe))
        assert len(chunks) >= len(legs)
        on_legs = []
        for chunk in chunks:
            serial, start = legs[chunk % len(legs)]
            on_legs.append((reading.disk(serial), start + chunk // len(legs) * self.stripe))
        on_volume = [(self.device(reading), chunk * self.stripe) for chunk in chunks]
        found = reading.raw(on_legs + on_volume, self.stripe)
        assert found[: len(chunks)] == found[len(chunks) :]
        assert len(set(found)) == len(chunks)
        reading.run(f"rm {path}")


class SeparateVolume(Volume):
    """A filesystem on a partition."""

    disk: ClassVar[str]
    start: ClassVar[int] = 1 * MIB

    def device(self, reading: Reading) -> str:
        return reading.partitions(self.disk)[0].path

    def test_the_superblock_is_where_the_partition_begins(self, reading: Reading) -> None:
        magic = reading.shell(f"dd if={reading.disk(self.disk)} bs=1 skip={self.start + 0x438} count=2 status=none | od -An -tx1")
        assert magic.split() == ["53", "ef"]
