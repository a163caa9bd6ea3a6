"""Local collection over HTTP: devices ask and report, the service adds up.

    devices → device_routes → desk ─ all that waits ─ one transaction of the gate ║ answers

It is a skin over `tidegate.local.task`: what is asked and how it is added up is decided there. Here
is kept who was asked what (a digest of a name for every device of the rounds that still take
reports), in the same database as the streams. No address and no body is kept or logged.
"""
