"""The error that invalid user input raises, and the warnings of the package."""


class InputError(ValueError):
    """Raised for invalid user input: a file, a line of a file, a setting or an argument.

    The message contains the place, what was found, what was expected and what to do. Commands print it on stderr and
    exit with code 2.
    """


def shortened(text: str, most: int) -> str:
    """Return a text for a message; of a longer one, the first `most` characters and an ellipsis."""
    return text if len(text) <= most else text[:most] + " ..."


class InputWarning(UserWarning):
    """Warns that the result may not be what the user expects. The input was used. Commands print it on stderr."""
