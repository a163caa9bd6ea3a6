"""Perturbers whose trees are chosen block by block, from what was released before."""
