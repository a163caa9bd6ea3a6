"""The mixtures of many streams, computed in arrays with the bits that each has alone."""
