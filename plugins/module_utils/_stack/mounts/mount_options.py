# SPDX-License-Identifier: GPL-3.0-or-later
"""Mount options as they are asked for, and as the kernel shows them. Pure."""

from __future__ import annotations

import re
from typing import Dict, List, Mapping, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import nearest
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.durability import data_mode

# What a volume is mounted with, by name. benchmark_2016 is what the article's host was measured with; it wants its acceptances.
PROFILES: Mapping[str, Tuple[str, ...]] = {
    "default": ("noatime",),
    "benchmark_2016": ("noatime", "nodiratime", "nodelalloc", "barrier=0", "data=writeback"),
}
# Of ``accept``: mount options that are not in the tables below.
UNKNOWN_OPTIONS = "unknown_mount_options"
# The options that a mount of ext4 can be asked for, and shows as asked: fs/namespace.c, mount(8), fs/ext4/super.c, Documentation/admin-guide/ext4.rst.
_FLAGS = frozenset(
    "acl async atime auto_da_alloc barrier block_validity bsddf bsdgroups defaults delalloc dev diratime dirsync dioread_lock dioread_nolock discard exec "
    "grpid grpquota i_version init_itable iversion journal_async_commit journal_checksum lazytime minixdf _netdev noatime noauto_da_alloc nobarrier "
    "noblock_validity nodelalloc nodev nodioread_nolock nodiratime nodiscard noexec nogrpid noinit_itable nojournal_checksum nolazytime no_mbcache nombcache "
    "noquota no_prefetch_block_bitmaps norelatime nosuid nosymfollow nouid32 nouser relatime rw strictatime suid sync sysvgroups "
    "user_xattr usrquota".split()
)
_CONTEXTS = ("context", "defcontext", "fscontext", "rootcontext")  # of SELinux
# Those with a value: the pattern of it, and the words for it.
_VALUES: Mapping[str, Tuple[str, str]] = {
    **dict.fromkeys(("commit", "init_itable"), ("[0-9]{1,6}", "a whole number below a million")),
    **dict.fromkeys(("max_batch_time", "max_dir_size_kb", "min_batch_time"), ("[0-9]{1,9}", "a whole number")),
    **dict.fromkeys(("resgid", "resuid"), ("[0-9]{1,9}", "a whole number")),
    "stripe": ("[2-9]|[1-9][0-9]{1,8}", "a number of blocks above 1"),
    **dict.fromkeys(_CONTEXTS, (".+", "an SELinux context")),
    **dict.fromkeys(("barrier", "mb_optimize_scan"), ("[01]", "0 or 1")),
    "data": ("journal|ordered|writeback", "journal, ordered or writeback"),
    "data_err": ("abort|ignore", "abort or ignore"),
    "inode_readahead_blks": ("0|" + "|".join(str(1 << bit) for bit in range(31)), "0 or a power of two"),
    "dax": ("inode|never", "inode or never, since no SSD is memory"),
    "journal_ioprio": ("[0-7]", "0 to 7"),
}
# Options that mount(8) or the kernel takes, and that cannot hold: why.
_CANNOT_HOLD: Mapping[str, str] = {
    **dict.fromkeys(
        ("user", "users", "owner", "group"), "it lets others mount the volume, and no kernel shows it, so that no run could tell whether it holds"
    ),
    **dict.fromkeys(("bh", "nobh", "oldalloc", "orlov"), "the kernel ignores it"),
    **dict.fromkeys(("noacl", "nouser_xattr"), "the kernel does not mount so any more"),
    **dict.fromkeys(("prjquota",), "it wants a feature that the filesystem is not made with"),
    **dict.fromkeys(("mand", "nomand"), "the kernel has no mandatory locks any more"),
    **dict.fromkeys(("quiet", "silent", "loud"), "it is about the messages of one mount, and no kernel shows it"),
    **dict.fromkeys(("rbind", "move", "shared", "slave", "private", "unbindable"), "it is about another mount"),
    "x-mount.subdir": "the volume would not be mounted, but a directory of it",
    "sb": "the volume would be mounted from a copy of its superblock, once; see e2fsck -b",
    "x-systemd.automount": "systemd would put a mount of its own there at boot, and the volume comes when somebody looks: no run could tell whether it does",
}
# Words for one setting, beside those that differ by a leading "no". Of two the last counts, for mount(8) and ext4, and the kernel shows that one alone.
_SETTINGS = {
    **dict.fromkeys(("noatime", "strictatime"), "atime"),
    **dict.fromkeys(("bsdgroups", "sysvgroups"), "grpid"),
    **dict.fromkeys(("async", "sync"), "sync"),
    **dict.fromkeys(("bsddf", "minixdf"), "df"),
    "dioread_lock": "dioread_nolock",
}

