import base64
import hashlib
import hmac
import time
from collections.abc import Mapping


def is_genuine(headers: Mapping[str, str], body: bytes, key: str) -> bool:
    """Returns whether a notice was signed with this key (`whsec_...`) in the last 5 minutes."""
    sent = headers["webhook-timestamp"]
    if abs(time.time() - int(sent)) > 300:
        return False
    signed = f"{headers['webhook-id']}.{sent}.".encode() + body
    mac = hmac.digest(base64.b64decode(key.removeprefix("whsec_")), signed, hashlib.sha256)
    expected = "v1," + base64.b64encode(mac).decode()
    return any(hmac.compare_digest(expected, one) for one in headers["webhook-signature"].split())
