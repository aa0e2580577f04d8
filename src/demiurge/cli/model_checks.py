"""The checks of `demiurge doctor` on models: which provider is chosen, which keys are set, the local model, and with
`--try` whether the chosen provider takes the key.

A key that is set proves nothing: only a request does, and it costs money, so it is sent when a person asks for it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from typing import Final

from demiurge.bootstrap.models import LOCALS, MODEL_KEYS, Choice, addresses, ask_once, choose
from demiurge.bootstrap.secrets import holds, open_vault
from demiurge.cli.check import Check
from demiurge.cli.progress import engine_is_installed
from demiurge.errors import DemiurgeError
from demiurge.models.address import GENERAL_KEY, find_key
from demiurge.models.local import LOCAL_MODEL, cache_folder, locate
from demiurge.models.prices import cost_of
from demiurge.models.providers import provider
from demiurge.models.request import GenerateRequest
from demiurge.models.scrub import SHORT_SECRET
from demiurge.tools.execution.secret_mask import is_short
from demiurge.values.clock import SystemClock
from demiurge.values.money import dollars_text
from demiurge.wire.items import Message, Text

__all__ = ["model_checks", "try_check"]

TRY: Final = "`demiurge doctor --try` sends one request of a few tokens with it."
MOST_TOKENS: Final = 16
"""The limit of the answer to the request that tries a key: the least that every provider takes."""

LONGEST_S: Final = 60.0
KEY_VARIABLES: Final = tuple(
    dict.fromkeys((GENERAL_KEY, *(row.key_variable for row in MODEL_KEYS.values() if row.key_variable)))
)


def model_checks() -> Iterator[Check]:
    """Checks which provider is chosen, the keys, and the local model. Sends nothing."""
    keys = _keys(os.environ)
    keyed = any(found for _, found, _ in keys)
    if keyed:
        chosen = choose(os.environ).provider
        yield Check("keys", "ok", f"{chosen} is chosen, because its key is set; the key was not tried", TRY)
    else:
        yield Check("keys", "ok", "no key is set, so the local model answers")
    for vendor, found, way in keys:
        yield Check(f"key for {vendor}", "ok", found or "none", "" if found else way)
    short = [name for name in KEY_VARIABLES if is_short(os.environ.get(name, "").strip())]
    if short:
        yield Check("short keys", "warn", f"{', '.join(short)}: {SHORT_SECRET}", "That is fine where no key is needed.")
    engine, weights = engine_is_installed(), locate()
    if not engine:
        mend = "Run `pip install 'demiurge-runtime[local]'`, or set LLM_API_KEY."
        yield Check("local engine", "warn" if keyed else "fail", "not installed", mend)
    else:
        yield Check("local engine", "ok", "installed")
    if weights is not None:
        yield Check("local model", "ok", f"{LOCAL_MODEL.name} at {weights}")
    else:
        mend = f"`demiurge model fetch` brings {LOCAL_MODEL.size / 1e9:.1f} GB; so does the first chat that needs it."
        yield Check("local model", "ok" if keyed else "warn", f"not in {cache_folder()}", mend)


def try_check() -> Check:
    """Sends one small request to the provider that is chosen, and says whether it answered and what that cost."""
    chosen = choose(os.environ)
    if chosen.provider in LOCALS:
        return Check("tried key", "warn", "no key is set, so there is none to try", f"Set {GENERAL_KEY}.")
    address = addresses(os.environ, chosen.provider)[chosen.provider]
    row = provider(chosen.provider)
    key = find_key(row, os.environ, address) or _from_vault(chosen)
    request = GenerateRequest(
        chosen.provider,
        chosen.model,
        (Message("user", (Text("Say ok."),)),),
        max_tokens=MOST_TOKENS,
        api_key=key,
        base_url=address.url,
        timeout_s=LONGEST_S,
    )
    where = f"{chosen.provider}{f' at {address.url}' if address.url else ''}"
    asked_ns = SystemClock().now_ns()
    try:
        answer = asyncio.run(ask_once(request))
    except DemiurgeError as error:
        way = f"`demiurge secrets set {row.alias}`" if row.alias else GENERAL_KEY
        mend = f"Check the key in {row.key_variable or GENERAL_KEY} (or {GENERAL_KEY}, or {way}), and the address."
        return Check("tried key", "fail", f"{where} did not answer: {error.message}", mend)
    cost = cost_of(answer, row, model=chosen.model, base_url=address.url, at_ns=asked_ns)
    usage = answer.usage
    tokens = f"{usage.prompt + usage.completion} tokens" if usage is not None else "an unknown number of tokens"
    money = f"${dollars_text(cost.micros)}" if cost.micros is not None else "a price that is not known"
    return Check("tried key", "ok", f"{where} answered as {answer.model or chosen.model}: {tokens}, {money}")


def _from_vault(chosen: Choice) -> str | None:
    vault = open_vault(os.environ)
    place = next((place for place, row in MODEL_KEYS.items() if row.name == chosen.provider), None)
    secret = vault.get(*place) if vault is not None and place is not None else None
    return secret.reveal() if secret is not None else None


def _keys(environment: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Returns for each vendor its name, the place of its key (never the key; empty for none), and how to set it."""
    keys = []
    for (alias, version), row in MODEL_KEYS.items():
        names = [name for name in (GENERAL_KEY, row.key_variable) if name and environment.get(name, "").strip()]
        found = f"{' and '.join(names)} set" if names else ""
        if not found and holds(environment, alias, version):
            found = f"{alias} is in the secret vault"
        way = f"Set {row.key_variable} (or {GENERAL_KEY}), or run `demiurge secrets set {alias}`."
        keys.append((row.name.partition("-")[0], found, way))
    return keys
