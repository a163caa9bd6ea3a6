"""What went wrong, in words for the person at the keyboard."""


class ExperimentError(Exception):
    """A figure, a dataset or a file is not as it must be; the message says what to do."""


class RefusedError(ExperimentError):
    """What was asked for would not be private, and was not confirmed."""
