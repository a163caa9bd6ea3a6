"""A pipeline at work on one stream: from raw values to released ones."""
