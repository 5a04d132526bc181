"""Where tasks come from: one module per format, none of which needs pytest.

`discovery` finds and reads task directories (`harbor`), `marker` makes a task of a marked test.
"""
