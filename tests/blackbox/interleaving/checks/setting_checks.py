"""Settings: what was answered is in force."""

from collections.abc import Iterator

from blackbox.interleaving.checks.evidence import LATE_SECONDS, Evidence, Violation


def check_settings_hold(evidence: Evidence) -> Iterator[Violation]:
    """A setting that one actor alone changes is as that actor was last answered, or as a late change made it."""
    unknown = [event for event in evidence.of("alter") if event.outcome == "unknown"]
    for event in evidence.of("shown"):
        details = event.details
        late = [
            each.details["value"]
            for each in unknown
            if each.actor == event.actor and event.began - LATE_SECONDS <= each.began < event.began
        ]
        if details["shown"] not in (details["value"], *late):
            what = f"{details['setting']} of {details['path']}"
            yield Violation("", f"{event.actor} changed {what} to {details['value']}, and it is {details['shown']}")


SETTING_CHECKS = (check_settings_hold,)
