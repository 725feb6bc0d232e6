# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of an acknowledged write at a power cut: the one place that judges write caches and mount options. Pure.

Two questions are asked. Of a drive: given what it says of its cache, what the kernel believes of it, and whether the filesystem
sends barriers, is a write that was acknowledged on the flash? Of a mount's options: which of them takes a promise away that the
default gives? What is not known is never taken for safe.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation, WriteCache
from ansible_collections.plumbline.ssd.plugins.module_utils._block.mapping import mapped_above

OK = "ok"
RECORDED = "recorded"  # explicitly accepted, and shown in every report
WARNING = "warning"
CRITICAL = "critical"  # it fails a proof, and no word allows it
REFUSED = "refused"  # not without an acceptance

POWER_CUT = "data_loss_on_power_cut"
STALE = "stale_data_after_crash"
STATED = "power_loss_protection"  # the operator's word on a drive, by its serial

WRITE_BACK, WRITE_THROUGH = "write back", "write through"  # queue/write_cache, Documentation/ABI/stable/sysfs-block

# What each option of ext4(5) and Documentation/admin-guide/ext4.rst does to a write that was acknowledged (by fsync, fdatasync, O_SYNC):
#
#   barrier=0, nobarrier        no flush behind a commit or an fsync (ext4_fsync_journal, jbd2): the cache decides; see judge_cache()
#   data=writeback              size and blocks of a file may be committed before its data: old blocks show in it after a crash
#   noauto_da_alloc             a file replaced by rename or truncation without fsync may be empty after a crash, old content and new gone
#   norecovery, noload          committed transactions are not replayed; read-write, the filesystem runs without its journal
#   journal_async_commit        one flush for the data, the journal and the commit block: ext4 refuses it with data=ordered, whose promise it
#                               breaks; with data=journal a checksum tells a torn commit, with data=writeback that promise is given up already
#   abort                       aborts the journal on the spot, for debugging
#   journal_dev=, journal_path= a journal on a device that nobody has looked at; the volumes here have theirs inside
#
# These take nothing from an acknowledged write:
#
#   barrier, barrier=1, data=ordered, auto_da_alloc, data_err=ignore    the kernel's defaults
#   data=journal, sync, dirsync, nodelalloc, data_err=abort             more is on the disk sooner, or an error is noticed harder
#   commit=N, lazytime          only what no program asked to be synced gets older: data and metadata by N seconds, times by a day
#   max_batch_time, min_batch_time, journal_ioprio                      how long a commit takes; it is acknowledged when it is done
#   journal_checksum, nojournal_checksum, errors=, (no)block_validity   what happens after damage, not whether there is some
#   init_itable, noinit_itable, discard, dioread_(no)lock, stripe=, inode_readahead_blks=, max_dir_size_kb=, noatime …   no promise in it
_BARRIERS = {"barrier=0": False, "nobarrier": False, "barrier=1": True, "barrier": True}
_ALLOCATION = {"auto_da_alloc": True, "noauto_da_alloc": False}
_DATA = ("data=journal", "data=ordered", "data=writeback")
_NEVER = {
    "norecovery": "what was committed before a crash would not be replayed",
    "noload": "what was committed before a crash would not be replayed",
    "abort": "it stops the journal",
    "journal_dev": "the journal would lie on a device that is not looked at",
    "journal_path": "the journal would lie on a device that is not looked at",
}


class Drive(NamedTuple):
    """A drive under a filesystem. *stated*: the operator says that it has power-loss protection.

    *follows*: the kernel reads the cache's state again whenever the drive is reset. libata does: its error handling has the SCSI
    layer look at the drive anew (ata_eh_revalidate_and_attach schedules ata_scsi_dev_rescan); SCSI and NVMe do not.
    """

    name: str
    serial: str
    cache: WriteCache = WriteCache()
    stated: bool = False
    belief: str = ""
    follows: bool = False


class Judgement(NamedTuple):
    """One row of the table: its *state*, how bad it is, why, and the *acceptance* that allows it, or has allowed it."""

    state: str
    level: str
    text: str
    acceptance: str = ""


class Risk(NamedTuple):
    """What one mount option does on some drives; *option* as it was written."""

    option: str
    level: str
    text: str
    acceptance: str
    drives: Tuple[Drive, ...]

    @property
    def by_protection(self) -> bool:
        """Whether power-loss protection in the drives would allow it as well."""
        return self.option in _BARRIERS


