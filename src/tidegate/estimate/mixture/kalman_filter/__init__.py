"""`KalmanFilters` over state-space models, one filter a model: the algebra, and what it is fed."""
