"""Training by any all-reduce: networks that learn, and what compression does to accuracy."""