def state_of(cache: WriteCache) -> str:
    """``on``, ``off``, ``none`` (nothing that a power cut empties) or ``unknown``, which is never taken for one of the others."""
    if cache.present is False:
        return "none"
    return {True: "on", False: "off", None: "unknown"}[cache.enabled]


def _protection(cache: WriteCache, stated: bool) -> str:
    """Words for a drive's power-loss protection; the operator's count before the drive's own."""
    if stated:
        return "power-loss protected, as stated in the spec" + (", though the drive denies it" if cache.protected is False else "")
    if cache.protected is None:
        return "power-loss protection not known"
    return "power-loss protected by its own word" if cache.protected else "without power-loss protection"


def _words(cache: WriteCache, state: str) -> str:
    if state == "on":
        return "its write cache is on"
    if state == "off":
        return "its write cache is off, and %s" % ("saved so in the drive" if cache.saved is False else "a reset can bring it back")
    return "its write cache may be on" if cache.present else "its write cache could not be read"


def judge_cache(cache: WriteCache, stated: bool, barriers: bool, belief: str, accept: Sequence[str] = (), follows: bool = False) -> Judgement:
    """The durability table: one answer for every combination of what is known of a drive."""
    state = state_of(cache)
    if state == "none":
        return Judgement("no_volatile_cache", OK, "it has no volatile write cache")
    if barriers:
        return _judge_flushed(cache, state, belief, follows)
    text = "%s (%s)" % (_words(cache, state), _protection(cache, stated))
    if stated:
        return Judgement("protected", RECORDED, text, STATED)
    if cache.protected:
        return Judgement("protected", RECORDED, text)
    text += ": without barriers a power cut loses what was acknowledged%s" % (", as soon as it is on again" if state == "off" else "")
    return Judgement("unprotected", RECORDED if POWER_CUT in accept else REFUSED, text, POWER_CUT)


def _judge_flushed(cache: WriteCache, state: str, belief: str, follows: bool) -> Judgement:
    """The filesystem sends barriers; the block layer passes them on as flushes only while it believes "write back" (submit_bio_noacct())."""
    dropped = "the kernel %s" % ("believes 'write through' and drops flushes" if belief == WRITE_THROUGH else "does not say whether it flushes")
    words = _words(cache, state)
    if state == "off":
        if belief == WRITE_BACK or cache.saved is False or follows:
            return Judgement("cache_off", OK, "its write cache is off")
        return Judgement("cache_off_unflushed", WARNING, "%s, while %s" % (words, dropped))
    if belief == WRITE_BACK:
        return Judgement("flushed", OK, "%s; the kernel flushes it" % words)
    if belief == WRITE_THROUGH and state == "on":
        return Judgement("flushes_dropped", CRITICAL, "%s, and %s: a power cut loses what was acknowledged" % (words, dropped))
    return Judgement("unknown", WARNING, "%s, and %s" % (words, dropped))


def _last(options: Sequence[str], values: Mapping[str, bool]) -> Tuple[bool, str]:
    """The last of opposite options counts, as in the kernel; the default is on. Returns the value and the word that says so."""
    value, word = True, ""
    for option in options:
        if option in values:
            value, word = values[option], option
    return value, word


def barriers_on(options: Sequence[str]) -> bool:
    """Whether a mount with these options sends barriers."""
    return _last(options, _BARRIERS)[0]


def droppers(seen: Observation, disk: str, top: str = "") -> List[Node]:
    """Of mapped_above() those that drop flushes, whatever the disk below is believed to be.

    Device-mapper asks what is below when a table is loaded, and never again (dm_table_set_restrictions()); the block layer drops
    a flush at the first queue that is believed to have no cache (submit_bio_noacct()).
    """
    return [node for node in mapped_above(seen, disk, top) if node.write_cache == WRITE_THROUGH]


def flushes_arrive(seen: Observation, disk: str, top: str) -> bool:
    """Whether flushes come as far as to the disk."""
    return all(node.write_cache == WRITE_BACK for node in mapped_above(seen, disk, top))


def name_mapped(nodes: Sequence[Node]) -> str:
    """Mapped devices for messages."""
    return ", ".join("%s (%s)" % (node.name, node.title) if node.title else node.name for node in nodes)


def unflushed(seen: Observation, disks: Iterable[str]) -> List[str]:
    """Where filesystems without barriers are mounted that lie on any of these disks: what is written there relies on the caches being off."""
    targets = set()
    for mount in seen.mounts:
        below = {node.devno for node in seen.disk_of(mount.devno)}
        if below & set(disks) and not barriers_on(seen.in_force.get(mount.devno) or mount.options):
            targets.add(mount.target)
    return sorted(targets)


