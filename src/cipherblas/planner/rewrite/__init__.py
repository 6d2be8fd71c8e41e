"""Programs spelled, associated and refreshed in other ways, each planned; the fastest is taken."""
