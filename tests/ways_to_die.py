"""How the children of kill drivers die: at a random moment, or in a call that is counted down."""

import os
import signal
import time

KILLED = 137


def die(*_):
    """Also as what `countdown` calls, with the arguments of the call."""
    os._exit(KILLED)


def countdown(owner, name, number, before=None, after=None):
    """Replace a function so that its call `number` dies before, after or inside its work."""
    original = getattr(owner, name)
    calls = 0

    def patched(*arguments, **options):
        nonlocal calls
        calls += 1
        if calls == number and before is not None:
            before(*arguments)
        result = original(*arguments, **options)
        if calls == number and after is not None:
            after(*arguments)
        return result

    setattr(owner, name, patched)


def killed_within(process, rng, least, most):
    """SIGKILL after a random number of seconds."""
    time.sleep(rng.uniform(least, most))
    os.kill(process, signal.SIGKILL)
    return "random moment"


def trial(begin, ways, rng, faults, *, seconds, calls):
    """One run that is to be killed; gives how, or None if it was too fast.

    `begin` starts a child, which first does what it is given. It is killed within `seconds`, or
    dies in one of its first `calls` of a kind.
    """
    if rng.random() < 0.4:
        process = begin(None)
        kind = killed_within(process, rng, *seconds)
    else:
        kind, number = next(faults), rng.randint(1, calls)
        process = begin(lambda: ways[kind](number))
    _, status = os.waitpid(process, 0)
    code = os.waitstatus_to_exitcode(status)
    if code and code not in (KILLED, -signal.SIGKILL):
        raise SystemExit(f"a restarted run ended with {code} ({kind})")
    return kind if code else None
