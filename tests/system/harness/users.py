"""Who runs a program."""

import os

NOBODY = 65534


class User:
    """`prefix` goes before a command that the user is to run."""

    def __init__(self, name, prefix):
        self.name = name
        self.prefix = prefix


def all_users():
    """Root and an unprivileged user if the test runs as root, else whoever runs it."""
    if os.geteuid() != 0:
        return [User(f"user {os.geteuid()}", [])]
    return [User("root", []), nobody()]


def nobody():
    """An unprivileged user, without any capability. Only root can become it."""
    return unprivileged(NOBODY)


def unprivileged(uid):
    """The same with a user id of the test's choice."""
    name = "nobody" if uid == NOBODY else f"user {uid}"
    return User(name, ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups",
                       "--no-new-privs"])


def caller():
    return all_users()[0]
