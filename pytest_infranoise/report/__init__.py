"""What people read: tables as data, and their renderings."""
