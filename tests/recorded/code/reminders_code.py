"""The code of the recorded reminders."""

import reminders_desk  # type: ignore[import-not-found]

REDUCERS = {"desk/Reminders@1": reminders_desk.reduce}
