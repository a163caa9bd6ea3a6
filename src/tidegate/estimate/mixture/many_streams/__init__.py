"""The mixtures of many streams in arrays, side by side: the bits that each has alone."""
