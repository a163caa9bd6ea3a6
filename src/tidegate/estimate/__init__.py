"""What all smoothers share: block sums spread over values, and answers inside a block."""
