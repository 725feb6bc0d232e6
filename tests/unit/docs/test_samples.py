# SPDX-License-Identifier: GPL-3.0-or-later
"""Every sample runs, or is checked, or stands in UNCHECKED with the reason.

A play goes through ansible-playbook --syntax-check. The options of its modules are held against their documentation, and each plumbline_ variable is read by
check_spec. Commands of the controller go through the parsers of Ansible. What is typed on a host is followed by a test of the lab, or stands in ON_A_HOST.
"""

from __future__ import annotations

import ast
import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
from functools import lru_cache

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance.matrix import AS_FOUND
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_spec import _STACK_KEYS
from ansible_collections.plumbline.ssd.tests.unit.docs.samples import OUTPUT, ROOT, SHELL, Sample, find_samples, kind_of, samples_of
from ansible_collections.plumbline.ssd.tests.unit.hang import HANG

SAMPLES = find_samples()
YAML = [sample for sample in SAMPLES if sample.language == "yaml"]
SCRIPTS = [sample for sample in SAMPLES if sample.language in SHELL]
LANGUAGES = {"yaml", "ini", "json", "python", OUTPUT, *SHELL}

# Samples that are read by a parser only, and no test runs or resolves: the first line of each, and why.
UNCHECKED = {
    ("molecule/lab/simssd/README.md", "from simssd import SimSSD           # with molecule/lab on sys.path"): "a list of calls; test_simssd.py makes them",
}
# Scripts that a person types on a host, and that no test of the lab follows: the first line of each, and why.
ON_A_HOST = {
    ("docs/docsite/rst/guide_first_run.rst", "# mkdir -p /etc/postgresql-common/createcluster.d"): "the scenario database does the same with its own paths",
    ("docs/docsite/rst/guide_first_run.rst", "# pg_createcluster --datadir /data01/main 15 main -- --waldir=/data02/main"): (
        "the scenario database does the same with its own paths"
    ),
    ("docs/docsite/rst/guide_flow.rst", "systemctl is-system-running --wait                  # returns when the boot is over"): (
        "a list of ways to look; test_late_disk.py and the scenario database boot the machine"
    ),
    ("docs/docsite/rst/guide_growth.rst", "echo 1 > /sys/class/block/sdb/device/rescan"): "QEMU's disks show their new size without it",
    ("docs/docsite/rst/guide_growth.rst", 'dumpe2fs -h /dev/pgdata/data    # "Reserved GDT blocks"; the table has one block for each 8 GiB of "Block count"'): (
        "a way to look; test_growth.py reads the same"
    ),
    ("docs/docsite/rst/guide_mirrors.rst", "# echo check > /sys/block/md127/md/sync_action"): "test_mirror_unreadable.py has the module do the same",
    ("docs/docsite/rst/guide_refusals.rst", "disk=/dev/disk/by-id/nvme-MODEL_SERIAL1      # the name in the spec, never /dev/sdX"): (
        "it is the part of guide_flow.rst that test_table_back.py follows, with a name in place of a variable"
    ),
    ("docs/docsite/rst/guide_table_back.rst", 'lsblk --nodeps --output NAME,SERIAL,WWN,MODEL,SIZE "$DEVICE"'): "it only shows what a person compares",
    ("docs/docsite/rst/guide_write_cache.rst", "ansible -i inventory.yml -m plumbline.ssd.device_info -b all    # write_cache of every drive"): (
        "a list of ways to look, on drives of three kinds"
    ),
}
# Commands by the package that brings them: what a host or a controller has. A word that is not here is mistyped, or wants a row.
TOOLS = {
    "coreutils": "cat cp cut dd echo mkdir sha256sum tail test",
    "grep, sed": "grep sed",
    "util-linux": "blkdiscard blockdev findmnt flock lsblk mount sfdisk umount wipefs",
    "dmsetup, lvm2": "dmsetup pvcreate vgcfgbackup vgcfgrestore vgchange",
    "e2fsprogs": "dumpe2fs e2fsck",
    "xfsprogs": "xfs_repair",
    "systemd, udev": "journalctl systemctl udevadm",
    "hdparm, nvme-cli, sdparm": "hdparm nvme sdparm",
    "apt, postgresql-common": "apt pg_createcluster",
    "bash": "[ cd eval exec wait",
}
# Files that samples name, as somebody who follows the guide has them.
FILES = {
    "reserve.json": {"model": "ACME 9400", "firmware": "1.0", "share": 0.12, "hidden": 0.07, "wa": 3.0},
    "results/reserves/db07-MODEL-FIRMWARE.json": {"model": "ACME 9400", "firmware": "1.0", "share": 0.12, "hidden": 0.07, "wa": 3.0},
    "plumbline-acceptance/records/db1-acceptance.json": {
        "acceptance": [{"cells": [{"name": "rand_read_4k_qd1", "state": AS_FOUND, "rates": [9000, 9100, 9050]}]}]
    },
}


