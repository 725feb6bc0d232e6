# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on a drive's health, from what the drive itself reports. Pure.

``failing`` is about the drive, a finding's level about whoever wants to build on it: wear alone never makes a drive fail. The drive's verdict
outranks every rule here. Growth is what a fault is known by: a count that stands still was paid for long ago.
"""

from __future__ import annotations

from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.findings import ERROR, INFO, LEVELS, WARNING, Finding, worst_level
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import as_yaml
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health import smartctl
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.drive_health import Health, Reading
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.endurance import SPAN_SECONDS, Projection, hours_of, project
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.firmware_advisories import NEAR_HOURS, Advisory, advisory_of

_HOT = 70  # degrees Celsius, where the drive names no limit of its own
_WEAR_WARN, _WEAR_END, _DAYS_WARN = 80, 100, 365  # percent, percent, days
_REPLACE = "replace the drive; no mirrored stack has a second copy of it, so copy first what you need"
_REPLACE_MIRRORED = "replace the drive without losing a copy: put a new one in, name it in the place of this one in devices of the stack '%s'"
_REPLACE_MIRRORED += ", set replace: {%s: SERIAL OF THE NEW ONE} there, and run; this one stays plugged meanwhile if it still works; see the guide on mirrors"
_GUESSED = ", if its attributes mean what they usually do: smartctl's database does not have this drive"
_PLAN_IT = "order a replacement; no data is lost, and the swap can be planned"


class DriveUse(NamedTuple):
    """What a drive is for. *new*: a stack is to be built on it; *trusts_capacitors*: the stack relies on its power-loss protection."""

    stack: str = ""
    new: bool = False
    trusts_capacitors: bool = False
    rated_bytes: int = 0  # that the drive may be written, 0: not known
    identified_twice: bool = False  # another drive of the host has its identity
    member: bool = False  # it is behind a controller, and the kernel shows nothing of its link
    members_read: bool = False  # the drives behind the host's controllers are there themselves
    mirrored: str = ""  # the mirrored stack that has a second copy of all that is on it
    known_as: str = ""  # then, its serial as a spec has it


NO_USE = DriveUse()


class Problem(NamedTuple):
    """What a rule found. *failing*: it says that the drive fails."""

    rule: str
    level: str
    found: str
    wanted: str
    failing: bool = False


class HealthVerdict(NamedTuple):
    """The verdict on one drive. *failing* None: it does not report that, or was not read."""

    failing: Optional[bool]
    level: str
    problems: Tuple[Problem, ...]
    projection: Optional[Projection]
    growth: Dict[str, int]  # since the baseline
    recent: Dict[str, int]  # since the latest reading that is a week old, or the baseline

    def findings(self, name: str) -> List[Dict[str, object]]:
        """In the shape that all findings have, with the rule's name."""
        return [
            dict(Finding(problem.level, "drive", name, problem.found, problem.wanted, problem.rule).as_dict(), failing=problem.failing)
            for problem in self.problems
        ]


class Case(NamedTuple):
    """All that the rules look at."""

    drive: Health
    use: DriveUse
    growth: Dict[str, int]
    recent: Dict[str, int]
    compared: bool  # there is a baseline
    projection: Optional[Projection]
    advisories: Sequence[Advisory]


def judge_health(drive: Health, now: int, use: DriveUse = NO_USE, history: Sequence[Reading] = (), advisories: Sequence[Advisory] = ()) -> HealthVerdict:
    """One drive. *history*: the readings of its baseline, the oldest first. A drive that was not read gets one finding and no verdict."""
    if drive.left_out:
        problem = Problem("left_out", INFO, "left out, because %s" % drive.left_out, "nothing: plumbline_health.leave_out says so")
        return HealthVerdict(None, INFO, (problem,), None, {}, {})
    if drive.not_applicable:
        return HealthVerdict(None, INFO, (virtual_problem([drive.virtual]),), None, {}, {})
    if not drive.read:
        level = INFO if drive.volume and use.members_read else WARNING
        return HealthVerdict(None, level, (Problem("unread", level, drive.fault, "a drive that can be asked"),), None, {}, {})
    old = [reading for reading in history if now - reading.when >= SPAN_SECONDS]
    growth = _grown(drive, history[0]) if history else {}
    recent = _grown(drive, old[-1]) if old else growth
    case = Case(drive, use, growth, recent, bool(history), project(drive, now, history, use.rated_bytes), advisories)
    problems = [_with_copy(problem, use) if problem.failing and use.mirrored else problem for rule in RULES for problem in rule(case)]
    failing = True if any(problem.failing for problem in problems) else _said_healthy(drive)
    if failing is None and not any(problem.level in (WARNING, ERROR) for problem in problems):
        problems.append(Problem("no_verdict", INFO if drive.virtual else WARNING, "the drive gives no verdict on itself", "one"))
    problems.sort(key=lambda problem: LEVELS.index(problem.level))
    return HealthVerdict(failing, worst_level([problem.level for problem in problems]), tuple(problems), case.projection, growth, recent)


