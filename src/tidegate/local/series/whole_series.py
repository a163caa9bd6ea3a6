"""What ε protects if a user's whole series is the unit."""

WHOLE_SERIES = "user's whole series"
