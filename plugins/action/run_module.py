# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""M(plumbline.ssd.run_module): runs a module of another collection on the host, and takes what it returns for data, as it is done with ours."""

from __future__ import annotations

from ansible_collections.plumbline.ssd.plugins.plugin_utils.report import HostAction

ARGUMENTS = {
    "module": {
        "type": "str",
        "required": True,
        "choices": ["ansible.builtin.package", "community.general.filesystem", "community.general.lvg", "community.general.lvol"],
    },
    "arguments": {"type": "dict", "required": True},
}


class ActionModule(HostAction):
    """Asks as Ansible itself would: by the module's own action plugin, if it has one."""

    _supports_check_mode = True

    def ask(self, task_vars, arguments=None, **more):
        _checked, params = self.validate_argument_spec(ARGUMENTS)
        name, given = params["module"], params["arguments"]
        task = self._task.copy()
        task.action, task.args = name, given
        action = self._shared_loader_obj.action_loader.get(
            name,
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        if action is not None:
            return action.run(task_vars=task_vars)
        return super().ask(task_vars, given, module_name=name, **more)
