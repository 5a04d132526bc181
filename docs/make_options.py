"""Write docs/options.md from the plugin's own list of options.

python docs/make_options.py        writes it
python docs/make_options.py -      prints it
"""

import sys
from pathlib import Path

from pytest_infranoise.plugin.options import OPTIONS, OptionSpec

TARGET = Path(__file__).with_name("options.md")

INTRODUCTION = """# Options

This page is made from the plugin's own list of options by `python docs/make_options.py`.

Every option has an ini twin, read from the ini file's pytest section. The command line wins over
the ini file. Options marked with * make a run a sweep: when one of them or its ini twin is set,
task folders are collected; so they are with a preset as `--infra-enforcement`. A LIST is separated
by commas. A SIZE is a number of bytes, or takes a suffix: `512M`, `512MB` and `512MiB` are all
512 x 1024 x 1024 bytes.
"""

HEADER = """| option | ini | value | default | meaning |
|---|---|---|---|---|
"""


def page() -> str:
    """Return the whole page."""
    return INTRODUCTION + "\n" + HEADER + "".join(_row(spec) for spec in OPTIONS)


def _row(spec: OptionSpec) -> str:
    star = " *" if spec.is_sweep else ""
    default = f"`{spec.default}`" if spec.default else ""
    cells = (f"`{spec.flag}`{star}", f"`{spec.dest}`", _value(spec), default, _escape(spec.help))
    return "| " + " | ".join(cells) + " |\n"


def _value(spec: OptionSpec) -> str:
    if spec.is_flag:
        return "flag; ini: `true` or `false`"
    if spec.choices:
        return ", ".join(f"`{choice}`" for choice in spec.choices)
    repeated = "; ini: one per line" if spec.is_list else ""
    return f"`{spec.metavar}`{repeated}"


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "\\<")


if __name__ == "__main__":
    if sys.argv[1:] == ["-"]:
        sys.stdout.write(page())
    else:
        TARGET.write_text(page())