def data_mode(options: Sequence[str]) -> str:
    """The journaling mode that these options ask for, or are shown with; empty where they say nothing, which means data=ordered."""
    return next((option for option in reversed(options) if option in _DATA), "")


def option_fault(options: Sequence[str]) -> str:
    """Why these options are taken under no acceptance; empty where they are."""
    for option in options:
        name, equals, _value = option.partition("=")
        if name in _NEVER:
            return "'%s' is not taken: %s" % (option, _NEVER[name])
        # The kernel reads any spelling of zero (kstrtouint, base 0), and one spelling each is enough here.
        if equals and ((name == "barrier" and option not in _BARRIERS) or name == "auto_da_alloc"):
            choices = "barrier=0 or barrier=1" if name == "barrier" else "auto_da_alloc or noauto_da_alloc"
            return "'%s' does not fit; wanted %s" % (option, choices)
    for family in (_BARRIERS, _ALLOCATION, _DATA):
        words = [option for option in options if option in family]
        if len(words) > 1:
            return "%s say different things, or the same twice; wanted one of them" % " and ".join("'%s'" % word for word in words)
    if "delalloc" in options and data_mode(options) == "data=journal":
        return "'delalloc' and 'data=journal' exclude each other, and ext4 does not mount so; wanted one of them"
    if "journal_async_commit" in options and data_mode(options) in ("", "data=ordered"):
        return "'journal_async_commit' breaks the promise of data=ordered, and ext4 does not mount it so; wanted data=journal beside it, or neither"
    return ""


def judge_options(options: Sequence[str], drives: Sequence[Drive], accept: Sequence[str]) -> List[Risk]:
    """What the options of a mount do to what was acknowledged, by option; those that do nothing are left out."""
    risks: List[Risk] = []
    on, word = _last(options, _BARRIERS)
    if not on:
        groups: Dict[Judgement, List[Drive]] = {}
        for drive in drives:
            groups.setdefault(judge_cache(drive.cache, drive.stated, False, drive.belief, accept, drive.follows), []).append(drive)
        risks += [Risk(word, judgement.level, judgement.text, judgement.acceptance, tuple(some)) for judgement, some in groups.items() if judgement.level != OK]
    if data_mode(options) == "data=writeback":
        risks.append(_accepted_or_not("data=writeback", STALE, "files can show old blocks after a crash", drives, accept))
    allocated, word = _last(options, _ALLOCATION)
    if not allocated:
        text = "a file that was replaced without fsync can be empty after a crash"
        risks.append(_accepted_or_not(word, POWER_CUT, text, drives, accept))
    return risks


def _accepted_or_not(option: str, acceptance: str, text: str, drives: Sequence[Drive], accept: Sequence[str]) -> Risk:
    return Risk(option, RECORDED if acceptance in accept else REFUSED, text, acceptance, tuple(drives))


def drive_of(seen: Observation, devno: str, stated: Sequence[str]) -> Drive:
    """What is known of a disk; *stated* are the serials on whose power-loss protection there is the operator's word."""
    node = seen.nodes[devno]
    serial = node.identity.serial
    follows = node.identity.transport == "sata"
    return Drive(node.name, serial, seen.caches.get(devno, WriteCache()), bool(serial) and serial in stated, node.write_cache, follows)


def drive_below(seen: Observation, devno: str, top: str, stated: Sequence[str]) -> Drive:
    """As drive_of(), with what the kernel believes anywhere on the way from *top* to the disk."""
    drive = drive_of(seen, devno, stated)
    belief = WRITE_THROUGH if droppers(seen, devno, top) else drive.belief
    return drive._replace(belief=belief, follows=drive.follows and flushes_arrive(seen, devno, top))


def name_drives(drives: Sequence[Drive]) -> str:
    """Drives with their serials, for messages."""
    words = ["%s (%s)" % (drive.name, drive.serial) if drive.serial else drive.name for drive in drives]
    return "%s %s" % ("device" if len(words) == 1 else "devices", ", ".join(words))


def default_option(option: str) -> str:
    """The option by which a mount is again what it is by default, for one that judge_options() names."""
    return "barrier=1" if option in _BARRIERS else "data=ordered" if option in _DATA else "auto_da_alloc"


def as_facts(cache: Optional[WriteCache], belief: str) -> Dict[str, Any]:
    """A drive's cache as modules return it."""
    return dict((cache or WriteCache(fault="it was not asked"))._asdict(), belief=belief)
