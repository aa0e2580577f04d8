from dataclasses import dataclass

from demiurge.sessions import Session, SessionReducerContext, SessionSnapshot, replace_latest, upsert_by


@dataclass(frozen=True)
class Price:
    part: str
    cents: int


@dataclass(frozen=True)
class Dearest:
    part: str


def dearest(held: tuple[Dearest, ...], event: Price, *, context: SessionReducerContext) -> tuple[Dearest, ...]:
    """The part with the highest price so far."""
    prices = context.session[Price].all()
    return (Dearest(max(prices, key=lambda price: price.cents).part),)


session = Session()
session[Price].register(Price, upsert_by(lambda price: price.part))  # before `dearest`, which reads its slice
session[Dearest].register(Price, dearest)
session[str].register(str, replace_latest)

for event in (Price("nut", 3), Price("bolt", 7), Price("nut", 9), "closed", "open"):
    session.broadcast(event)
print(session[Price].all())
print(session[Dearest].latest(), session[str].all())

text = session.snapshot(tag="evening").to_json()
session.broadcast(Price("bolt", 99))
print(session[Dearest].latest())
session.restore(SessionSnapshot.from_json(text, [Price, Dearest, str]))
print(session[Dearest].latest())
