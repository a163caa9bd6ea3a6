"""The shuffler as a separate process, between devices and the service.

    devices → round, announcement (passed on) → service
    devices → reports → one of each device → names off, mixed, in batches ║ → service

Devices call it as they would call the service. It keeps a report durably before it says that it
was accepted, and forgets which device sent it once it is in a batch. A batch is mixed before it is
kept, and is sent until it was taken, under one key: so it counts once. The operator of the shuffler
must not be that of the service: who has both has names and reports together.

Nothing rests on it: every report is ε-private by itself (`tidegate.local.shuffle`).
"""
