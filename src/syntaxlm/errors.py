"""The one error, and the one warning, that a user's input can cause."""


class InputError(Exception):
    """Something the user gave is wrong: a file, a line of it, a setting.

    The message is one that a user can act on: place, what was found, what was expected. Commands print it and exit
    with 2.
    """


class InputWarning(UserWarning):
    """What the user gave was used, and what came of it is not all that they may expect. Commands print it on stderr."""
