"""The estimator for adaptive perturbers: Kalman filters over several models of the stream, mixed.

`models` has the constants, `leaf_noise` and `kalman` the algebra, `tree_choice` the error of each
tree under each model, `cap_steps` the cap, which follows the stream. `model_smoother`
estimates the past again from all releases; `block_batches` and `block_chain` make that fast.
"""
