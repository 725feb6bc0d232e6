# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that keep a write cache: their texts, and the script as sh runs it on drives made of files."""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache import kept_paths
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache import persist_files as keep
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.keeping import Keeping
from ansible_collections.plumbline.ssd.tests.unit.hang import HANG

ATA = keep.Entry("wwid:naa.5000", "naa.5000", "ata", "off", "/usr/sbin/hdparm")
T10 = keep.Entry("wwid:t10.ATA FLASH 9 S1", "t10.ATA     FLASH 9     S1", "ata", "on", "/usr/sbin/hdparm")
SCSI = keep.Entry("wwid:naa.6000", "naa.6000", "scsi", "on", "/usr/bin/sdparm")
SCSI_OFF = keep.Entry("wwid:naa.6001", "naa.6001", "scsi", "off", "/usr/bin/sdparm")
NVME = keep.Entry("wwid:eui.7000", "eui.7000", "nvme", "off", "/usr/sbin/nvme", "S7", "Flash 9")
ALL = [ATA, T10, SCSI, SCSI_OFF, NVME]


def rules(*entries):
    """The lines that are rules."""
    return [line for line in keep.rules_text(entries).splitlines() if line and not line.startswith("#")]


def test_rules():
    script = """RUN+="/bin/sh -c 'exec /bin/sh /etc/plumbline/write-cache /sys$devpath/block/sd* 2>/dev/kmsg'\""""
    assert rules(ATA) == [
        'ACTION=="add", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", KERNEL=="sd*", ATTRS{wwid}=="naa.5000", RUN+="/usr/sbin/hdparm -q -W0 $devnode"',
        'ACTION=="change", SUBSYSTEM=="scsi", ENV{SDEV_UA}=="POWER_ON_RESET_OCCURRED|MODE_PARAMETERS_CHANGED", ATTR{wwid}=="naa.5000", %s' % script,
    ]
    assert rules(SCSI_OFF)[0].endswith('ATTRS{wwid}=="naa.6001", RUN+="/usr/bin/sdparm --quiet --clear=WCE $devnode"')
    assert rules(SCSI)[0].endswith("""RUN+="/usr/bin/sdparm --quiet --set=WCE $devnode", RUN+="/bin/sh -c 'echo 1 > /sys$devpath/device/rescan'\"""")
    first, second = rules(NVME)
    command = 'RUN+="/usr/sbin/nvme set-feature $devnode --namespace-id=0xffffffff --feature-id=6 --value=0"'
    assert 'ATTR{wwid}=="eui.7000"' in first and first.endswith(command)
    assert 'ENV{NVME_EVENT}=="connected", ATTR{serial}=="S7", ATTR{model}=="Flash 9"' in second and second.endswith(command)


def test_every_rule_matches_an_identity_and_none_a_name_alone():
    for line in rules(*ALL):
        assert re.search(r'ATTRS?\{(wwid|serial)\}=="[^"]+"', line)
        assert line.count('"') % 2 == 0


def test_blanks_are_kept_to_the_blank():
    assert 'ATTRS{wwid}=="t10.ATA     FLASH 9     S1"' in rules(T10)[0]
    assert "'t10.ATA     FLASH 9     S1')" in keep.script_text([T10])


@pytest.mark.parametrize("wwid", ['a"b', "a*b", "a?b", "a[b]", "a|b", "a\\b", "a$b", "a%b", "a'b", "a\nb", "a\tb", "aäb", "", "x" * 300, "`id`"])
def test_what_a_rule_cannot_hold_is_refused(wwid):
    assert keep.why_not_kept(ATA._replace(wwid=wwid))
    assert keep.why_not_kept(NVME._replace(serial=wwid)) and keep.why_not_kept(NVME._replace(model=wwid))


@pytest.mark.parametrize("entry", [ATA, NVME])
def test_a_rule_by_a_placeholder_would_match_others(entry):
    """It would set the caches of drives that nobody named."""
    words = "the kernel shows no WWID of it but the placeholder 'naa.0000000000000000', by which a rule could know it again"
    assert keep.why_not_kept(entry._replace(wwid="naa.0000000000000000")) == words


@pytest.mark.parametrize("entry", ALL)
def test_what_it_can_hold_is_not(entry):
    assert keep.why_not_kept(entry) == ""


@pytest.mark.parametrize("tool", ["hdparm", "/opt/my tools/hdparm", "/usr/sbin/hdparm;id", "/usr/sbin/%k"])
def test_a_tool_in_a_strange_place(tool):
    assert keep.why_not_kept(ATA._replace(tool=tool))


def test_state_comes_back():
    assert keep.parse_state(keep.state_text(ALL)) == sorted(ALL, key=lambda entry: entry.identity)