# What the kernel shows for an option, where the two differ. Documentation/admin-guide/ext4.rst
_SHOWN = {"barrier=0": "nobarrier", "bsdgroups": "grpid", "dioread_lock": "nodioread_nolock", "no_mbcache": "nombcache"}
# Options that ask for what is so anyway, or that only mount(8) reads: the kernel shows none of them (fs/proc_namespace.c, fs/ext4/super.c).
_SILENT = frozenset(
    "acl async atime auto_da_alloc barrier barrier=1 block_validity bsddf commit=0 commit=5 data=ordered data_err=ignore defaults delalloc dev "
    "dioread_nolock diratime errors=continue exec init_itable init_itable=10 i_version iversion journal_checksum max_batch_time=15000 min_batch_time=0 "
    "_netdev nodiscard nogrpid nolazytime noquota norelatime nouser relatime rw strictatime suid sysvgroups user_xattr".split()
)
# What a live mount should not have unasked, and what turns it off again where a remount would keep it, mount(8), ext4(5); empty where none does.
_OPPOSITES: Mapping[str, str] = {
    "noatime": "relatime",
    "nodiratime": "diratime",
    "grpid": "nogrpid",
    "lazytime": "nolazytime",
    "nodelalloc": "delalloc",
    "nobarrier": "barrier=1",
    "noauto_da_alloc": "auto_da_alloc",
    "ro": "rw",  # by remount,ro, or by the kernel after an error
    "errors=remount-ro": "errors=continue",
    "errors=panic": "errors=continue",
    "data_err=abort": "data_err=ignore",
    "data=writeback": "",
    "data=journal": "",
    "journal_async_commit": "",
    "discard": "nodiscard",
    "sync": "async",
    "nosuid": "suid",
    "nodev": "dev",
    "noexec": "exec",
}


def spelling_fault(option: str, accepted: bool) -> str:
    """Why ext4 would not be mounted so, or would not stay so; empty where it would. *accepted*: somebody's word stands for unknown ones."""
    name, equals, value = option.partition("=")
    if name.lower() in _CANNOT_HOLD:
        return "'%s' is not taken: %s" % (option, _CANNOT_HOLD[name.lower()])
    if option.lower().startswith("x-") or (name in _FLAGS and not equals):
        return ""
    if equals and name in _VALUES:
        pattern, words = _VALUES[name]
        return "" if re.fullmatch(pattern, value) else "'%s' does not fit; wanted %s behind the =" % (option, words)
    if name in _FLAGS or name in _VALUES:
        return "'%s' does not fit; %s" % (option, "it takes no value" if equals else "it wants a value, %s" % _VALUES[name][1])
    if accepted:
        return ""
    known = [*_FLAGS, *(other + "=" for other in _VALUES)]
    text = "'%s' is no mount option that is known here%s; where your kernel has it, set accept: [%s] on the stack"
    return text % (option, nearest(name + equals, known), UNKNOWN_OPTIONS)


def contexts_of(options: Sequence[str]) -> Dict[str, str]:
    """The options that give SELinux contexts → the context."""
    return {option: option.partition("=")[2] for option in options if option.partition("=")[0] in _CONTEXTS}