def named(samples):
    return pytest.mark.parametrize("sample", samples, ids=[sample.name for sample in samples])


@lru_cache(maxsize=None)
def read(sample):
    """What a YAML sample is, and its data."""
    return kind_of(sample, _STACK_KEYS)


def of_kind(*words):
    """The YAML samples of these kinds; one that is of none fails in a test of its own."""
    found = []
    for sample in YAML:
        try:
            kind = read(sample)
        except (ValueError, yaml.YAMLError):
            continue
        if kind.word in words:
            found.append((sample, kind.data))
    return found


def run(argv, place):
    environment = dict(os.environ, ANSIBLE_NOCOLOR="1", ANSIBLE_COLLECTIONS_PATH=str(collections()), ANSIBLE_CONFIG=str(place / "ansible.cfg"))
    done = subprocess.run(argv, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=HANG)
    return done.returncode, done.stdout


def collections():
    """The path below which this checkout is an installed collection."""
    import ansible_collections.plumbline.ssd as ours

    return os.path.abspath(os.path.join(next(iter(ours.__path__)), "..", "..", ".."))


# What a sample is


def test_there_are_samples():
    assert len(YAML) >= 50 and len(SCRIPTS) >= 40 and len({sample.path for sample in SAMPLES}) >= 45


@named(SAMPLES)
def test_a_sample_says_its_language(sample):
    assert sample.language in LANGUAGES, "%s:%d: found the language '%s'; wanted one of %s" % (sample.path, sample.line, sample.language, sorted(LANGUAGES))


def test_tables_have_no_stale_row():
    first_lines = {(sample.path, sample.first_line) for sample in SAMPLES}
    assert not set(UNCHECKED) - first_lines and not set(ON_A_HOST) - first_lines
    words = {word for sample in SCRIPTS for command in commands_of(sample.script) for word in command[:1]}
    assert not {word for row in TOOLS.values() for word in row.split()} - words


@named([sample for sample in SAMPLES if sample.language in ("json", "ini", "python")])
def test_other_languages_are_sound(sample):
    if sample.language == "json":
        assert json.loads(sample.text)
    elif sample.language == "ini":
        found = configparser.ConfigParser()
        found.read_string(sample.text)
        for name in found.get("defaults", "callbacks_enabled", fallback="").split():
            assert (ROOT / ("plugins/callback/%s.py" % name.rpartition(".")[2])).exists(), name
    else:
        assert ast.parse(sample.text.replace("…", "...")) and (sample.path, sample.first_line) in UNCHECKED


@named(YAML)
def test_yaml_is_something_that_is_checked(sample):
    assert read(sample).data


# Plays and tasks


