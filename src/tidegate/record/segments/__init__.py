"""What was released with one threshold: its leaves and blocks, kept, encoded and joined."""
