"""The one error a user's input can cause."""


class InputError(Exception):
    """Something the user gave is wrong: a file, a line of it, a setting.

    The message is one that a user can act on: place, what was found, what was expected. Commands print it and exit
    with 2.
    """
