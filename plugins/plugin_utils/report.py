# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugins of the modules that run on a host: they take what the host returns for data, and print what it reports for people."""

from __future__ import annotations

import multiprocessing

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.plugin_utils.host_result import as_data, line_of, lines_of
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_spec import check_variables


def host_of(task_vars):
    """The name in the inventory of the host that a task runs for.

    The variable inventory_hostname may be a fact by now: Ansible lets those of a host, which any module of any collection may return, replace variables
    of the inventory. The process that runs the task has its host.
    """
    host = getattr(multiprocessing.current_process(), "_host", None)
    return str(getattr(host, "name", "") or task_vars["inventory_hostname"])


def print_report(display, host, lines):
    """Print the lines of a report below the name of their host, in one piece: hosts work side by side. Nothing unprintable goes through."""
    if lines:
        display.display("\n".join([f"[{line_of(host)}]", *(f"  {line}" for line in lines_of(lines))]))


# What a host may not say of itself, as facts that any module of any collection may return: Ansible takes them for variables, by which it finds the socket
# of a connection and the programs that copy files, and the roles what is wanted.
_NO_FACTS = ("plumbline_", "control_path", "sftp_", "scp_", "ssh_executable", "ssh_args", "ssh_common_args", "ssh_extra_args")


def check_facts(task_vars):
    """Raise PlumblineError where a fact of the host would be taken for a variable that is the controller's alone."""
    facts = (task_vars or {}).get("ansible_facts")
    names = sorted(name for name in map(str, facts if isinstance(facts, dict) else ()) if name.startswith(_NO_FACTS))
    if names:
        raise PlumblineError(
            f"refused: the facts of the host have {', '.join(map(line_of, names[:5]))}, which only the inventory and the play may set; "
            "no module that is sound returns these: look at the host, and clear its cached facts"
        )


# What Python 3.6 says of a module of ours, and of most of Ansible's own.
_TOO_OLD = "future feature annotations is not defined"
_NEWER = (
    "the Python that Ansible uses on this host is older than 3.7; set ansible_python_interpreter to a newer one, for example /usr/bin/python3.11"
    " (dnf install python3.11)"
)


def explained(result):
    """A result whose failure is that the host's Python is too old says so in one line."""
    words = " ".join(str(result.get(key, "")) for key in ("msg", "module_stderr", "module_stdout", "exception"))
    return {"failed": True, "changed": False, "msg": _NEWER} if result.get("failed") and _TOO_OLD in words else result


class ControllerAction(ActionBase):
    """Runs on the controller, and needs no connection for that."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False


class HostAction(ActionBase):
    """Passes the task to the module, and takes what it returns for data."""

    TRANSFERS_FILES = False
    _requires_connection = True
    _supports_async = True

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        try:
            check_facts(task_vars)
            check_variables([name for name in task_vars or () if name.startswith("plumbline_")])
        except PlumblineError as fault:  # whichever role it is for: nothing has asked the host yet
            return {"failed": True, "changed": False, "msg": fault.msg}
        try:
            result = self.ask(task_vars)
        except AnsibleConnectionFailure:
            raise
        except Exception as fault:  # pylint: disable=broad-except # whatever a host's answer breaks in Ansible is a failure of that host, with a record
            result = {"failed": True, "changed": False, "msg": f"what the host returned could not be taken: {type(fault).__name__}: {fault}"}
        return {**as_data(result), **self.facts()}

    def ask(self, task_vars, arguments=None, **more):
        """What the module returns, as it came from the host. *arguments*: in place of those of the task; *more*: see _execute_module()."""
        given = self._task.args if arguments is None else arguments
        return explained(self._execute_module(module_args=given, task_vars=task_vars, wrap_async=self._task.async_val, **more))

    def caller(self, task_vars):
        """(module of ours, its arguments) → what it returns on the host."""
        return lambda module, arguments: HostAction.ask(self, task_vars, arguments, module_name=f"plumbline.ssd.{module}")

    def facts(self):
        """What the controller itself found about the host: the interpreter, which is looked for once. No other fact is taken from a module of ours."""
        key = getattr(self, "_discovered_interpreter_key", None)
        return {"ansible_facts": {key: self._discovered_interpreter}} if key else {}


class ViewAction(HostAction):
    """Makes the result on the controller, of what modules read on the host. Nobody is here when a task in the background ends, so there is no async.

    *view*: ((module, its arguments) → what that module returns on the host, the arguments of the task) → the result; see views.py.
    """

    _supports_async = False
    view = None

    def ask(self, task_vars, arguments=None, **more):
        return self.view(self.caller(task_vars), dict(self._task.args))


class ReportingAction(HostAction):
    """Prints the report that report_of() takes from the result."""

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        print_report(self._display, host_of(task_vars), self.report_of(result))
        return result

    def report_of(self, result):
        """The lines to print; it may change the result."""
        raise NotImplementedError
