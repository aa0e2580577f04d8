"""The form that a loop asks of the answer in words: checked when the loop is made, and for each answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from demiurge.errors import InvalidValue
from demiurge.tools.errors import ToolValidationError
from demiurge.tools.foreign.schema import ForeignSchema
from demiurge.values import canonical_json
from demiurge.wire.items import TextFormat

__all__ = ["BAD_ANSWER", "ResponseForm"]

BAD_ANSWER: Final = "bad_answer"
"""The code of a turn that failed because the model's answer has not the form that was asked for."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class ResponseForm:
    """A response format and the validator of its schema."""

    schema: ForeignSchema

    @classmethod
    def of(cls, given: object) -> ResponseForm:
        """Returns the form of a TextFormat. Raises InvalidValue (`response_format`) for anything else, a name that
        providers refuse, and a schema that is none; Unavailable without the extra `foreign`."""
        if not isinstance(given, TextFormat):
            what = f"must be a TextFormat of demiurge.wire or None, not {type(given).__name__}"
            raise InvalidValue(what, path="response_format")
        if not isinstance(given.name, str) or not _NAME.fullmatch(given.name):
            raise InvalidValue("is 1 to 64 letters, digits, _ and -", path="response_format.name")
        if type(given.strict) is not bool:
            raise InvalidValue("must be true or false", path="response_format.strict")
        if not isinstance(given.schema_json, str):
            raise InvalidValue("must be a JSON Schema as text", path="response_format.schema_json")
        try:
            return cls(ForeignSchema(canonical_json.parse_object(given.schema_json), any_type=True))
        except InvalidValue as error:
            raise InvalidValue(f"is not a JSON Schema: {error.message}", path="response_format.schema_json") from error

    def problem(self, text: str) -> str:
        """Returns what is wrong with an answer, such as `total: must be an integer`; empty if it has the form."""
        try:
            self.schema.check(canonical_json.parse(text.encode()), len(text))
        except InvalidValue as error:
            return f"it is not JSON ({error.message})"
        except ToolValidationError as error:
            return "; ".join(error.fields)
        return ""