def _with_copy(problem: Problem, use: DriveUse) -> Problem:
    """How a drive that fails is replaced where another has the same."""
    remedy = _REPLACE_MIRRORED % (use.mirrored, as_yaml(use.known_as))
    return problem._replace(wanted=remedy if problem.wanted == _REPLACE else "%s; %s" % (problem.wanted, remedy))


def virtual_problem(makers: Sequence[str]) -> Problem:
    """The finding on virtual disks whose health cannot be read: once for all of a host."""
    text = "virtual (%s): it has no health of its own" % ", ".join(sorted(set(makers)))
    return Problem("not_applicable", INFO, text, "nothing here; the drives behind it are read on the hypervisor, or by the cloud's provider")


def _grown(drive: Health, then: Reading) -> Dict[str, int]:
    return {name: count - then.counters[name] for name, count in drive.counters.items() if name in then.counters}


def _said_healthy(drive: Health) -> Optional[bool]:
    """False where the drive itself reports that it does not fail; else None."""
    if drive.protocol == "eMMC":
        return False if drive.pre_eol in (1, 2) and any(drive.life) and max(drive.life) <= 10 else None
    if drive.critical_warning is not None:
        worn = _UNRELIABLE if _only_worn(drive) else 0
        return None if drive.critical_warning & ~(_SOUND | worn) else False
    return False if drive.passed is True else None


# --- the rules: each yields what it finds ----------------------------------------------------------------

# Bit of NVMe's critical warning → (name, level, failing, words). Base Specification 2.0, Figure 207, byte 0.
_WARNING_BITS = (
    ("spare_low", ERROR, True, "the spare blocks are below their threshold"),
    ("temperature", WARNING, False, "the temperature is beyond a threshold"),
    ("unreliable", ERROR, True, "the reliability is degraded by media or internal errors"),
    ("read_only", ERROR, True, "the media is read-only"),
    ("backup_failed", WARNING, False, "the backup of the volatile memory (its capacitors) has failed"),
    ("memory_region", WARNING, False, "the persistent memory region is read-only or unreliable"),
)
_UNRELIABLE = 1 << 2
# The bits beside which a drive says itself that it does not fail. One that is not known is none of them.
_SOUND = sum(1 << bit for bit, row in enumerate(_WARNING_BITS) if not row[2])

# What a SCSI drive reports of itself → the same. SPC-6, additional sense codes: 5Dh predicts a failure, 0Bh warns. The first that begins it counts.
_EXCEPTIONS = (
    ("5d73", "worn_out", WARNING, False, "the endurance of its media is used up"),
    ("5d1d", "backup_failed", WARNING, False, "its power-loss protection is about to fail"),
    ("5dff", "exception", WARNING, False, "a test of its failure prediction"),
    ("5d", "status", ERROR, True, "it predicts its failure"),
    *((code, "temperature", WARNING, False, "the temperature is beyond a limit") for code in ("0b01", "0b0a", "0b0b", "0b0c", "0b0d")),
    ("0b03", "self_test", ERROR, True, "its background self-test failed"),
    *((code, "backup_failed", WARNING, False, "its cache is not protected against power loss now") for code in ("0b06", "0b07")),
    ("alert", "exception", WARNING, False, "an alert; the controller does not say which, and heat is one as well"),
    ("", "exception", WARNING, False, "a warning"),
)


def _status(case: Case) -> Iterator[Problem]:
    if case.drive.passed is False or case.drive.exit_bits & smartctl.FAILED:
        yield Problem("status", ERROR, "the drive says that it fails", _REPLACE, True)


def _critical_warning(case: Case) -> Iterator[Problem]:
    for bit, (name, level, failing, words) in enumerate(_WARNING_BITS):
        if (case.drive.critical_warning or 0) & 1 << bit:
            if 1 << bit == _UNRELIABLE and _only_worn(case.drive):
                text = "the rated endurance is used up, and critical warning bit %d says so: its spare is whole, and there is no media error" % bit
                yield Problem("worn_out", _worn_level(case), text, _PLAN_IT)
            else:
                yield Problem(name, _grave(case, name, level), "critical warning bit %d: %s" % (bit, words), "no warning", failing)


def _only_worn(drive: Health) -> bool:
    """A large vendor's firmware sets bit 2 when the rated endurance is used up (smartmontools issue 537). Without loss of data or of spare it says no more."""
    spare, threshold, used = drive.spare, drive.spare_threshold, drive.used
    kept = spare is not None and threshold is not None and (spare > threshold > 0 or spare == 100)
    return kept and used is not None and used >= _WEAR_END and drive.counters.get("media_errors") == 0


