"""What was released: kept, encoded, and asked."""
