"""The estimator for adaptive perturbers: a mixture of Kalman filters over models of the stream.

`kalman_filter` has the models and the algebra, `tree_choice` the error of each tree under each
model, `cap_steps` the cap, which follows the stream. `smoother` estimates the past again from all
releases; `many_streams` does for many keys at once what `mixture_run` does for one stream.
"""
