"""Fixed-interval smoothers: the past of a stream again, given all that was released since."""