def test_plays_pass_the_syntax_check(tmp_path):
    """All in one call: a play that imports each of them."""
    for sample, data in of_kind("plays", "tasks"):
        (tmp_path / (sample.name + ".yml")).write_text(yaml.safe_dump(data if read(sample).word == "plays" else [{"hosts": "all", "tasks": data}]))
    names = sorted(path.name for path in tmp_path.glob("*.yml"))
    (tmp_path / "all.yml").write_text(yaml.safe_dump([{"import_playbook": name} for name in names]))
    (tmp_path / "inventory").write_text("[databases]\ndb07\n")
    code, output = run(["ansible-playbook", "--syntax-check", "-i", "inventory", "all.yml"], tmp_path)
    assert code == 0 and len(names) >= 30 and "Could not match supplied host pattern" not in output, output[-3000:]


def tasks_of(data):
    """All tasks of a list of plays or of tasks."""
    for one in data:
        for key in ("tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always"):
            yield from tasks_of(one.get(key, ()))
        if "hosts" not in one and "block" not in one:
            yield one


TASKS = [(sample, task) for sample, data in of_kind("plays", "tasks") for task in tasks_of(data)]


def called(task):
    """(module, its options) of a task: of a name in full there is one."""
    (name,) = (key for key in task if key.count(".") >= 2)
    return name, task[name] or {}


@lru_cache(maxsize=1)
def documented():
    """Module → its options, of all modules in samples, as ansible-doc has them."""
    names = sorted({called(task)[0] for _sample, task in TASKS})
    environment = dict(os.environ, ANSIBLE_COLLECTIONS_PATH=collections())
    done = subprocess.run(["ansible-doc", "-t", "module", "--json", *names], env=environment, stdout=subprocess.PIPE, check=True, timeout=HANG)
    found = json.loads(done.stdout)
    assert sorted(found) == names
    return {name: found[name]["doc"].get("options", {}) for name in names}


# What the module of a host's own package manager takes, and ansible.builtin.package hands on.
DOCUMENTED_OTHERWISE = {("ansible.builtin.package", "name"): {"type": "raw", "required": True}}


def argument_spec(options):
    """An argument spec of documented options."""
    keys = ("type", "elements", "choices", "required", "aliases")
    found = {}
    for name, option in options.items():
        found[name] = {key: option[key] for key in keys if option.get(key)}
        if option.get("suboptions"):
            found[name]["options"] = argument_spec(option["suboptions"])
    return found


def is_template(value):
    return isinstance(value, str) and "{{" in value


def without_templates(spec, value):
    """The spec without the options whose values are known only when the task runs, and the values without them."""
    unknown = {key for key, given in value.items() if key in spec and (is_template(given) or (isinstance(given, (list, dict)) and "{{" in json.dumps(given)))}
    return {key: option for key, option in spec.items() if key not in unknown}, {key: given for key, given in value.items() if key not in unknown}


@pytest.mark.parametrize("sample, task", TASKS, ids=["%s-%d" % (sample.name, number) for number, (sample, _task) in enumerate(TASKS)])
def test_options_of_modules_are_known(sample, task):
    name, given = called(task)
    if isinstance(given, dict):
        other = {option: spec for (module, option), spec in DOCUMENTED_OTHERWISE.items() if module == name}
        spec, values = without_templates({**argument_spec(documented()[name]), **other}, given)
        if spec or values:
            done = ArgumentSpecValidator(spec).validate(values)
            assert not done.error_messages, "%s:%d: %s: %s" % (sample.path, sample.line, name, done.error_messages)


def test_a_wrong_option_is_found():
    spec = argument_spec(documented()["plumbline.ssd.keep_record"])
    for wrong in ({"directry": "x"}, {}, {"directory": "x", "name": {}}, {"directory": "x", "host": "perhaps"}):
        assert ArgumentSpecValidator(spec).validate(wrong).error_messages
    assert without_templates(spec, {"directory": "{{ x }}", "host": True}) == ({key: spec[key] for key in spec if key != "directory"}, {"host": True})