@pytest.mark.parametrize("text", ["", "{}", "[]", "no json", '{"version": 2, "devices": []}', '{"version": 1, "devices": [{"identity": "x"}]}', "3", "null"])
def test_a_state_that_is_of_no_use(text):
    assert keep.parse_state(text) == []


def test_a_state_that_was_meddled_with_gives_no_commands():
    bad = keep.state_text([ATA]).replace("naa.5000", 'naa\\", RUN+=\\"id')
    assert keep.parse_state(bad) == []


def test_merge_adds_replaces_and_drops():
    entries = keep.merge([ATA, SCSI], {ATA.identity: ATA._replace(state="on"), SCSI.identity: None, NVME.identity: NVME, "wwid:other": None})
    assert entries == [NVME, ATA._replace(state="on")]


def test_the_same_entries_give_the_same_files_in_any_order():
    assert keep.files(ALL) == keep.files(ALL[::-1])


def test_no_entry_means_no_file():
    assert set(keep.files([])) == set(keep.files(ALL)) and not any(keep.files([]).values())


def test_what_is_kept():
    text = keep.rules_text(ALL)
    assert keep.kept_states(ALL, True, text) == {entry.identity: entry.state for entry in ALL}
    assert set(keep.kept_states(ALL, False, text).values()) == {""}
    assert keep.kept_states([], True, text) == dict.fromkeys([entry.identity for entry in ALL], "")  # the state is gone, the rule is not
    assert keep.kept_states([], True, "") == {}


def test_units():
    service = keep.files(ALL)[kept_paths.SERVICE]
    assert "Before=local-fs-pre.target" in service and "LogLevelMax=warning" in service and "ExecStart=/bin/sh %s\n" % kept_paths.SCRIPT in service
    assert not any("Timer]" in text for text in keep.files(ALL).values()), "nothing asks a drive by the clock"


def test_an_earlier_release_s_timer_is_damage():
    """A host that still has it gets a step, and a host without it none."""
    texts = keep.files(ALL)
    tools = tuple({entry.tool for entry in ALL})
    assert keep.kept_of(Keeping(texts, True, tools)) == {entry.identity: entry.state for entry in ALL}
    assert set(keep.kept_of(Keeping({**texts, kept_paths.TIMER: "[Timer]"}, True, tools)).values()) == {""}
    assert set(keep.kept_of(Keeping(texts, False, tools)).values()) == {""}


# --- the script, by sh -----------------------------------------------------------------------------

HDPARM = r"""#!/bin/sh
for node; do :; done
file=@TOP@/drives/${node##*/}
case $1 in
-W) echo; echo "$node:"; if [ "$(cat $file)" = 1 ]; then echo " write-caching =  1 (on)"; else echo " write-caching =  0 (off)"; fi ;;
-q) echo "$*" >> @TOP@/calls; [ -e $file.stuck ] || echo ${2#-W} > $file ;;
esac
"""
SDPARM = r"""#!/bin/sh
for node; do :; done
file=@TOP@/drives/${node##*/}
case $1,$2 in
--get=WCE,*) [ -e $file.mute ] && exit 5; echo "    $node: QEMU      QEMU HARDDISK     2.5+"; echo "WCE           $(cat $file)  [cha: y, def:  1, sav:  1]" ;;
--quiet,--set=WCE) echo "$*" >> @TOP@/calls; [ -e $file.stuck ] || echo 1 > $file ;;
--quiet,--clear=WCE) echo "$*" >> @TOP@/calls; echo 0 > $file ;;
esac
"""
NVME_CLI = r"""#!/bin/sh
file=@TOP@/drives/${2##*/}
case $1 in
get-feature) [ -e $file.mute ] && { echo "no feature today 1"; exit 0; }; echo "get-feature:0x06 (Volatile Write Cache), Current value:0x0000000$(cat $file)" ;;
set-feature) echo "$*" >> @TOP@/calls; case $* in *--value=1*) echo 1 > $file ;; *) echo 0 > $file ;; esac ;;
esac
"""


