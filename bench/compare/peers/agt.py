"""Microsoft's Agent Governance Toolkit: `govern` around the tool, with a policy and an audit log. It runs no agent and
keeps no calls, so a program that was killed begins again. An approval is a function that is called and answers. Its
audit log is chained and signed in a file if the program gives it FileAuditSink."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from agentmesh.governance import govern
from agentmesh.governance.approval import ApprovalDecision, CallbackApproval
from agentmesh.governance.audit import AuditLog
from agentmesh.governance.audit_backends import FileAuditSink
from contestant import ADA, COMMAND, answer, deliver

POLICY = f"""
apiVersion: governance.toolkit/v1
name: mail
default_action: deny
rules:
  - name: mail
    condition: "action.type == 'send_email'"
    action: {"require_approval" if COMMAND == "ask" else "allow"}
    priority: 1
"""
KEY = b"k" * 32
shown = []


def approved(request):
    shown.append(str(request))
    return ApprovalDecision(approved=True, approver="ops")


def governed(folder, url):
    def send_email(action, to):
        return deliver(url, to)

    safe = govern(send_email, policy=POLICY, approval_handler=CallbackApproval(approved))
    safe._audit = AuditLog(sink=FileAuditSink(folder / "audit.jsonl", KEY))  # `govern` takes no sink
    return safe


def send(folder, url):
    return {"said": governed(folder, url)(action="send_email", to=ADA)}


def turn(folder, url):
    send(folder, url)
    return send(folder, url)


def ask(folder, url):
    governed(folder, url)(action="send_email", to=ADA)
    return {"shown": shown[0]}


def check(folder, url):
    sound, why = FileAuditSink(folder / "audit.jsonl", KEY).verify_integrity()
    return {"found": not sound, "said": why or "verify_integrity: sound"}


answer({"crash": send, "recover": send, "ask": ask, "turn": turn, "check": check})
