# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller pays for each further host of a re-run that changes nothing, beside a plain playbook of the common modules.

The answers of one host of the lab are recorded, and replayed to many names: no host is asked in the second part, so that the CPU time is the
controller's own. CPU time is that of ansible-playbook and its workers, in user and kernel mode. Before that both playbooks build the volume on
that one host, whose CPU time on the controller is told as well; the host's own never is.

With --what audit, our re-run is the audit with its report, and the plain playbook's is a run in check mode.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import provision

WHO = ("peer", "ours")
# An interpreter for the host of the lab that keeps the answer of each module.
RECORDER = """
mkdir -p /run/plumbline-answers
cat > /usr/local/bin/recording-python <<'END'
#!/bin/sh
kept=$(mktemp) && cat > "$kept"
name=$(sed -nE "s/^ansible_module='([a-z_]+[.])*([a-z_]+)',$/\\2/p" "$kept")
/usr/bin/python3 < "$kept" > "$kept.answer"
code=$?
cp "$kept.answer" "/run/plumbline-answers/$name.json"
cat "$kept.answer"
rm "$kept" "$kept.answer"
exit $code
END
chmod 755 /usr/local/bin/recording-python
"""
# An interpreter for the controller that gives these answers.
REPLAY = """#!/bin/sh
name=$(sed -nE "s/^ansible_module='([a-z_]+[.])*([a-z_]+)',$/\\2/p")
exec cat "{answers}/$name.json"
"""


def play(playbook: str, *words: str) -> float:
    """Run a playbook; CPU seconds of it and all its workers."""
    environment = dict(os.environ, ANSIBLE_CONFIG=str(provision.HERE / "ansible.cfg"), ANSIBLE_NOCOLOR="1")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    argv = ["ansible-playbook", "-i", str(provision.HERE / "inventory.yml"), *words, str(provision.HERE / f"{playbook}.yml")]
    done = subprocess.run(argv, env=environment, cwd=provision.ROOT, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{playbook} failed:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def rerun(what: str, who: str) -> tuple[str, ...]:
    """The playbook of a run that changes nothing, and its options."""
    if what == "audit":
        return ("audit",) if who == "ours" else ("peer", "--check")
    return (who,)


def record(what: str, say) -> tuple[dict[str, dict[str, str]], dict[str, float]]:
    """Build the volume with each playbook on a host of the lab; the answers of a re-run, and the first run's CPU seconds."""
    answers, first = {}, {}
    for who in WHO:
        provision.lab("ssh", provision.RESET)
        provision.lab("replace", "-", stdin=json.dumps(provision.DISKS))
        first[who] = play(who)
        say(f"{who}: first run on one host, {first[who]:.2f} CPU s")
        provision.lab("ssh", RECORDER)
        play(*rerun(what, who), "-e", "ansible_python_interpreter=/usr/local/bin/recording-python")
        listed = "cd /run/plumbline-answers && python3 -c 'import json, os; print(json.dumps({name: open(name).read() for name in os.listdir()}))'"
        answers[who] = json.loads(provision.lab("ssh", listed))
        provision.lab("ssh", "rm -r /run/plumbline-answers /usr/local/bin/recording-python")
    provision.lab("ssh", provision.RESET)
    return answers, first


def replayed(what: str, answers: dict[str, dict[str, str]], hosts: list[int], runs: int, say) -> dict[str, dict[int, list[float]]]:
    """CPU seconds per further host of each playbook, by the number of hosts, one figure a turn."""
    figures: dict[str, dict[int, list[float]]] = {who: {count: [] for count in hosts} for who in WHO}
    with tempfile.TemporaryDirectory(prefix="plumbline-fleet-") as place:
        for who in WHO:
            folder = Path(place) / who
            folder.mkdir()
            for name, text in answers[who].items():
                (folder / name).write_text(text, encoding="utf-8")
            (folder / "replay").write_text(REPLAY.format(answers=folder), encoding="utf-8")
            (folder / "replay").chmod(0o755)
        for turn in range(runs):
            for who in WHO if turn % 2 == 0 else reversed(WHO):
                spent = {}
                local = f"ansible_connection=local ansible_pipelining=true ansible_become=false ansible_python_interpreter={place}/{who}/replay"
                for count in (1, *hosts):
                    inventory = Path(place) / f"{count}.json"
                    names = {f"db{number:03}": {} for number in range(count)}
                    inventory.write_text(json.dumps({"all": {"hosts": names}}), encoding="utf-8")
                    spent[count] = play(*rerun(what, who), "-i", str(inventory), "--limit", "db*", "-e", local)
                for count in hosts:
                    figures[who][count].append((spent[count] - spent[1]) / (count - 1))
                say(f"turn {turn + 1}: {who}: " + ", ".join(f"{count} host{'s' * (count > 1)} {seconds:.2f} CPU s" for count, seconds in spent.items()))
    return figures


def main() -> None:
    words = argparse.ArgumentParser(prog="./plumbline bench fleet", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--what", choices=("provision", "audit"), default="provision", help="what is run on the fleet (default: provision)")
    words.add_argument("--hosts", type=int, nargs="+", default=[50], help="names that are answered (default: 50); the figures are those of the last number")
    words.add_argument("--runs", type=int, default=3, help="turns of each playbook (default: 3)")
    words.add_argument("--json", action="store_true", help="the figures as one JSON object, in the last line")
    options = words.parse_args()
    if min(options.hosts) < 2 or options.runs < 1:
        words.error("--hosts: wanted at least 2; --runs: wanted at least 1")
    out = sys.stderr if options.json else sys.stdout

    def say(line: str) -> None:
        print(line, file=out, flush=True)

    provision.lab("up")
    answers, first = record(options.what, say)
    turns = replayed(options.what, answers, options.hosts, options.runs, say)
    for count in options.hosts:
        say(f"with {count} hosts: " + ", ".join(f"{who} {statistics.median(turns[who][count]):.4f} CPU s for each further host" for who in WHO))
    figures = {who: statistics.median(turns[who][options.hosts[-1]]) for who in WHO}
    result = {
        "hosts": options.hosts[-1],
        "cpu_per_host": round(figures["ours"], 3),
        "peer_cpu_per_host": round(figures["peer"], 3),
        "cpu_ratio": round(figures["ours"] / figures["peer"], 3),
        "first_run_cpu_ratio": round(first["ours"] / first["peer"], 3),
    }
    say(f"re-run: {result['cpu_per_host']} CPU s for each further host, {result['cpu_ratio']} of the plain playbook's")
    say(f"first run on one host: {result['first_run_cpu_ratio']} of the plain playbook's CPU time")
    if options.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
