"""The one error that a user's input can cause, and the warnings."""


class InputError(ValueError):
    """The user's input is wrong: a file, a line of it, a setting, an argument.

    The message states where, what was found, what was expected and what to do. Commands print it and exit with code 2.
    """


class InputWarning(UserWarning):
    """The input was used, but the result may not be what the user expects. Commands print it on stderr."""


class OldSettingWarning(FutureWarning):
    """A setting has its name of an earlier version. It was used. Commands print the warning on stderr."""
