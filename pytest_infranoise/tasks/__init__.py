"""Where tasks come from: one module per format, none of which needs pytest."""
