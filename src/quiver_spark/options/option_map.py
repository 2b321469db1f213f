"""Options as Spark passes them: names in any case, values as text. An error names the option and what it takes."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from quiver.model.errors import InvalidRequest
from quiver.model.times import parse_duration_ms
from quiver_spark.options.kafka_names import KafkaName

DEFAULT_BOOTSTRAP = "localhost:7481"
_NEAR = 0.6
_OF_KAFKA_CLIENTS = ("kafka.", "kafkaconsumer.", "fetchoffset.")


class OptionMap:
    """The options of one read or write. Values under Kafka's names are found under ours."""

    def __init__(
        self, options: Mapping[str, str], known: Sequence[str], use: str, kafka: Mapping[str, KafkaName]
    ) -> None:
        ours = {name.lower(): name for name in known}
        theirs = {name.lower(): name for name in kafka}
        self._options: dict[str, str] = {}
        given_as: dict[str, str] = {}
        for key, value in options.items():
            name, text = key.lower(), str(value).strip()
            if name in theirs:
                alias = kafka[theirs[name]]
                shown, own, text = theirs[name], alias.ours.lower(), alias.converted(text, theirs[name])
            elif name in ours:
                shown, own = ours[name], name
            else:
                raise InvalidRequest(problem=_unknown(key, {**ours, **theirs}, known, use))
            if own in given_as and text and self._options[own]:
                raise InvalidRequest(
                    problem=f"options {given_as[own]!r} and {shown!r} mean the same: give one of them"
                )
            if text or own not in given_as:
                self._options[own], given_as[own] = text, shown
        self._given_as = given_as

    @property
    def ours(self) -> dict[str, str]:
        """What was given, under our names in lower case."""
        return {name: text for name, text in self._options.items() if text}

    @property
    def is_empty(self) -> bool:
        return not self.ours

    def given_as(self, name: str) -> str:
        """The name under which the user gave an option."""
        return self._given_as.get(name.lower(), name)

    def text(self, name: str) -> str | None:
        """None when the option is missing or empty."""
        return self._options.get(name.lower()) or None

    def whole(self, name: str, low: int, high: int) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        plain = text.replace("_", "")
        if not plain.isdigit() or not low <= int(plain) <= high:
            shown = self.given_as(name)
            raise InvalidRequest(problem=f"option {shown!r}: {text!r} is not a whole number from {low} to {high}")
        return int(plain)

    def flag(self, name: str, default: bool) -> bool:
        text = (self.text(name) or str(default)).lower()
        if text not in ("true", "false"):
            raise InvalidRequest(problem=f"option {self.given_as(name)!r}: {text!r} is neither true nor false")
        return text == "true"

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """The first choice when the option is missing."""
        text = (self.text(name) or choices[0]).lower()
        if text not in choices:
            shown = self.given_as(name)
            raise InvalidRequest(problem=f"option {shown!r}: {text!r} is not one of {', '.join(choices)}")
        return text

    def address(self, name: str = "bootstrap") -> str:
        from quiver.client.connection.address import parse_bootstrap  # it takes a third of a second

        return str(parse_bootstrap(self.text(name) or DEFAULT_BOOTSTRAP))

    def milliseconds(self, name: str, default: str) -> int:
        return parse_duration_ms(self.text(name) or default, f"option {self.given_as(name)!r}")


def _unknown(name: str, spelled: Mapping[str, str], known: Sequence[str], use: str) -> str:
    """The sentence for an option that does not exist; `spelled` has all names by their lower case."""
    near = get_close_matches(name.lower(), spelled, n=1, cutoff=_NEAR)
    problem = f"there is no option {name!r} for {use} with quiver"
    if near:
        problem += f"; did you mean {spelled[near[0]]!r}?"
    elif name.lower().startswith(_OF_KAFKA_CLIENTS):
        problem += ": it is a setting of Kafka's clients, leave it out."
    else:
        problem += "."
    return f"{problem} The options are {', '.join(known)}"
