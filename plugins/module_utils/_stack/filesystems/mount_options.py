# SPDX-License-Identifier: GPL-3.0-or-later
"""Mount options as they are asked for, and as the kernel shows them. Pure.

What all filesystems take stands here. What one takes beside stands with its kind, below filesystems.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Dict, FrozenSet, List, Mapping, NamedTuple, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import nearest

# Of ``accept``: mount options that are not in the tables.
UNKNOWN_OPTIONS = "unknown_mount_options"
# The options that a mount can be asked for, and shows as asked: fs/namespace.c, mount(8).
VFS_FLAGS: FrozenSet[str] = frozenset(
    "async atime defaults dev diratime dirsync exec i_version iversion lazytime _netdev noatime nodev nodiratime noexec nolazytime norelatime nosuid "
    "nosymfollow nouser relatime rw strictatime suid sync".split()
)
_CONTEXTS = ("context", "defcontext", "fscontext", "rootcontext")  # of SELinux
# Those with a value: the pattern of it, and the words for it.
VFS_VALUES: Mapping[str, Tuple[str, str]] = dict.fromkeys(_CONTEXTS, (".+", "an SELinux context"))
# Options that mount(8) or the kernel takes, and that cannot hold: why.
VFS_CANNOT_HOLD: Mapping[str, str] = {
    **dict.fromkeys(
        ("user", "users", "owner", "group"), "it lets others mount the volume, and no kernel shows it, so that no run could tell whether it holds"
    ),
    **dict.fromkeys(("mand", "nomand"), "the kernel has no mandatory locks any more"),
    **dict.fromkeys(("quiet", "silent", "loud"), "it is about the messages of one mount, and no kernel shows it"),
    **dict.fromkeys(("rbind", "move", "shared", "slave", "private", "unbindable"), "it is about another mount"),
    "x-mount.subdir": "the volume would not be mounted, but a directory of it",
    "x-systemd.automount": "systemd would put a mount of its own there at boot, and the volume comes when somebody looks: no run could tell whether it does",
}
# Words for one setting, beside those that differ by a leading "no". Of two the last counts, and the kernel shows that one alone.
VFS_SETTINGS: Mapping[str, str] = {**dict.fromkeys(("noatime", "strictatime"), "atime"), **dict.fromkeys(("async", "sync"), "sync")}
# Options that ask for what is so anyway, or that only mount(8) reads: the kernel shows none of them (fs/proc_namespace.c).
VFS_SILENT: FrozenSet[str] = frozenset(
    "async atime defaults dev diratime exec i_version iversion _netdev nolazytime norelatime nouser relatime rw strictatime suid".split()
)
# What a live mount should not have unasked, and what turns it off again where a remount would keep it, mount(8).
VFS_OPPOSITES: Mapping[str, str] = {
    "noatime": "relatime",
    "nodiratime": "diratime",
    "lazytime": "nolazytime",
    "ro": "rw",  # by remount,ro, or by the kernel after an error
    "sync": "async",
    "nosuid": "suid",
    "nodev": "dev",
    "noexec": "exec",
}


class MountOptions(NamedTuple):
    """The options of one kind of filesystem.

    *profiles*: what a volume is mounted with, by name. *flags*, *values*, *cannot_hold*, *settings*, *silent*, *opposites*: see the tables above, of which
    those of a kind are supersets; the opposite is empty where no remount takes an option back. *alone*: an option → what it excludes beside its own
    opposite. *shown*: what the kernel shows for an option, where the two differ. *silent_starts*: how options begin of which nothing is shown. *numbers*:
    how an option with any number begins → what takes it back. *brings*: an option → those that the kernel adds because of it. *uncertain*: how options
    begin of which a line of fstab alone does not tell what is shown. *modes*: options of which one always holds, the default first. *by_no_remount*:
    options beside these that no remount changes; one with a value by how it begins, "name=". *examples*, *needs*: for a trial of each option, a value of
    it and what it cannot do without. *defaults*: what is shown for one of *by_no_remount* that nobody asked for; empty where that is not known.
    """

    filesystem: str
    profiles: Mapping[str, Tuple[str, ...]]
    flags: FrozenSet[str]
    values: Mapping[str, Tuple[str, str]]
    cannot_hold: Mapping[str, str]
    settings: Mapping[str, str]
    alone: Mapping[str, Sequence[str]]
    shown: Mapping[str, str]
    silent: FrozenSet[str]
    silent_starts: Tuple[str, ...]
    opposites: Mapping[str, str]
    numbers: Mapping[str, str]
    brings: Mapping[str, Sequence[str]]
    uncertain: Tuple[str, ...]
    modes: Tuple[str, ...]
    by_no_remount: Tuple[str, ...]
    examples: Mapping[str, str]
    needs: Mapping[str, str]
    defaults: Mapping[str, str] = MappingProxyType({})

    @property
    def unmount_first(self) -> str:
        """The end of a message about an option that no remount changes; it takes the mount point.

        fstab keeps the live option, so that no reboot changes unnoticed what a run could not.
        """
        text = " changes this by no remount, so neither the mount nor fstab was changed; stop what uses it, umount %s, and run again"
        return self.filesystem + text

    def spelling_fault(self, option: str, accepted: bool) -> str:
        """Why it would not be mounted so, or would not stay so; empty where it would. *accepted*: unknown options are accepted explicitly."""
        name, equals, value = option.partition("=")
        if name.lower() in self.cannot_hold:
            return "'%s' is not taken: %s" % (option, self.cannot_hold[name.lower()])
        if option.lower().startswith("x-") or (name in self.flags and not equals):
            return ""
        if equals and name in self.values:
            pattern, words = self.values[name]
            return "" if re.fullmatch(pattern, value) else "'%s' does not fit; wanted %s behind the =" % (option, words)
        if name in self.flags or name in self.values:
            return "'%s' does not fit; %s" % (option, "it takes no value" if equals else "it wants a value, %s" % self.values[name][1])
        if accepted:
            return ""
        known = [*self.flags, *(other + "=" for other in self.values)]
        text = "'%s' is no mount option that is known here%s; where your kernel has it, set accept: [%s] on the stack"
        return text % (option, nearest(name + equals, known), UNKNOWN_OPTIONS)

    def contradiction(self, options: Sequence[str]) -> str:
        """Which of these options set one thing twice, so that one of them could never be seen to hold; empty where none do."""
        words: Dict[str, List[str]] = {}
        for option in options:
            name = option.partition("=")[0]
            if name in self.flags or name in self.values:
                plain = name[2:] if name.startswith("no") and (name[2:] in self.flags or name[2:] in self.values) else name
                words.setdefault(self.settings.get(name, plain), []).append(option)
        for option in self.alone:
            if option in options:
                words["beside " + option] = [other for other in options if other in (option, *self.alone[option])]
        twice = next((some for some in words.values() if len(some) > 1), [])
        return "%s say different things; wanted one of them" % " and ".join("'%s'" % word for word in twice) if twice else ""

    def known(self) -> List[str]:
        """An example of each option that is taken, but for SELinux's, with what it cannot do without."""
        valued = ["%s=%s" % (name, self.examples.get(name, "1")) for name in self.values if name not in _CONTEXTS]
        return sorted([*(self.needs.get(flag, flag) for flag in self.flags), *valued])

    def drift(self, specified: Sequence[str], live: Sequence[str]) -> Tuple[List[str], List[str]]:
        """Options that a live mount lacks, and those that it has unasked, as the kernel writes them."""
        silent = ("x-", *self.silent_starts)
        shown = [self.shown.get(option, option) for option in specified if option not in self.silent and not option.lower().startswith(silent)]
        missing = [option for option in shown if option not in live]
        extra = [option for option in live if (option in self.opposites or self._number(option)) and option not in shown]
        for start in {self._number(option) for option in shown} - {""}:  # another number takes the place of the one that is there
            extra = [option for option in extra if not option.startswith(start)]
        brought = {other for option in shown for other in self.brings.get(option, ())}
        extra = [option for option in extra if option not in brought]
        if "strictatime" in specified and "relatime" in live:
            extra.append("relatime")
        return missing, extra

    def _number(self, option: str) -> str:
        """How an option begins that has any number; empty for all others."""
        return next((start for start in self.numbers if option.startswith(start)), "")

    def undo(self, extra: Sequence[str]) -> List[str]:
        """What a remount has to say so that these options go."""
        words = {"relatime": "strictatime", **self.opposites}
        return [word for word in (self.numbers.get(self._number(option)) or words.get(option, "") for option in extra) if word]

    def wants_unmount(self, specified: Sequence[str], live: Sequence[str]) -> List[Tuple[str, str]]:
        """(live, specified) of each option that differs and that no remount changes."""
        differing = []
        if self.modes:
            mode = [next((option for option in reversed(options) if option in self.modes), self.modes[0]) for options in (live, specified)]
            differing = [(mode[0], mode[1])] if mode[0] != mode[1] else []
        for option in self.by_no_remount:
            without = self.defaults.get(option, "no " + option.rstrip("="))
            words = [next((word for word in reversed(options) if _is(word, option)), without) for options in (live, specified)]
            if words[0] != words[1] and all(words):
                differing.append((words[0], words[1]))
        return differing

    def fstab_drift(self, line: Sequence[str], live: Sequence[str]) -> Tuple[List[str], List[str]]:
        """As drift(), for a line of fstab that anybody may have written: only options of which it is certain how the kernel shows them."""
        missing, extra = self.drift(line, live)
        # user, users, owner and group imply nosuid and nodev, the first two noexec as well: mount(8).
        implied = {"nosuid", "nodev", "noexec"} if {"user", "users", "owner", "group"} & set(line) else set()
        certain = [option for option in missing if (option in self.opposites and not option.startswith(self.uncertain)) or self._number(option)]
        return certain, [option for option in extra if option not in implied]


def _is(option: str, known: str) -> bool:
    """Whether this is a known option, or begins as a known one with a value does."""
    return option.startswith(known) if known.endswith("=") else option == known


def contexts_of(options: Sequence[str]) -> Dict[str, str]:
    """The options that give SELinux contexts → the context."""
    return {option: option.partition("=")[2] for option in options if option.partition("=")[0] in _CONTEXTS}
