"""The figures of the papers, drawn from models of this project.

    python -m laboratory.figures.NAME ... -o docs/images/NAME.svg

One module per figure; `shared` has what several need. docs/figures.md shows the pictures with their commands.
"""
