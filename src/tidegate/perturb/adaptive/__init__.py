"""Trees that are chosen block by block from what was released before."""
