# SPDX-License-Identifier: GPL-3.0-or-later
"""PVs that are sound and that LVM does not list, because its devices file or a filter keeps it from them. I/O: asks LVM again, without these.

lvmdevices(8), lvm.conf(5): use_devicesfile, filter, global_filter. Whatever such a PV holds is hidden, and not lost: its label and its metadata are whole.
"""

from __future__ import annotations

from typing import Dict, List, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block import tool_output
from ansible_collections.plumbline.ssd.plugins.module_utils._block.hidden_pv import DEVICES_FILE, FILTER, HiddenPv
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.lvm import Pv
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner

_LABEL = "LVM2_member"
# What keeps LVM from a device → the configuration with which LVM is asked without that. In one section: a second --config would replace the first.
_WITHOUT = {DEVICES_FILE: "use_devicesfile=0", FILTER: 'filter=["a|.*|"] global_filter=["a|.*|"]'}


def read_hidden_pvs(run: Runner, seen: Observation, targets: Sequence[str]) -> None:
    """Find the PVs on these disks that LVM does not list. It is asked again only where something looks like one."""
    suspects = [node.devno for target in dict.fromkeys(targets) for node in seen.tree(target) if _looks_hidden(seen, node.devno)]
    if not suspects or "lvm" not in seen.tools:
        return
    everything = _pvs(run, seen, *_WITHOUT)
    shown = [devno for devno in dict.fromkeys(suspects) if devno in everything]
    if not shown:
        return  # LVM does not know it either way: that is damage
    alone: Dict[str, Dict[str, Pv]] = {by: _pvs(run, seen, by) for by in _WITHOUT}
    for devno in shown:
        by = tuple(what for what, pvs in alone.items() if devno in pvs) or tuple(_WITHOUT)
        seen.hidden[devno] = HiddenPv(everything[devno].vg, everything[devno].uuid, by)


def _looks_hidden(seen: Observation, devno: str) -> bool:
    """Whether it has a PV's label, or volumes of LVM lie on it, and LVM lists no PV there. Volumes lie on parts of themselves as well."""
    if seen.pv(devno) or seen.nodes[devno].kind == "lvm":
        return False
    labels = any(signature.type == _LABEL for signature in seen.signatures.get(devno, []))
    return labels or any(child.kind == "lvm" for child in seen.children(devno))


def _pvs(run: Runner, seen: Observation, *without: str) -> Dict[str, Pv]:
    """The PVs by device number, as LVM lists them where none of these keeps it from them; none where it cannot say."""
    argv: List[str] = [seen.tools["lvm"], *tool_output.LVM_REPORT[1:], "--config", "devices { %s }" % " ".join(_WITHOUT[what] for what in without)]
    code, out, _err = run(argv)
    if code:
        return {}
    try:
        return {pv.devno: pv for pv in tool_output.parse_lvm(out).pvs}
    except PlumblineError:
        return {}
