"""Where trials run: one module per provider of sandboxes, and the protocol they share."""
