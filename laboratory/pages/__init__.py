"""What of the documentation is made from the code when the site is built, so that it cannot go stale."""
