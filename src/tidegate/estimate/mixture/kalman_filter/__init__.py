"""`KalmanFilters` over state-space models, one filter for each: the algebra and its inputs."""
