"""The users that run programs."""

import os

NOBODY = 65534


class User:
    """A user. `prefix` makes a command run as that user."""

    def __init__(self, name, prefix):
        self.name = name
        self.prefix = prefix


def all_users():
    """Root and an unprivileged user if the test runs as root, else the user who runs it."""
    if os.geteuid() != 0:
        return [User(f"user {os.geteuid()}", [])]
    return [User("root", []), nobody()]


def nobody():
    """An unprivileged user, without any capability. Only root can become it."""
    return unprivileged(NOBODY)


def unprivileged(uid):
    """An unprivileged user with this user id, without any capability."""
    name = "nobody" if uid == NOBODY else f"user {uid}"
    return User(name, ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups",
                       "--no-new-privs"])


def caller():
    return all_users()[0]
