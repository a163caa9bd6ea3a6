"""Local collection by time: a task, its rounds on a calendar, and who is asked what in them.

    device: which round? → asked (sticky) → pin, then report → tallies of the round ║ sums by time

The shape is that of the IETF's Distributed Aggregation Protocol: a task with an id, reports with
ids, collection by intervals of time. A round is a period of the calendar, such as a day; a device
answers it once. Survey and stream are those of `Topl`: a round has as many parts as there were
changes of the questions during it.

**Privacy: why asking again, sending again and coming late never cost a device more than ε.** What
leaves a device about a value is its one report of one round. It is drawn once and pinned by the
device (`client`), before it is sent, under the name of the round and of the event.

- *Asked again* in the same round, a device gives the pinned report, or refuses if the announcement
  is another one. The server hands a device the same slot again (sticky), so that it need not
  refuse; if the server did otherwise, the device would, not the server, keep the promise.
- *Sent again*, by whatever retry or queue, it is the same message: a function of the first one.
- *Taken late* (grace), it is the same message, counted later. No announcement is handed out for a
  round that has ended, so grace draws nothing.
- *Another round* about the same event is refused by the device; about another event it costs ε
  more, of the device's lifetime, which the device adds up exactly.

So the transcript of a device with everybody is a function of its pinned reports and of public
things: of ε per event, and `lifetime` in all, whatever the server, the network and the clock do.
Which slot a device gets depends on when it asked, never on its value; sums by time are
post-processing.
"""

from tidegate.local.task.round_calendar import RoundCalendar
from tidegate.local.task.sums_by_time import RoundSums, sums_by_time
from tidegate.local.task.task import Task
from tidegate.local.task.task_round import TaskRound

__all__ = ["RoundCalendar", "RoundSums", "Task", "TaskRound", "sums_by_time"]
