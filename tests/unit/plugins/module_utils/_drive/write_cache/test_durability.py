# SPDX-License-Identifier: GPL-3.0-or-later
"""The durability table: the full product against a statement of its own, the rows of the design as they stand, and every option of ext4(5)."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import WriteCache
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache import durability
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.durability import (
    CRITICAL,
    OK,
    POWER_CUT,
    RECORDED,
    REFUSED,
    STALE,
    STATED,
    WARNING,
    Drive,
    Risk,
    judge_cache,
    judge_options,
    option_fault,
)

ANY = object()
THREE = (True, False, None)
BELIEFS = ("write back", "write through", "")
ACCEPTS = ((), (POWER_CUT,), (STALE,), ("shared_controller",), (POWER_CUT, STALE))

# The table once more, from top to bottom; the first row that fits counts. A cache is named by what is certain of it: "none" and "off" are
# certain, "on" is certainly on, "maybe" is there in an unknown state, "dark" is not known at all. Protected: operator, drive, no.
# cache, protected, barriers, belief, power cut accepted, comes back off → level, acceptance
TABLE = [
    ("none", ANY, ANY, ANY, ANY, ANY, OK, ""),
    (ANY, "operator", False, ANY, ANY, ANY, RECORDED, STATED),
    (ANY, "drive", False, ANY, ANY, ANY, RECORDED, ""),
    (ANY, "no", False, ANY, True, ANY, RECORDED, POWER_CUT),
    (ANY, "no", False, ANY, False, ANY, REFUSED, POWER_CUT),
    (ANY, ANY, True, "write back", ANY, ANY, OK, ""),
    ("off", ANY, True, ANY, ANY, True, OK, ""),
    ("on", ANY, True, "write through", ANY, ANY, CRITICAL, ""),
    (ANY, ANY, True, ANY, ANY, ANY, WARNING, ""),
]


def expected(cache, stated, barriers, belief, accept, follows):
    if cache.present is False:
        state = "none"
    elif cache.enabled is not None:
        state = "on" if cache.enabled else "off"
    else:
        state = "maybe" if cache.present else "dark"
    protected = "operator" if stated else "drive" if cache.protected is True else "no"
    asked = (state, protected, barriers, belief, POWER_CUT in accept, follows or cache.saved is False)
    return next(row[6:] for row in TABLE if all(wanted is ANY or wanted == found for wanted, found in zip(row, asked)))


def product():
    for present, enabled, changeable, saved, protected in itertools.product(THREE, repeat=5):
        cache = WriteCache(present, enabled, changeable, saved, protected, "" if present is not None else "refused")
        for stated, barriers, belief, accept, follows in itertools.product((False, True), (False, True), BELIEFS, ACCEPTS, (False, True)):
            yield cache, stated, barriers, belief, accept, follows


def test_every_combination_has_its_answer():
    rows = 0
    for asked in product():
        found = judge_cache(*asked)
        assert (found.level, found.acceptance) == expected(*asked), asked
        assert found.state and found.text and "\n" not in found.text
        rows += 1
    assert rows == 3**5 * 2 * 2 * 3 * 5 * 2


def test_what_is_not_known_is_never_safer_than_the_worst_that_it_may_be():
    """Putting "not known" in place of anything that is known never makes a judgement better than the better of what it may be."""
    order = [OK, RECORDED, WARNING, CRITICAL, REFUSED]

    def rank(*asked):
        return order.index(judge_cache(*asked).level)

    for cache, stated, barriers, belief, accept, follows in product():
        for name in ("present", "enabled", "protected"):
            if getattr(cache, name) is None and barriers is False:
                known = [rank(cache._replace(**{name: value}), stated, barriers, belief, accept, follows) for value in (True, False)]
                assert rank(cache, stated, barriers, belief, accept, follows) == max(known)
        if not belief and barriers:
            assert rank(cache, stated, barriers, belief, accept, follows) >= rank(cache, stated, barriers, "write back", accept, follows)


# design.md, "Durability": cache, protection, barriers, belief, accept → level. Each row stands for all its rows here.
ON, OFF, NONE = WriteCache(True, True), WriteCache(True, False), WriteCache(False)
DESIGN = {
    "volatile, on | no or unknown | on | default, safe": (
        [ON, ON._replace(protected=False)], [False], True, ["write back"], [()], OK,
    ),
    "off, or none | any | on | safe, and the kernel may go on believing write back": (
        [OFF, OFF._replace(protected=False), OFF._replace(protected=True), NONE], [False, True], True, ["write back"], [()], OK,
    ),
    "off | any | off | needs acceptance: a reset can bring the cache back": (
        [OFF, OFF._replace(protected=False), OFF._replace(saved=False)], [False], False, BELIEFS, [(), (STALE,)], REFUSED,
    ),
    "off | any | off | accepted": (
        [OFF, OFF._replace(protected=False), OFF._replace(saved=False)], [False], False, BELIEFS, [(POWER_CUT,)], RECORDED,
    ),
    "on | any | on, but the kernel believes write through | critical finding: flushes are dropped": (
        [ON, ON._replace(protected=False), ON._replace(protected=True)], [False, True], True, ["write through"], ACCEPTS, CRITICAL,
    ),
    "volatile, on | no or unknown | off | refused": (
        [ON, ON._replace(protected=False)], [False], False, BELIEFS, [(), (STALE,)], REFUSED,
    ),
    "volatile, on | no or unknown | off | unless accepted": (
        [ON, ON._replace(protected=False)], [False], False, BELIEFS, [(POWER_CUT,)], RECORDED,
    ),
    "any | operator states it per serial | off | allowed, recorded": (
        [ON, OFF, WriteCache(), ON._replace(protected=False)], [True], False, BELIEFS, [(), (POWER_CUT,)], RECORDED,
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", DESIGN)
def test_rows_of_the_design(row):
    caches, stated, barriers, beliefs, accepts, level = DESIGN[row]
    for cache, word, belief, accept in itertools.product(caches, stated, beliefs, accepts):
        assert judge_cache(cache, word, barriers, belief, accept).level == level


LOSS = ": without barriers a power cut loses what was acknowledged"


@pytest.mark.parametrize(
    "asked, state, text",
    [
        ((NONE, False, False, "write through"), "no_volatile_cache", "it has no volatile write cache"),
        ((ON, False, True, "write back"), "flushed", "its write cache is on; the kernel flushes it"),
        ((WriteCache(), False, True, "write back"), "flushed", "its write cache could not be read; the kernel flushes it"),
        (
            (ON, False, True, "write through"),
            "flushes_dropped",
            "its write cache is on, and the kernel believes 'write through' and drops flushes: a power cut loses what was acknowledged",
        ),
        ((ON, False, True, ""), "unknown", "its write cache is on, and the kernel does not say whether it flushes"),
        ((OFF, False, True, "write back"), "cache_off", "its write cache is off"),
        ((OFF._replace(saved=False), False, True, "write through"), "cache_off", "its write cache is off"),
        (
            (OFF, False, True, "write through"),
            "cache_off_unflushed",
            "its write cache is off, and a reset can bring it back, while the kernel believes 'write through' and drops flushes",
        ),
        (
            (ON, False, False, "write back"),
            "unprotected",
            "its write cache is on (power-loss protection not known)" + LOSS,
        ),
        (
            (ON._replace(enabled=None, protected=False), False, False, ""),
            "unprotected",
            "its write cache may be on (without power-loss protection)" + LOSS,
        ),
        (
            (OFF, False, False, "write back"),
            "unprotected",
            "its write cache is off, and a reset can bring it back (power-loss protection not known)" + LOSS + ", as soon as it is on again",
        ),
        (
            (OFF._replace(saved=False), False, False, "write back"),
            "unprotected",
            "its write cache is off, and saved so in the drive (power-loss protection not known)" + LOSS + ", as soon as it is on again",
        ),
        ((ON._replace(protected=True), False, False, ""), "protected", "its write cache is on (power-loss protected by its own word)"),
        ((ON, True, False, ""), "protected", "its write cache is on (power-loss protected, as stated in the spec)"),
        (
            (ON._replace(protected=False), True, False, ""),
            "protected",
            "its write cache is on (power-loss protected, as stated in the spec, though the drive denies it)",
        ),
    ],
)
def test_words(asked, state, text):
    found = judge_cache(*asked)
    assert (found.state, found.text) == (state, text)


# --- mount options ---------------------------------------------------------------------------------

# ext4(5) of e2fsprogs 1.47 and Documentation/admin-guide/ext4.rst of Linux 6.1, every option once, with a value where it takes one.
TAKES_NOTHING = """
    acl noacl bsddf minixdf check=none nocheck debug errors=continue errors=remount-ro errors=panic grpid bsdgroups nogrpid sysvgroups
    grpquota noquota quota usrquota prjquota nouid32 oldalloc orlov resgid=0 resuid=0 sb=32768 user_xattr nouser_xattr
    data=journal data=ordered data_err=ignore data_err=abort barrier=1 barrier commit=5 commit=30 commit=3600 jqfmt=vfsv1
    usrjquota=aquota.user grpjquota=aquota.group journal_checksum nojournal_checksum inode_readahead_blks=64 stripe=32 delalloc nodelalloc
    max_batch_time=0 min_batch_time=5 journal_ioprio=0 auto_da_alloc noinit_itable init_itable=5 discard nodiscard block_validity
    noblock_validity dioread_lock dioread_nolock nodioread_nolock max_dir_size_kb=100 i_version nombcache dax=never
    async sync dirsync noatime nodiratime relatime strictatime lazytime nolazytime nosuid nodev noexec defaults
    """.split()
RISKY = {
    "barrier=0": POWER_CUT,
    "nobarrier": POWER_CUT,
    "noauto_da_alloc": POWER_CUT,
    "data=writeback": STALE,
}
NEVER = """
    norecovery noload abort journal_dev=2049 journal_path=/dev/sdb1 journal_async_commit
    barrier=00 barrier=0x0 barrier=+0 barrier=2 auto_da_alloc=0
    """.split()
DRIVES = (Drive("nvme0n1", "S1", ON, belief="write back"), Drive("nvme1n1", "S2", ON, belief="write back"))


@pytest.mark.parametrize("option", TAKES_NOTHING)
def test_options_that_take_no_promise_away(option):
    assert judge_options([option], DRIVES, ()) == [] and option_fault([option]) == ""


@pytest.mark.parametrize("option", RISKY)
def test_options_that_want_an_acceptance(option):
    assert option_fault([option]) == ""
    for accept in ACCEPTS:
        (risk,) = judge_options(["noatime", option], DRIVES, accept)
        level = RECORDED if RISKY[option] in accept else REFUSED
        assert (risk.option, risk.level, risk.acceptance, risk.drives) == (option, level, RISKY[option], DRIVES)


@pytest.mark.parametrize("option", NEVER)
def test_options_that_no_acceptance_allows(option):
    found = option_fault(["noatime", option])
    assert found.startswith("'%s' " % option) and "\n" not in found


@pytest.mark.parametrize("beside, fine", [("data=journal", True), ("data=writeback", True), ("data=ordered", False), ("noatime", False)])
def test_async_commit_only_where_ext4_mounts_it(beside, fine):
    for options in (["journal_async_commit", beside], [beside, "journal_async_commit"]):
        assert (option_fault(options) == "") is fine


@pytest.mark.parametrize(
    "options, found",
    [
        (["nobarrier", "barrier=1"], []),
        (["barrier=0", "barrier"], []),
        (["barrier=1", "nobarrier"], ["nobarrier"]),
        (["data=writeback", "data=ordered"], []),
        (["data=ordered", "data=writeback"], ["data=writeback"]),
        (["noauto_da_alloc", "auto_da_alloc"], []),
        (["noatime", "nodiratime", "nodelalloc", "barrier=0", "data=writeback"], ["barrier=0", "data=writeback"]),
        (["NOBARRIER", "barriers=0", "data=WRITEBACK"], []),  # which the kernel does not know
    ],
)
def test_the_last_of_opposites_counts(options, found):
    assert [risk.option for risk in judge_options(options, DRIVES, ())] == found


def test_drives_that_differ_are_judged_apart():
    drives = (
        Drive("a", "A", ON), Drive("b", "B", NONE), Drive("c", "C", ON), Drive("d", "D", OFF), Drive("e", "E", ON, True), Drive("f", "F"),
    )  # fmt: skip
    found = judge_options(["nobarrier"], drives, ())
    assert [(risk.level, [drive.name for drive in risk.drives]) for risk in found] == [
        (REFUSED, ["a", "c"]),
        (REFUSED, ["d"]),
        (RECORDED, ["e"]),
        (REFUSED, ["f"]),
    ]
    assert [risk.level for risk in judge_options(["nobarrier"], drives, (POWER_CUT,))] == [RECORDED] * 4
    assert judge_options(["nobarrier"], drives[1:2], ()) == []


def test_names():
    assert durability.name_drives(DRIVES[:1]) == "device nvme0n1 (S1)"
    assert durability.name_drives((*DRIVES, Drive("loop0", ""))) == "devices nvme0n1 (S1), nvme1n1 (S2), loop0"
    assert isinstance(judge_options(["nobarrier"], DRIVES, ())[0], Risk)
