# SPDX-License-Identifier: GPL-3.0-or-later
"""What the record of a stack's last proof says, and whether measuring again could bring another result. Pure.

A measurement loads a host, which may serve a database by then. It is made again where something can come of it, and only so often.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import one_line
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import ACCEPTED, FAIL, INCONCLUSIVE, PASS, UNFINISHED

Record = Mapping[str, Any]
MOST_TRIES = 3  # measurements under the same conditions that did not pass
_APART = "the guide on how a run works takes one apart"
READS, WRITES = "reads", "writes"  # the parts of a proof; "reads" is all that is measured on mounted volumes
# Acceptance → the part of a proof that may be inconclusive. What failed is never accepted.
ACCEPTANCES: Mapping[str, str] = {"unproven_writes": WRITES}
_SHOWN = 2  # reasons, in one line


class KeptProof(NamedTuple):
    """A record, checked. *parts*: the verdict on each; *tries*: how often it was measured under *conditions* and did not pass."""

    verdict: str = ""
    time: str = ""
    parts: Mapping[str, str] = {}
    accepted: Tuple[str, ...] = ()
    tries: int = 0
    conditions: Mapping[str, str] = {}
    reasons: Tuple[str, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether all that is measured was measured, whatever came of it."""
        return self.verdict not in ("", UNFINISHED)

    def open_parts(self, accept: Sequence[str]) -> List[str]:
        """What is neither proven nor accepted."""
        used = {ACCEPTANCES[acceptance] for acceptance in self.accepts(accept)}
        return [part for part, verdict in sorted(self.parts.items()) if verdict != PASS and part not in used]

    def accepts(self, accept: Sequence[str]) -> List[str]:
        """Those of the acceptances that are needed."""
        return sorted(acceptance for acceptance in accept if self.parts.get(ACCEPTANCES[acceptance]) == INCONCLUSIVE)

    def may_pass(self, accept: Sequence[str], conditions: Mapping[str, str]) -> bool:
        """Whether measuring again could end in a pass. Writes are measured before there are filesystems, and never again."""
        parts = self.open_parts(accept)
        return WRITES not in parts and bool(parts) and (self.tries < MOST_TRIES or self.differing(conditions) != [])

    def differing(self, conditions: Mapping[str, str]) -> List[str]:
        """The conditions that are others now, for people. One that is not known on either side is none."""
        return [
            "%s %s, then %s" % (name, now, self.conditions[name])
            for name, now in sorted(conditions.items())
            if now and self.conditions.get(name) and self.conditions[name] != now
        ]

    @property
    def why(self) -> str:
        """The first reasons, in one line."""
        reasons = list(dict.fromkeys(self.reasons))
        return "; ".join(reasons[:_SHOWN]) + ("; …" if len(reasons) > _SHOWN else "")


def read_kept_proof(record: Record) -> KeptProof:
    """A record as the host has it: from outside, so that what is not of its type is left out."""
    verdict = str(record.get("verdict", ""))
    parts = {part: result for part, result in _texts(record.get("parts")).items() if part in (READS, WRITES)}
    if verdict not in ("", PASS, UNFINISHED) and not any(result != PASS for result in parts.values()):
        parts = {READS: verdict}  # whatever it was that did not pass
    tries, listed = record.get("tries"), record.get("accepted")
    return KeptProof(
        verdict=verdict,
        time=one_line(str(record.get("time", "?"))),
        parts=parts,
        accepted=tuple(sorted(str(acceptance) for acceptance in listed)) if isinstance(listed, list) else (),
        tries=tries if isinstance(tries, int) and tries > 0 else 0,
        conditions=_texts(record.get("conditions")),
        reasons=tuple(one_line(reason) for reason in _strings(record.get("reasons"))),
    )


def _texts(raw: Any) -> Dict[str, str]:
    return {one_line(str(key)): one_line(value) for key, value in raw.items() if isinstance(value, str)} if isinstance(raw, dict) else {}


def _strings(raw: Any) -> List[str]:
    return [item for item in raw if isinstance(item, str)] if isinstance(raw, list) else []


def verdict_of_parts(parts: Mapping[str, str], accept: Sequence[str]) -> str:
    """The verdict of a finished proof, from its parts and what is accepted."""
    kept = KeptProof(parts=parts)
    left = [parts[part] for part in kept.open_parts(accept)]
    if left:
        return FAIL if FAIL in left else INCONCLUSIVE
    return ACCEPTED if kept.accepts(accept) else PASS


def how_to_end(kept: KeptProof, accept: Sequence[str]) -> str:
    """Why a proof that did not pass is not measured again, or when it is, and what ends it. For people."""
    parts = kept.open_parts(accept)
    if WRITES in parts:
        words = "its writes are not measured again, because its volumes have filesystems now, and neither are its reads, because they cannot make up for that"
        if kept.parts[WRITES] == FAIL:
            return words + "; find the cause and build the stack anew (%s), or measure against another plumbline_verify: {throughput: {min_share: …}}" % _APART
        return words + "; accept it by plumbline_verify: {accept: [unproven_writes]}, or build the stack anew (%s)" % _APART
    if not parts:
        return ""
    if kept.tries < MOST_TRIES:
        return "the next run measures it again, as attempt %d of %d" % (kept.tries + 1, MOST_TRIES)
    shown = ", ".join("%s %s" % condition for condition in sorted(kept.conditions.items()) if condition[1])
    words = "it is not measured again after %d attempts under the same conditions%s" % (kept.tries, " (%s)" % shown if shown else "")
    return words + "; another kernel, fio or option of a measurement makes it due, and plumbline_verify: {policy: always} measures it in each run"