class Drives:
    """A host whose drives are files; each tool writes down when it sets one."""

    def __init__(self, top):
        self.top = top
        for path in ("sys/class/block", "drives", "tools"):
            (top / path).mkdir(parents=True)
        for name, text in (("hdparm", HDPARM), ("sdparm", SDPARM), ("nvme", NVME_CLI)):
            path = top / "tools" / name
            path.write_text(text.replace("@TOP@", str(top)))
            path.chmod(0o755)

    def disk(self, name, wwid, state, belief="write back"):
        at = self.top / "sys/class/block" / name
        (at / "queue").mkdir(parents=True)
        (at / "queue/write_cache").write_text(belief + "\n")
        (at / "device").mkdir()
        (at / "device/wwid").write_text(wwid + "\n")
        self.say(name, state)

    def namespace(self, name, wwid, controllers, subsystem=False):
        home = self.top / ("sys/devices/nvme-subsys0" if subsystem else "sys/devices/%s" % next(iter(controllers)))
        home.mkdir(parents=True, exist_ok=True)
        at = self.top / "sys/class/block" / name
        (at / "queue").mkdir(parents=True)
        (at / "queue/write_cache").write_text("write back\n")
        (at / "wwid").write_text(wwid + "\n")
        (at / "device").symlink_to(home)
        for controller, state in controllers.items():
            if subsystem:
                (home / controller).mkdir(exist_ok=True)
                (home / (controller + "n1")).mkdir(exist_ok=True)
            self.say(controller, state)

    def say(self, name, state):
        (self.top / "drives" / name).write_text("%d\n" % (state == "on"))

    def state(self, name):
        return {"1": "on", "0": "off"}[(self.top / "drives" / name).read_text().strip()]

    def belief(self, name):
        return (self.top / "sys/class/block" / name / "queue/write_cache").read_text().strip()

    def script(self, entries):
        """The script, with these drives in place of the host's."""
        text = keep.script_text([entry._replace(tool=str(self.top / "tools" / os.path.basename(entry.tool))) for entry in entries])
        text = text.replace("/sys/class/block", str(self.top / "sys/class/block"))
        return re.sub(r"/dev/(?!null)", str(self.top / "drives") + "/", text)

    def run(self, entries):
        """Run the script; returns (its exit code, what was set, what it said)."""
        return self.run_text(self.script(entries))

    def run_text(self, text, *arguments):
        script = self.top / "script"
        script.write_text(text)
        calls = self.top / "calls"
        calls.write_text("")
        done = subprocess.run(["sh", str(script), *arguments], capture_output=True, text=True, timeout=HANG, check=False)
        return done.returncode, calls.read_text().splitlines(), done.stderr


@pytest.fixture
def drives(tmp_path):
    return Drives(tmp_path)


def fill(drives, ata="off", t10="on", scsi="on", scsi_off="off", nvme="off"):
    drives.disk("sda", "naa.5000", ata)
    drives.disk("sdb", "t10.ATA     FLASH 9     S1    ", t10)
    drives.disk("sdc", "naa.6000", scsi)
    drives.disk("sdd", "naa.6001", scsi_off)
    drives.disk("sde", "naa.9999", "on")  # somebody else's
    (drives.top / "sys/class/block/sda1").mkdir()
    drives.namespace("nvme0n1", "eui.7000", {"nvme0": nvme})


def test_drives_as_asked_are_only_asked(drives):
    fill(drives)
    assert drives.run(ALL) == (0, [], "")


@pytest.mark.parametrize(
    ("fell", "name", "state", "words"),
    [
        ({"ata": "on"}, "sda", "off", "-q -W0"),
        ({"t10": "off"}, "sdb", "on", "-q -W1"),
        ({"scsi": "off"}, "sdc", "on", "--quiet --set=WCE"),
        ({"scsi_off": "on"}, "sdd", "off", "--quiet --clear=WCE"),
        ({"nvme": "on"}, "nvme0", "off", "set-feature"),
    ],
)
def test_a_drive_that_fell_back_is_set_again_and_no_other(drives, fell, name, state, words):
    fill(drives, **fell)
    code, calls, said = drives.run(ALL)
    assert code == 0 and len(calls) == 1 and words in calls[0] and name in calls[0]
    wwid = {"sda": "naa.5000", "sdb": T10.wwid, "sdc": "naa.6000", "sdd": "naa.6001", "nvme0": "eui.7000"}[name]
    assert re.fullmatch(r"<4>plumbline.ssd: \S*/%s \(%s\): its write cache was not %s any more and was set again\n" % (name, wwid, state), said)
    assert drives.state(name) == state
    assert drives.run(ALL) == (0, [], "")


def test_the_drive_of_an_event_is_asked_and_no_other(drives):
    fill(drives, ata="on", nvme="on")
    at = str(drives.top / "sys/class/block")
    assert drives.run_text(drives.script(ALL), at + "/sdc")[1] == []
    code, calls, said = drives.run_text(drives.script(ALL), at + "/sda")
    assert code == 0 and len(calls) == 1 and "-W0" in calls[0] and "was set again" in said
    assert (drives.state("sda"), drives.state("nvme0")) == ("off", "on")


def test_foreign_drives_are_left_alone(drives):
    fill(drives, **dict.fromkeys(("ata", "scsi_off", "nvme"), "on"))
    drives.run(ALL)
    assert drives.state("sde") == "on"
    drives.say("sda", "on")
    assert drives.run([SCSI]) == (0, [], "") and drives.state("sda") == "on"


