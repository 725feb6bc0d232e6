#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: monitor
short_description: Have a host's drives and stacks watched by smartd and Prometheus
version_added: 0.1.0
description:
  - Writes metrics for the textfile collector of Prometheus' node_exporter by a systemd timer, with the health of the drives, their wear, links,
    the findings on all stacks, and the last measured proofs. The program of the timer is a file of its own. It needs Python, and no Ansible.
  - Writes the configuration of smartd with a line for each drive, after C(smartd -q onecheck) has taken it. A drive that dies does not keep
    smartd from watching the others.
  - Installs no package. node_exporter and Prometheus are set up by your own means.
options:
  state:
    description:
      - V(present) writes the files and starts the timer. V(absent) takes back what the module wrote. C(smartd.conf) is then again what it was
        before.
    type: str
    choices: [present, absent]
    default: present
  textfile:
    description:
      - The directory of node_exporter's textfile collector. It must exist. If empty, no metrics are written.
      - A directory that belongs to a user other than root is written to as that user. A directory is refused if somebody else could put another
        one in its place, for example because a directory above it can be written to by a group.
    type: path
    default: /var/lib/prometheus/node-exporter
  interval:
    description: How often the host is read, in minutes, from 1 to 1440.
    type: int
    default: 15
  smartd:
    description: Whether smartd watches the drives.
    type: bool
    default: true
  mail:
    description: Where smartd sends mail. If empty, it only writes to the log of the host.
    type: str
    default: root
  stacks:
    description: Names of the stacks that the host is to have. What it keeps of them is never called left over.
    type: list
    elements: str
    default: []
  retire:
    description:
      - Names of stacks that are gone for good. What the host keeps of them, which is the measured proof and the accepted risks, is moved to
        C(/var/lib/plumbline/retired/TIME). Nothing is removed. The metrics of their proofs are gone then.
      - A stack is refused if O(stacks) has it, if a partition or the volume group of it is on the host, or if a disk cannot be read.
      - A name of which nothing is kept any more changes nothing.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - plumbline.ssd.attributes
  - plumbline.ssd.attributes.actiongroup
  - plumbline.ssd.drives
attributes:
  check_mode:
    support: full
    details: Reads the drives, and writes nothing.
  diff_mode:
    support: full