@pytest.mark.parametrize("sample, task", [one for one in TASKS if called(one[1])[0].endswith("_role")])
def test_roles_of_samples_are_there(sample, task):
    role = called(task)[1]["name"]
    tasks_from = called(task)[1].get("tasks_from", "main")
    collection, _dot, name = role.rpartition(".")
    assert collection != "plumbline.ssd" or (ROOT / "roles" / name / "tasks" / (tasks_from + ".yml")).exists(), (sample.path, sample.line, role)


# Variables


def variables_of_samples():
    """Name of a sample → the public variables that it sets. Keys of a stack are those of a stack that has nothing else to say."""
    whole = {"name": "pgdata", "devices": ["nvme-MODEL_SERIAL1", "nvme-MODEL_SERIAL2"], "volumes": [{"name": "data", "mount": "/data01"}]}
    found = {}
    for sample, data in of_kind("variables", "stack"):
        found[sample.name] = data if read(sample).word == "variables" else {"plumbline_stacks": [{**whole, **data}]}
    for sample, data in of_kind("inventory"):
        for group in data.values():
            for name, host in group["hosts"].items():
                known = {**group.get("vars", {}), **(host or {})}
                found["%s-%s" % (sample.name, name)] = {key: value for key, value in known.items() if key.startswith("plumbline_")}
    for number, (sample, task) in enumerate(TASKS):
        if any(key.startswith("plumbline_") for key in task.get("vars", {})):
            found["%s-%d" % (sample.name, number)] = task["vars"]
    for sample in SCRIPTS:
        for command in commands_of(sample.script):
            if command[0] == "ansible-playbook":
                for extra in parsed(command).extra_vars:
                    if not extra.startswith("@"):
                        found["%s-%d" % (sample.name, len(found))] = json.loads(extra) if extra.startswith("{") else dict([extra.split("=", 1)])
    return found


