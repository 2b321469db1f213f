"""Settings: what was answered is in force."""

from collections.abc import Iterator

from blackbox.interleaving.checks.evidence import Evidence, Violation


def check_settings_hold(evidence: Evidence) -> Iterator[Violation]:
    """A setting that one actor alone changes is as that actor was last answered."""
    for event in evidence.of("shown"):
        details = event.details
        if details["shown"] != details["value"]:
            what = f"{details['setting']} of {details['path']}"
            yield Violation("", f"{event.actor} changed {what} to {details['value']}, and it is {details['shown']}")


SETTING_CHECKS = (check_settings_hold,)