def _exception(case: Case) -> Iterator[Problem]:
    code = case.drive.exception
    if code:
        (name, level, failing, words), *_others = [row[1:] for row in _EXCEPTIONS if code.startswith(row[0])]
        level = _worn_level(case) if name == "worn_out" else _grave(case, name, level)
        remedy = _REPLACE if failing else _PLAN_IT if name == "worn_out" else "no warning"
        yield Problem(name, level, "it reports %s%s" % (words, "" if code == "alert" else " (asc %s, ascq %s)" % (code[:2], code[2:])), remedy, failing)


def _grave(case: Case, name: str, level: str) -> str:
    return ERROR if name == "backup_failed" and case.use.trusts_capacitors else level


def _worn_level(case: Case) -> str:
    return ERROR if case.use.new else WARNING


def _spare(case: Case) -> Iterator[Problem]:
    spare, threshold = case.drive.spare, case.drive.spare_threshold
    if spare is not None and threshold is not None and spare < threshold:  # 0 of 0 is a drive that does not report them
        yield Problem("spare", ERROR, "%d %% of the spare blocks are left" % spare, "at least %d %%" % threshold, True)


def _attributes_now(case: Case) -> Iterator[Problem]:
    failing = [attribute for attribute in case.drive.attributes if attribute.prefail and attribute.failing]
    names = ["%d %s (%d, threshold %d)" % (attribute.id, attribute.name, attribute.value, attribute.thresh) for attribute in failing]
    if names or case.drive.exit_bits & smartctl.PREFAIL:
        yield Problem("attribute", ERROR, "a pre-failure attribute is at its threshold: %s" % (", ".join(names) or "smartctl says so"), _REPLACE, True)


# Errors that took data: counter → words.
_DATA_ERRORS = {
    "media_errors": "media errors",
    "uncorrectable_errors": "uncorrectable errors",
    "end_to_end_errors": "end-to-end errors",
    "offline_uncorrectable": "sectors that cannot be read",
}


def _data_errors(case: Case) -> Iterator[Problem]:
    for name, words in _DATA_ERRORS.items():
        count, grown = case.drive.counters.get(name, 0), case.growth.get(name, 0)
        if not case.drive.named and (grown > 0 or (count and not case.compared)):
            yield Problem(name, WARNING, "%d %s%s" % (count, words, _GUESSED), "none; ask the vendor, or update the database with update-smart-drivedb")
        elif grown > 0:
            yield Problem(name, ERROR, "%d %s, %d more than in the baseline" % (count, words, grown), _REPLACE, True)
        elif count:
            new = case.use.new and case.drive.named
            level = ERROR if new else INFO if case.compared else WARNING
            yield Problem(name, level, "%d %s" % (count, words), "none on a drive to build on" if new else "none, or no more than the baseline has")


def _self_test(case: Case) -> Iterator[Problem]:
    if case.drive.self_test_passed is False:
        yield Problem("self_test", ERROR, "its latest extended self-test failed", _REPLACE, True)


def _firmware(case: Case) -> Iterator[Problem]:
    advisory, hours = advisory_of(case.drive, case.advisories), hours_of(case.drive)
    if advisory:
        near = hours is not None and hours >= advisory.limit_hours - NEAR_HOURS
        text = "firmware %s, %s power-on hours; %s" % (case.drive.firmware or "unknown", "unknown" if hours is None else hours, advisory.text)
        yield Problem("firmware", ERROR if near else WARNING, text, "firmware %s or newer" % advisory.fixed_in)


def _wear(case: Case) -> Iterator[Problem]:
    used = case.drive.used
    if used is not None and used >= _WEAR_WARN:
        level = _worn_level(case) if used >= _WEAR_END else WARNING
        yield Problem("wear", level, "%d %% of the rated endurance is used" % used, "less than %d %%; order a replacement" % _WEAR_WARN)
    if case.drive.wear_doubt:
        text = "how worn it is cannot be told: %s, and one contradicts the other" % case.drive.wear_doubt
        yield Problem("wear_unclear", INFO, text, "what the vendor's own tool says")


def _days(case: Case) -> Iterator[Problem]:
    projection = case.projection
    if projection and projection.days_min < _DAYS_WARN:
        upper = "" if projection.days_max is None else " and at most %d" % projection.days_max
        text = "the rated endurance lasts at least %d%s days more, by its %s" % (projection.days_min, upper, projection.basis)
        yield Problem("endurance", WARNING, text, "a year")


def _temperature(case: Case) -> Iterator[Problem]:
    limit = case.drive.temperature_limit or _HOT
    if case.drive.temperature is not None and case.drive.temperature >= limit:
        yield Problem("hot", WARNING, "it is at %d degrees Celsius" % case.drive.temperature, "less than %d; look at the air flow" % limit)


