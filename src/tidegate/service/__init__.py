"""The service: many streams behind one gate, over HTTP. Needs the extra `[service]`.

    producers → app → gate ─ DurableRelease.push … push ─ one transaction ║ answers, live readers
                              (a thread; requests of a moment form a group)

It is a skin: releases, journals, ledgers and answers are those of the library.
"""

from __future__ import annotations
