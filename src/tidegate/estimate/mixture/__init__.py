"""The estimator for adaptive perturbers: Kalman filters over several models of the stream, mixed.

`models` has the constants, `leaf_noise` and `kalman` the algebra, `tree_choice` what a tree is
worth under each model, `cap_steps` how the cap follows the stream, and `smoother` what is known of
the past once more was released (`batches` and `block_chain` how that is found fast).
"""