def test_variables_of_samples_are_read(tmp_path):
    """Each sample is a host of one inventory, and check_spec reads them all, where the files are that they name."""
    hosts = variables_of_samples()
    assert len(hosts) >= 25
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content))
    (tmp_path / "inventory.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
    code, output = run(["ansible-playbook", "-i", "inventory.yml", "plumbline.ssd.check_spec"], tmp_path)
    assert code == 0, re.findall(r"(?s)fatal: .*?\n\n|fatal: .*", output)
    assert output.count("no mistake in plumbline_") == len(hosts)


def test_requirements_name_this_release():
    version = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["version"]
    names = [one["name"] for _sample, data in of_kind("requirements") for one in data["collections"]]
    assert names and {os.path.basename(name) for name in names} == {"plumbline-ssd-%s.tar.gz" % version}


# Commands


def commands_of(script):
    """The commands of a script as lists of words: between what separates them, and inside of $( )."""
    script, found = re.sub(r"\\\n", " ", script), []
    inner = re.search(r"\$\(\(([^()]*)\)\)|\$\(([^()]*)\)", script)
    while inner:  # from the innermost outwards; the first group is arithmetic
        found += commands_of(inner.group(2)) if inner.group(2) else []
        script = script[: inner.start()] + "0" + script[inner.end() :]
        inner = re.search(r"\$\(\(([^()]*)\)\)|\$\(([^()]*)\)", script)
    for line in script.split("\n"):
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|()<>")
        lexer.wordchars += "!*?[]{}$,:%@^+\\"
        words = []
        for token in [*lexer, ";"]:
            if token and set(token) <= set(";&|()"):
                while words and words[0] in ("if", "then", "do", "!", "while"):
                    words = words[1:]
                while words and re.match(r"[A-Za-z_]+=", words[0]):
                    words = words[1:]
                if words and words[0] not in ("fi", "done", "for", "else"):
                    found.append(words)
                words = []
            else:
                words.append(token)
    return found


def test_commands_are_found():
    script = 'a=1 b "x; y" | c && d\nif e --f; then g "$(h "$I" | j)"; fi\nfor k in $(l m); do n; done\no $(($(u v) - 1)) \\\n  p > q &   # r\n(cd s && t)'
    assert sorted(command[0] for command in commands_of(script)) == ["b", "c", "cd", "d", "e", "g", "h", "j", "l", "n", "o", "t", "u"]
    assert ["o", "0", "p", ">", "q"] in commands_of(script)


@named(SCRIPTS)
def test_scripts_are_sound(sample):
    done = subprocess.run(["bash", "-n"], input=sample.script, stderr=subprocess.PIPE, text=True, check=False, timeout=HANG)
    assert done.returncode == 0, done.stderr


def parsed(command):
    """The arguments of a command of Ansible, by its own parser; SystemExit for those that it does not take."""
    from ansible.cli.adhoc import AdHocCLI
    from ansible.cli.galaxy import GalaxyCLI
    from ansible.cli.playbook import PlaybookCLI

    cli = {"ansible": AdHocCLI, "ansible-playbook": PlaybookCLI, "ansible-galaxy": GalaxyCLI}[command[0]](command)
    cli.init_parser()
    return cli.parser.parse_args(command[1:])


def tags_of_plays():
    """All tags of the playbooks and roles."""
    texts = [path.read_text(encoding="utf-8") for pattern in ("playbooks/*.yml", "roles/*/tasks/*.yml") for path in ROOT.glob(pattern)]
    return {word for text in texts for tags in re.findall(r"tags: \[([a-z_, ]+)\]", text) for word in tags.split(", ")}


def check_playbook(name):
    """A playbook that a sample starts: one of the collection, or a file of a sample's own."""
    collection, _dot, playbook = name.rpartition(".")
    if collection == "plumbline.ssd":
        assert (ROOT / ("playbooks/%s.yml" % playbook)).exists(), "there is no playbook %s" % name
    else:
        assert any("# %s" % name in sample.text for sample in YAML), "no sample is the file %s" % name


def check_ansible_playbook(command):
    options = parsed(command)
    assert options.inventory, "a reader with an inventory of his own would reach no host, and Ansible only warns of that"
    for name in options.args:
        check_playbook(name)
    known = tags_of_plays()
    assert known >= {"plumbline_verify"} and not {tag for tags in [*options.tags, *options.skip_tags] for tag in tags.split(",")} - known - {"all"}


def check_ansible(command):
    name, given = parsed(command).module_name, parsed(command).module_args or ""
    assert parsed(command).inventory, "a reader with an inventory of his own would reach no host, and Ansible only warns of that"
    collection, _dot, module = name.rpartition(".")
    assert collection == "plumbline.ssd" and (ROOT / ("plugins/modules/%s.py" % module)).exists(), name
    source = (ROOT / ("plugins/modules/%s.py" % module)).read_text(encoding="utf-8")
    options = yaml.safe_load(re.search(r'(?ms)^DOCUMENTATION = r"""(.*?)"""', source).group(1)).get("options", {})
    assert not {word.split("=")[0] for word in given.split()} - set(options)


def check_runner(command):
    check_playbook(command[command.index("--playbook") + 1])


LAB_VERBS = ROOT / "molecule/lab/plumblab" / "command_line.py"  # in two parts, since a change of the machine changes no sample: see affected.py


def check_plumbline(command):
    """A verb of the checkout's own script, with options that its help names, and a part of it that is there."""
    usage = subprocess.run([str(ROOT / "plumbline"), "help"], stdout=subprocess.PIPE, text=True, check=True, timeout=HANG).stdout
    verb, words = command[1], command[2:]
    assert re.search(r"^  %s\b" % verb, usage, re.M), verb
    if verb == "bench":
        assert (ROOT / ("tests/bench/%s.py" % words[0])).exists()
    elif verb == "lab":
        assert 'add_parser("%s"' % words[0] in LAB_VERBS.read_text(encoding="utf-8")
    else:
        assert not [word for word in words if word.startswith("--") and word not in usage]


def check_python(command):
    assert command[1:3] == ["-m", "pytest"] and all((ROOT / word).exists() for word in command[3:])


CHECKED = {
    "ansible-playbook": check_ansible_playbook,
    "ansible": check_ansible,
    "ansible-galaxy": parsed,
    "ansible-runner": check_runner,
    "ansible-builder": lambda command: None,  # test_the_execution_environment runs it
    "./plumbline": check_plumbline,
    "python": check_python,
    "python3": check_python,
    "tests/tools/page_check.sh": lambda command: None if (ROOT / command[0]).exists() else pytest.fail(command[0]),
}


@named(SCRIPTS)
def test_commands_are_known(sample):
    tools = {word for row in TOOLS.values() for word in row.split()}
    found = commands_of(sample.script)
    assert found
    for command in found:
        assert command[0] in CHECKED or command[0] in tools, "%s:%d: what is %s?" % (sample.path, sample.line, command[0])
        try:
            CHECKED.get(command[0], bool)(command)
        except SystemExit:
            pytest.fail("%s:%d: the command does not take these options: %s" % (sample.path, sample.line, " ".join(command)))


HOST_TOOLS = {word for package, row in TOOLS.items() if package not in ("coreutils", "bash") for word in row.split()}


@named([sample for sample in SCRIPTS if HOST_TOOLS & {command[0] for command in commands_of(sample.script)}])
def test_what_is_typed_on_a_host_is_followed_in_the_lab(sample):
    guide = os.path.basename(sample.path)[: -len(".rst")]
    texts = [path.read_text(encoding="utf-8") for path in ROOT.glob("tests/lab/*.py")]
    lab = "".join(text for text in texts if '"%s"' % guide in text or guide == "guide_table_back")  # the latter is follow()'s own default
    followed = sample.label and re.search(r'follow\([a-z.]+, "%s"' % sample.label, lab)
    assert followed or (sample.path, sample.first_line) in ON_A_HOST, "%s:%d: no test follows it" % (sample.path, sample.line)


@pytest.mark.skipif(not shutil.which("ansible-builder"), reason="ansible-builder is not here")
def test_the_execution_environment(tmp_path):
    for number, (_sample, data) in enumerate(of_kind("environment")):
        (tmp_path / "execution-environment.yml").write_text(yaml.safe_dump(data))
        for file in data["additional_build_files"]:
            (tmp_path / file["src"]).touch()
        code, output = run(["ansible-builder", "create", "--file", "execution-environment.yml", "--context", "context%d" % number], tmp_path)
        assert code == 0, output
        # The archive is where the requirements name it: installing begins in this folder, and a Galaxy server may not have the collection.
        context = tmp_path / ("context%d" % number) / "_build"
        wanted = yaml.safe_load((context / "requirements.yml").read_text())["collections"]
        assert wanted and all(item["type"] == "file" and (context / item["name"]).is_file() for item in wanted)


# The finder itself: what it does not find is not checked


def test_blocks_are_found():
    code = "   .. code-block:: yaml\n      :caption: d\n\n      e: 1\n\n      f: 2\n\n"
    rst = "a::\n\n  b\n\n.. note::\n\n   c\n\n" + code + ".. commands: g\n\n.. code-block:: shell\n\n  h\ni\n"
    assert samples_of("x.rst", rst) == [
        Sample("x.rst", 1, "", "b"),
        Sample("x.rst", 9, "yaml", "e: 1\n\nf: 2"),
        Sample("x.rst", 18, "shell", "h", "g"),
    ]
    md = "a\n\n    b\n      c\n\n- d\n\n    e\n\n```yaml\nf: 1\n```\n\n  ~~~\ng\n~~~\n"
    assert samples_of("x.md", md) == [Sample("x.md", 3, "", "b\n  c"), Sample("x.md", 10, "yaml", "f: 1"), Sample("x.md", 14, "", "g")]
