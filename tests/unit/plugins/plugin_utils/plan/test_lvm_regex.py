# SPDX-License-Identifier: GPL-3.0-or-later
"""LVM's regular expressions. What each row says is what dm_regex_match() of libdevmapper 1.02.185 (LVM 2.03.16) says."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan import lvm_regex
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.lvm_regex import Regex, Work

SDA1, NVME = "/dev/sda1", "/dev/nvme0n1p1"
LABEL = "/dev/disk/by-partlabel/plumbline:pgdata:0"
ROWS = [
    # expression, what it is in, what it is not in
    ("sd", (SDA1,), (NVME,)),
    (".*", (SDA1, NVME, ""), ()),
    (".", (SDA1, ""), ()),  # what stands before the name is a character
    ("^/dev/sda$", ("/dev/sda",), (SDA1, "/mnt/dev/sda")),
    ("/dev/sda", (SDA1, "/x/dev/sda"), ("/dev/sdb",)),
    ("^/dev/sd[a-c]1$", (SDA1, "/dev/sdc1"), ("/dev/sdd1", "/dev/sda11")),
    ("^/dev/sd[^a]", ("/dev/sdb", "/dev/sd"), (SDA1,)),  # the end of the name is a character as well
    ("/dev/(sda|nvme0n1p)1", (SDA1, NVME), ("/dev/sdb1",)),
    ("^/dev/sda|nvme", ("/dev/sda", NVME, "/x/nvme"), ("/dev/sdb",)),
    ("nvme[0-9]+n[0-9]+p?1$", (NVME, "/dev/nvme10n11"), ("/dev/nvmen1p1",)),
    ("by-partlabel/plumbline:pgdata:[0-9]+$", (LABEL,), (LABEL + "x",)),
    (r"sda\.1", ("/dev/sda.1",), (SDA1,)),
    (r"sd\d", ("/dev/sdd",), ("/dev/sd1",)),  # a d
    (r"\(a\)", ("(a)",), ("a",)),
    ("a{2}", ("a{2}",), ("aa",)),
    ("x[a-]y]z", ("x_z", "x]z", "xaz", "xyz"), ("xbz", "x-z")),
    ("[]x]", (), ("x]", "x", "]")),
    ("[-a]1", ("-1", "a1"), ("b1",)),
    ("[c-a]1", ("b1",), ("d1",)),
    ("[a-c-e]1", ("d1", "a1"), ("-1",)),
    (r"[-\]]x", ("]x", "-x"), (r"\x",)),
    ("^(a+)?b$", ("b", "aab"), ("cb",)),
    ("^a+?b$", ("b", "aab"), ("cb",)),  # in Python: one a at least
    ("^a**b$", ("b", "ab"), ("cb",)),
    ("x*", ("", SDA1), ()),
    ("$", ("", SDA1), ()),
    ("a^b", (), ("a^b", "ab")),
    ("/é/", ("/dev/é/x",), ("/dev/e/x",)),
]


@pytest.mark.parametrize(("expression", "found", "missed"), ROWS, ids=[row[0] for row in ROWS])
def test_what_it_is_in(expression, found, missed):
    regex = Regex(expression, Work())
    assert [name for name in found + missed if regex.is_in(name)] == list(found)


@pytest.mark.parametrize("expression", ["", "(", ")", "a)b", "()", "*", "a|", "|a", "a||b", "(?:a)", "[a", "[a-", "a\\", "(a", "(" * 60 + "a" + ")" * 60])
def test_what_lvm_does_not_take_or_goes_wrong_with(expression):
    with pytest.raises(ValueError, match=r"\w"):
        Regex(expression, Work())


@pytest.mark.parametrize("expression", ["(a*)*b", "(a|a)*b", "((a*b*)*c*)*d", "(.*.*.*.*.*.*)*x" * 4])
def test_no_expression_takes_long(expression):
    """Python's own would try 2 to the power of 60 ways."""
    work = Work()
    assert not Regex(expression, work).is_in("a" * 60 + "c")
    assert lvm_regex.MOST_STEPS - work.left < 100_000


def test_too_much_is_no_answer():
    regex = Regex("(.*a)" * 200, Work(10_000))
    with pytest.raises(ValueError, match="takes too long"):
        regex.is_in("a" * 1000)
