from demiurge.sessions import Session, SessionTransaction
from demiurge.tools.execution.scope import CallScope, ScopeState, entered, innermost_scope


class Call:
    """What a runner does around a handler."""

    def __init__(self, session: Session) -> None:
        self.scope = CallScope(innermost_scope())
        self.transaction: SessionTransaction = session.begin(self.scope)

    def commit(self) -> None:
        self.scope.state = ScopeState.COMMITTED
        self.transaction.commit()

    def roll_back(self) -> None:
        self.scope.state = ScopeState.ROLLED_BACK
        self.transaction.roll_back()


session = Session()
one, other = Call(session), Call(session)
with entered(one.scope):
    session.broadcast("one")
    inner = Call(session)
    with entered(inner.scope):
        session.broadcast("inside one")
    inner.commit()
with entered(other.scope):
    session.broadcast("other")
session.broadcast("nobody's")

print(session[str].all(), one.transaction.events)
one.roll_back()
other.commit()
print(session[str].all(), other.transaction.events)