def test_no_drive_is_there(drives):
    assert drives.run(ALL) == (0, [], "")


def test_a_drive_that_refuses_is_said(drives):
    fill(drives, ata="on")
    (drives.top / "drives/sda.stuck").write_text("")
    code, _calls, said = drives.run(ALL)
    assert code == 1 and "cannot be set; wanted off" in said


@pytest.mark.parametrize(("fell", "name"), [({"scsi": "off"}, "sdc"), ({"nvme": "on"}, "nvme0")])
def test_a_drive_that_does_not_answer_is_not_set(drives, fell, name):
    fill(drives, **fell)
    (drives.top / "drives" / (name + ".mute")).write_text("")
    code, calls, said = drives.run(ALL)
    assert (code, calls) == (1, []) and "%s (" % name in said and "does not say" in said


@pytest.mark.parametrize("before", ["off", "on"])
@pytest.mark.parametrize(("belief", "looked"), [("write through", True), ("write back", False)])
def test_the_kernel_looks_again_where_it_would_drop_flushes(drives, belief, looked, before):
    drives.disk("sdc", "naa.6000", before, belief)
    code, _calls, said = drives.run([SCSI])
    assert (drives.top / "sys/class/block/sdc/device/rescan").exists() is looked
    assert code == 0 and ("the kernel sent it no flushes" in said) is looked
    assert drives.belief("sdc") == "write back" and drives.run([SCSI]) == (0, [], "")


def test_each_namespace_gets_its_flushes_though_its_controller_is_asked_once(drives):
    both = [NVME._replace(identity="wwid:" + wwid, wwid=wwid, state="on") for wwid in ("eui.7000", "eui.7001")]
    for name, entry in zip(("nvme0n1", "nvme0n2"), both):
        drives.namespace(name, entry.wwid, {"nvme0": "on"})
        (drives.top / "sys/class/block" / name / "queue/write_cache").write_text("write through\n")
    code, calls, said = drives.run(both)
    assert (code, calls, said.count("the kernel sent it no flushes")) == (0, [], 2)
    assert [drives.belief(name) for name in ("nvme0n1", "nvme0n2")] == ["write back"] * 2


def test_flushes_of_a_cache_that_is_off_are_left_alone(drives):
    drives.disk("sda", "naa.5000", "off", "write through")
    drives.disk("sdc", "naa.6000", "off", "write through")
    (drives.top / "drives/sdc.stuck").write_text("")
    code, _calls, said = drives.run([ATA, SCSI])
    assert code == 1 and said.count("\n") == 1 and "cannot be set; wanted on" in said
    assert [drives.belief(name) for name in ("sda", "sdc")] == ["write through"] * 2


def test_a_kernel_that_goes_on_dropping_flushes_is_said(drives):
    drives.disk("sdc", "naa.6000", "on")
    (drives.top / "sys/class/block/sdc/queue/write_cache").write_text("write through\n")
    # Here a file keeps whatever is written to it. So write what such a kernel would go on to say.
    code, _calls, said = drives.run_text(drives.script([SCSI]).replace("echo 'write back'", "echo 'write through'"))
    assert code == 1 and "goes on sending it no flushes; wanted 'write back'; look who writes" in said


def test_a_drive_that_leaves_meanwhile_is_not_taken_for_the_one_before(drives):
    for name, entry in (("sdc", SCSI), ("sdd", SCSI_OFF._replace(state="on"))):
        drives.disk(name, entry.wwid, "on", "write through")
    (drives.top / "sys/class/block/sdd/queue/write_cache").unlink()
    text = drives.script([SCSI, SCSI_OFF._replace(state="on")]).replace("echo 'write back'", "echo 'write through'")
    _code, _calls, said = drives.run_text(text)
    assert "/sdc (" in said and "/sdd (" not in said and not (drives.top / "sys/class/block/sdd/queue/write_cache").exists()


def test_all_controllers_of_a_subsystem(drives):
    drives.namespace("nvme0n1", "eui.7000", {"nvme0": "off", "nvme1": "on"}, subsystem=True)
    code, calls, _said = drives.run([NVME])
    assert code == 0 and len(calls) == 1 and "nvme1" in calls[0]
    assert drives.run([NVME]) == (0, [], "")


def test_two_namespaces_of_one_controller_ask_once(drives):
    drives.namespace("nvme0n1", "eui.7000", {"nvme0": "on"})
    drives.namespace("nvme0n2", "eui.7001", {"nvme0": "on"})
    (drives.top / "drives/nvme0.stuck").write_text("")
    assert len(drives.run([NVME, NVME._replace(identity="wwid:eui.7001", wwid="eui.7001")])[1]) == 1
