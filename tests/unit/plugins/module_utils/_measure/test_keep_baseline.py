# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._measure import keep_baseline
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.keep_baseline import Baseline, Raw, RawLeg
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import Host

ONE, TWO, THREE = (RawLeg("wwid:eui.%d" % number, "S%d" % number, "Flash", 1 << 40) for number in (1, 2, 3))
LOAD = {"pattern": "randread", "block": 8192, "depth": 16, "jobs": 4, "nomerges": False}
STORED = Baseline((ONE, TWO), {"rand_read": Raw(LOAD, (1.5e8, 1.6e8), "2026-01-02T03:04:05Z")})


def test_it_reads_back_what_it_wrote(tmp_path):
    path = str(tmp_path / "raw.json")
    assert keep_baseline.load_baseline(path) == Baseline()
    keep_baseline.save_baseline(path, STORED)
    assert keep_baseline.load_baseline(path) == STORED
    assert os.stat(path).st_mode & 0o7777 == 0o600
    assert os.listdir(str(tmp_path)) == ["raw.json"]


def test_identity():
    host = Host()
    node = host.seen.nodes[host.disk(serial="ABC")]
    assert keep_baseline.raw_leg(node) == RawLeg(node.identity.key, "ABC", "Flash 9000", node.size)


@pytest.mark.parametrize("legs", [(ONE, TWO), (TWO, ONE)])
def test_the_same_devices(legs):
    keep_baseline.check_baseline_legs(STORED, legs, "/raw.json")


@pytest.mark.parametrize(
    "legs, words",
    [
        ((ONE, THREE), "is of Flash S1 (wwid:eui.1, 1 TiB) and Flash S2 (wwid:eui.2, 1 TiB); these are Flash S1 (wwid:eui.1, 1 TiB) and Flash S3"),
        ((ONE,), "these are Flash S1 (wwid:eui.1, 1 TiB): name another file"),
        ((ONE, TWO, THREE), "and Flash S3"),
        ((ONE, TWO._replace(size=1 << 39)), "512 GiB"),
        ((ONE, TWO._replace(serial="T2")), "Flash T2"),
        ((), "these are no device"),
    ],
)
def test_other_devices(legs, words):
    with pytest.raises(PlumblineError) as caught:
        keep_baseline.check_baseline_legs(STORED, legs, "/raw.json")
    assert "baseline /raw.json" in caught.value.msg and words in caught.value.msg


def test_devices_that_cannot_be_told_apart():
    bare = RawLeg("", "", "Flash", 1 << 40)
    with pytest.raises(PlumblineError, match="no stable identity"):
        keep_baseline.check_baseline_legs(Baseline((bare,)), (bare,), "/raw.json")


@pytest.mark.parametrize(
    "more, lines",
    [({}, []), ({"depth": 8}, ["depth 16 (now 8)"]), ({"jobs": 6, "nomerges": True}, ["jobs 4 (now 6)", "nomerges False (now True)"])],
)
def test_another_load(more, lines):
    assert keep_baseline.differing_parameters(STORED.jobs["rand_read"], dict(LOAD, **more)) == lines


def edited(**more):
    return json.dumps(dict(json.loads(keep_baseline.to_text(STORED)), **more))


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "could not be read as one"),
        ("[]", "could not be read as one"),
        ("{}", "could not be read as one"),
        (edited(format=2), "its format is 2; wanted 1"),
        (edited(legs=[{}]), "could not be read as one"),
        (edited(jobs={"rand_read": {"parameters": {}, "rates": [1.0], "when": ""}}), "rates (1.0,)"),
        (edited(jobs={"rand_read": {"parameters": {}, "rates": [1.0, -1.0], "when": ""}}), "rates (1.0, -1.0)"),
        (edited(jobs={"rand_read": {"parameters": {}, "rates": [1.0, float("nan")], "when": ""}}), "could not be read as one"),
    ],
)
def test_a_file_that_is_none(text, words):
    with pytest.raises(PlumblineError) as caught:
        keep_baseline.parse_baseline(text, "/raw.json")
    assert words in caught.value.msg and "\n" not in caught.value.msg and "/raw.json" in caught.value.msg


@pytest.mark.parametrize("spoil", ["mode", "link", "directory", "large"])
def test_a_file_that_proves_nothing(tmp_path, spoil):
    path = str(tmp_path / "raw.json")
    if spoil == "directory":
        os.mkdir(path)
    elif spoil == "link":
        keep_baseline.save_baseline(path + "2", STORED)
        os.symlink(path + "2", path)
    else:
        keep_baseline.save_baseline(path, STORED)
        if spoil == "mode":
            os.chmod(path, 0o660)
        else:
            os.truncate(path, 2 << 20)
    with pytest.raises(PlumblineError, match="baseline"):
        keep_baseline.load_baseline(path)


@pytest.mark.parametrize("path", ["raw.json", "/not/there/raw.json"])
def test_a_path_that_cannot_be(path):
    with pytest.raises(PlumblineError, match="wanted an absolute path in a directory that exists"):
        keep_baseline.check_path(path)