def contradiction(options: Sequence[str]) -> str:
    """Which of these options set one thing twice, so that one of them could never be seen to hold; empty where none do."""
    words: Dict[str, List[str]] = {}
    for option in options:
        name = option.partition("=")[0]
        if name in _FLAGS or name in _VALUES:
            plain = name[2:] if name.startswith("no") and (name[2:] in _FLAGS or name[2:] in _VALUES) else name
            words.setdefault(_SETTINGS.get(name, plain), []).append(option)
    if "noquota" in options:
        words["quota"] = [option for option in options if option in ("noquota", "grpquota", "usrquota")]
    twice = next((some for some in words.values() if len(some) > 1), [])
    return "%s say different things; wanted one of them" % " and ".join("'%s'" % word for word in twice) if twice else ""


# Follows what is live and what is wanted. fstab stays with what is live, so that no reboot changes behind anybody's back what a run could not.
UNMOUNT_FIRST = "ext4 changes this by no remount, so neither the mount nor fstab was changed; stop what uses it, umount %s, and run again"


def known_options() -> List[str]:
    """An example of each option that is taken, but for SELinux's, with what it cannot do without."""
    needs = {"journal_async_commit": "journal_async_commit,data=journal"}
    examples = {"data": "ordered", "data_err": "abort", "dax": "never", "inode_readahead_blks": "64", "max_dir_size_kb": "1000", "stripe": "32"}
    valued = ["%s=%s" % (name, examples.get(name, "1")) for name in _VALUES if not name.endswith("context")]
    return sorted([*(needs.get(flag, flag) for flag in _FLAGS), *valued])


def option_drift(wanted: Sequence[str], live: Sequence[str]) -> Tuple[List[str], List[str]]:
    """Options that a live mount lacks, and those that it has unasked, as the kernel writes them."""
    silent = ("x-", "journal_ioprio=")
    shown = [_SHOWN.get(option, option) for option in wanted if option not in _SILENT and not option.lower().startswith(silent)]
    missing = [option for option in shown if option not in live]
    extra = [option for option in live if (option in _OPPOSITES or _is_commit(option)) and option not in shown]
    if any(map(_is_commit, shown)):  # another interval takes the place of the one that is there
        extra = [option for option in extra if not _is_commit(option)]
    if "data=journal" in shown:  # which the kernel does without delayed allocation, and says so
        extra = [option for option in extra if option != "nodelalloc"]
    if "strictatime" in wanted and "relatime" in live:
        extra.append("relatime")
    return missing, extra


def _is_commit(option: str) -> bool:
    return option.startswith("commit=")


def opposites(extra: Sequence[str]) -> List[str]:
    """What a remount has to say so that these options go."""
    words = {"relatime": "strictatime", **_OPPOSITES}
    return [word for word in ("commit=0" if _is_commit(option) else words.get(option, "") for option in extra) if word]


def wants_unmount(wanted: Sequence[str], live: Sequence[str]) -> List[Tuple[str, str]]:
    """(live, wanted) of each option that differs and that ext4 changes by no remount.

    The journaling mode is refused (ext4_check_opt_consistency()); an asynchronous commit and the journal's checksums are features of the
    journal, which are set when it is loaded (ext4_load_and_init_journal()), so that a remount would show them and change nothing.
    """
    modes = [(data_mode(options) or "data=ordered") for options in (live, wanted)]
    found = [(modes[0], modes[1])] if modes[0] != modes[1] else []
    for option in ("journal_async_commit", "nojournal_checksum"):
        if (option in live) != (option in wanted):
            words = ["%s%s" % ("" if option in options else "no ", option) for options in (live, wanted)]
            found.append((words[0], words[1]))
    return found


def fstab_drift(line: Sequence[str], live: Sequence[str]) -> Tuple[List[str], List[str]]:
    """As option_drift(), for a line of fstab that anybody may have written: only options of which it is certain how the kernel shows them."""
    missing, extra = option_drift(line, live)
    # user, users, owner and group imply nosuid and nodev, the first two noexec as well: mount(8).
    implied = {"nosuid", "nodev", "noexec"} if {"user", "users", "owner", "group"} & set(line) else set()
    # What the superblock does at an error anyway is not shown (_ext4_show_options()).
    certain = [option for option in missing if (option in _OPPOSITES and not option.startswith("errors=")) or _is_commit(option)]
    return certain, [option for option in extra if option not in implied]