# Counters whose growth is worth a look, and passes when they stand still: counter → (words, what to do).
_GROWING = {
    "reallocated": ("reallocated blocks", "none; watch it"),
    "pending": ("pending sectors", "none; watch it"),
    "crc_errors": ("errors on the cable", "none; replace the cable or the backplane's slot"),
    "hot_minutes": ("minutes above its warning temperature", "none; look at the air flow"),
    "critical_minutes": ("minutes above its critical temperature", "none; look at the air flow"),
}


def _growing(case: Case) -> Iterator[Problem]:
    for name, (words, remedy) in _GROWING.items():
        if case.recent.get(name, 0) > 0:
            text = "%d %s, %d of them new" % (case.drive.counters[name], words, case.recent[name])
            yield Problem(name, WARNING, text if case.drive.named else text + _GUESSED, remedy)


def _exit_bits(case: Case) -> Iterator[Problem]:
    bits, grown = case.drive.exit_bits, case.recent.get("error_log_entries", 0)
    if bits & smartctl.PAST:
        yield Problem("attribute_past", WARNING, "an attribute was at its threshold, or a usage attribute is", "none")
    if bits & smartctl.TESTS:
        yield Problem("self_test_log", WARNING, "its self-test log has errors", "a log without; run an extended self-test")
    if bits & smartctl.REFUSED:
        yield Problem("refused", INFO, "it refused a command of smartctl, or a checksum is wrong", "nothing: healthy drives do so")
    if bits & smartctl.ERRORS or case.drive.counters.get("error_log_entries"):
        level = WARNING if bits & smartctl.ERRORS and grown > 0 and case.drive.protocol == "ATA" else INFO  # NVMe's grow by any command that is refused
        yield Problem("error_log", level, "its error log has %s entries" % case.drive.counters.get("error_log_entries", "some"), "no new ones")


def _unsafe_shutdowns(case: Case) -> Iterator[Problem]:
    count = case.drive.counters.get("unsafe_shutdowns")
    if count:
        yield Problem("unsafe_shutdowns", INFO, "%d of %s power cycles were unsafe" % (count, case.drive.counters.get("power_cycles", "its")), "fewer")


def _hours(case: Case) -> Iterator[Problem]:
    if "power_on_hours" in case.drive.counters and hours_of(case.drive) is None:
        text = "%(power_on_hours)d power-on hours beside %(busy_minutes)d busy minutes" % case.drive.counters
        yield Problem("hours", INFO, text, "hours that can be believed; no rate is computed from them")


def _identity(case: Case) -> Iterator[Problem]:
    if case.use.identified_twice:
        yield Problem("identity", WARNING, "another drive has its WWN, or its model and serial: neither has a baseline", "an identity of its own")


def _emmc(case: Case) -> Iterator[Problem]:
    if case.drive.pre_eol == 3:
        yield Problem("pre_eol", ERROR, "more than 90 % of its reserved blocks are used (pre-EOL 3)", _REPLACE, True)
    elif case.drive.pre_eol == 2:
        yield Problem("pre_eol", WARNING, "80 % of its reserved blocks are used (pre-EOL 2)", "less; order a replacement")
    if case.drive.life and max(case.drive.life) >= 11:
        yield Problem("life", WARNING, "it is past its rated life", "less; order a replacement")
    elif case.drive.life and max(case.drive.life) >= 9:
        yield Problem("life", WARNING, "more than 80 % of its rated life is used", "less; order a replacement")


def _member_link(case: Case) -> Iterator[Problem]:
    speed, most = case.drive.link_speed, case.drive.link_most
    if case.use.member and speed and most and speed < most:
        text = "its link to the controller has %.1f Gb/s, and the drive can do %.1f" % (speed / 1000, most / 1000)
        yield Problem("link", WARNING, text, "%.1f Gb/s: look at slot, backplane and cable, and at what the controller's port can do" % (most / 1000))


RULES: Tuple[Callable[[Case], Iterator[Problem]], ...] = (
    _status,
    _critical_warning,
    _exception,
    _spare,
    _attributes_now,
    _data_errors,
    _self_test,
    _firmware,
    _wear,
    _days,
    _temperature,
    _growing,
    _exit_bits,
    _unsafe_shutdowns,
    _hours,
    _identity,
    _emmc,
    _member_link,
)


def mixed_firmware(drives: Sequence[Health]) -> Optional[Problem]:
    """What is wrong with a stripe whose drives of one model have several firmwares."""
    for model in sorted({drive.model for drive in drives if drive.model}):
        versions = sorted({drive.firmware for drive in drives if drive.model == model and drive.firmware})
        if len(versions) > 1:
            return Problem("mixed_firmware", WARNING, "its drives of the model %s have firmware %s" % (model, ", ".join(versions)), "one firmware in a stripe")
    return None
