"""A waiting call with the arguments that a person changed, checked before it is recorded."""

from __future__ import annotations

from demiurge.errors import InvalidValue, NotFound
from demiurge.tools.argument_problem import argument_problem
from demiurge.values import canonical_json
from demiurge.values.refs import Ref
from demiurge.wire.items import ToolCall
from demiurge.world.host import Host
from demiurge.world.messages import call_blob

__all__ = ["changed_call"]


def changed_call(host: Host, intent: bytes, arguments_json: str) -> bytes | None:
    """Returns the call that waits or waited under this id, with other arguments; None if the arguments are the proposed
    ones. Raises InvalidValue (`bad_arguments`) unless they are a JSON object that fits the tool's schema, NotFound."""
    params = host.decisions.params(intent)
    if params is None:
        raise NotFound("Nothing with this id waits for approval; `demiurge approvals ls` lists what does.")
    try:
        arguments = canonical_json.parse_object(arguments_json)
    except (InvalidValue, TypeError, AttributeError) as error:
        raise InvalidValue(f"The changed arguments are not a JSON object: {error}", code="bad_arguments") from None
    spec = host.manifest.toolset.get(params["tool"])
    problem = argument_problem(spec.input_schema, arguments) if spec is not None else ""
    if problem != "":
        text = f"The changed arguments do not fit the schema of {params['tool']}: {problem}."
        text += " `demiurge tools show` prints the schema."
        raise InvalidValue(text, code="bad_arguments")
    proposed = canonical_json.parse_object(host.get_blob(Ref(params["call_ref"])))
    text = canonical_json.encode(arguments).decode()
    if not proposed.get("invalid") and _is_same(proposed["arguments_json"], text):
        return None
    return call_blob(ToolCall(proposed["id"], proposed["name"], text))


def _is_same(proposed: str, changed: str) -> bool:
    try:
        return canonical_json.encode(canonical_json.parse_object(proposed)).decode() == changed
    except InvalidValue:
        return False