notes:
  - While a run of the collection has the host's lease, the timer reads nothing, because commands to drives disturb measurements. The metrics
    of the last reading stay.
  - The program keeps one reading a day of each drive, as O(plumbline.ssd.drive_health#module:baseline) does.
seealso:
  - module: plumbline.ssd.drive_health
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Watch the drives
  plumbline.ssd.monitor:
    mail: dba@example.com
  become: true

- name: Take all of it back
  plumbline.ssd.monitor:
    state: absent
  become: true
"""

RETURN = r"""
files:
  description: The files of the monitor that are on the host, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [/etc/systemd/system/plumbline-monitor.timer]
watched:
  description: The nodes that smartd watches.
  returned: success
  type: list
  elements: str
  sample: [/dev/disk/by-id/nvme-MODEL_SERIAL1]
retired:
  description: The records that were moved, each C(from) and C(to). C(to) is empty in check mode.
  returned: success
  type: list
  elements: dict
"""

import os
import shutil

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._block import read_sysfs
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.folders import open_folder
from ansible_collections.plumbline.ssd.plugins.module_utils._core.interpreter import root_interpreter
from ansible_collections.plumbline.ssd.plugins.module_utils._core.keep_lease import Run, peek
from ansible_collections.plumbline.ssd.plugins.module_utils._core.module import exit_refused, exit_success, need_root
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import runner
from ansible_collections.plumbline.ssd.plugins.module_utils._core.write_program_archive import program_bytes
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.health_call import OPTIONS, read_options
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.left_out import read_left_out
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.read_health import DriveMeans, find_disks
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.read_other_drives import read_other_drives
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.smartctl import Member
from ansible_collections.plumbline.ssd.plugins.module_utils._monitor import install, program, unit_files
from ansible_collections.plumbline.ssd.plugins.module_utils._monitor.retire import retire_stacks


def check_options(params):
    read_options(params, 0)
    unit_files.check_settings(params["interval"], params["mail"])
    if params["textfile"]:
        check_textfile(params["textfile"])


def check_textfile(path):
    """The last folder on the way that root alone can exchange. The metrics are written there by root: whoever could exchange the folder would decide where."""
    if not os.path.isdir(path):
        raise PlumblineError(
            "textfile: %s is not there; install node_exporter (Debian: prometheus-node-exporter), or name the directory that its option"
            " --collector.textfile.directory has" % path
        )
    if not unit_files.can_be_watched(unit_files.SmartdLine(path)):
        raise PlumblineError("textfile: '%s' holds a character that cannot stand in a unit of systemd; wanted letters, digits and / . _ : , = + @ -" % path)
    try:
        folder = open_folder(path)
    except OSError as fault:
        raise PlumblineError("textfile: %s cannot be used: %s" % (path, fault.strerror or fault)) from fault
    os.close(folder.fd)
    return folder.fixed


def smartd_lines(params):
    """(the drives that smartctl can read, one line each; warnings)."""
    _lease, held = peek(Run())
    if held:
        raise PlumblineError(held)
    nodes, _names = find_disks([], True)
    members = [Member(member["path"], member["type"]) for member in params["members"]]
    links = {}
    for link, name in sorted(read_sysfs.read_links().items(), reverse=True):  # wwn- sorts behind the names that say the model and the serial
        if not link.startswith(("lvm-", "dm-", "md-")):  # what the disk holds gives these, so that they go with it, and another disk can have them
            links[name] = "/dev/disk/by-id/" + link
    lines, warnings = [], []
    drives, unfit = read_other_drives(DriveMeans(shutil.which, params["timeout"]), nodes, members, True, read_left_out(params["leave_out"]))
    warnings += ["leave_out: no drive of this host fits %s" % entry.text for entry in unfit if not entry.model]
    for source, health in drives:
        if health.read and health.source == "smartctl" and not health.volume:
            line = unit_files.SmartdLine(links.get(source.names[0], source.device) if source.names else source.device, source.member)
            if unit_files.can_be_watched(line):
                lines.append(line)
            else:
                warnings.append("smartd cannot watch %s: a character of its name cannot stand in smartd.conf" % " ".join(line))
    return sorted(lines), warnings


def texts_of(module):
    """(path → text of all files that are to be on the host, the metrics' own file, the lines of smartd, warnings)."""
    params, texts, lines, warnings = module.params, {}, [], []
    outputs = [os.path.join(params["textfile"], unit_files.METRICS_FILE)] if params["textfile"] else []
    if outputs:
        settings = {**{name: params[name] for name in OPTIONS}, "textfile": outputs[0], "stacks": sorted(set(params["stacks"]))}
        texts.update(unit_files.unit_texts(root_interpreter("the monitor"), params["interval"], settings, check_textfile(params["textfile"])))
        texts[unit_files.PROGRAM] = program_bytes(program).decode("utf-8", "surrogateescape")
    smartd = module.get_bin_path("smartd")
    if params["smartd"] and not smartd:
        raise PlumblineError("smartd is not on this host; install the package smartmontools, or set smartd: false")
    if params["smartd"]:
        lines, warnings = smartd_lines(params)
        if lines:
            install.check_not_masked()
            install.prove_smartd(runner(module), smartd, unit_files.smartd_text(lines, params["mail"], install.alert_program(), proof=True))
            texts[install.smartd_conf()] = unit_files.smartd_text(lines, params["mail"], install.alert_program())
        else:
            warnings.append("smartd can read no drive of this host, so it gets no configuration of ours")
    return texts, outputs, lines, warnings


def main():
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "textfile": {"type": "path", "default": "/var/lib/prometheus/node-exporter"},
            "interval": {"type": "int", "default": 15},
            "smartd": {"type": "bool", "default": True},
            "mail": {"type": "str", "default": "root"},
            "stacks": {"type": "list", "elements": "str", "default": []},
            "retire": {"type": "list", "elements": "str", "default": []},
            **OPTIONS,
        },
        supports_check_mode=True,
    )
    try:
        need_root()
        texts, outputs, lines, warnings = {}, [], [], []
        if module.params["state"] == "present":
            check_options(module.params)
            texts, outputs, lines, warnings = texts_of(module)
        retired = retire_stacks(runner(module), module.params["retire"], module.params["stacks"], module.check_mode)
        applied = install.apply_files(runner(module), texts, outputs, module.check_mode)
        if retired.moved and texts and not applied.changed and not module.check_mode:
            warnings += install.read_now(runner(module))
    except PlumblineError as fault:
        exit_refused(module, fault)
    except OSError as fault:
        exit_refused(module, PlumblineError("%s: %s" % (fault.filename or "a file of the host", fault.strerror or fault)))
    diff = [{"before_header": path, "after_header": path, "before": old, "after": new} for path, (old, new) in applied.diff.items()]
    result = {"files": sorted([*texts, *outputs]), "watched": [line.path for line in lines], "diff": diff}
    result["retired"] = [{"from": before, "to": after} for before, after in retired.moved]
    exit_success(module, [*warnings, *retired.warnings, *applied.warnings], changed=applied.changed or bool(retired.moved), **result)


if __name__ == "__main__":
    main()
