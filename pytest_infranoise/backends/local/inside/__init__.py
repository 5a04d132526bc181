"""What runs as a local sandbox's first process: standard library only, started without `site`.

The modules here import each other relatively and nothing else of the package, because the holder is
started as `python -I -S` for speed; it must also import everything before it enters the view, whose
files belong to the task.
"""
