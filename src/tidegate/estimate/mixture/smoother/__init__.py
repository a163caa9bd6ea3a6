"""Fixed-interval smoothers: estimates of the past given everything released since."""
