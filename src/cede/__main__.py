"""`python -m cede`."""

from cede.cli import main

main(prog_name="cede")
