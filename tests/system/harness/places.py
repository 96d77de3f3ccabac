"""Places to run programs of a root file system: namespaces and limits as containers have them.

A place turns a command into one that runs in the place. All processes of a command share one place;
each command gets a new one.
"""

import contextlib
import functools
import json
import os
import subprocess
import tempfile

ROOT, NOBODY = 0, 65534
SMALL_SHM_BYTES = 1 << 20
RUNC = "/usr/sbin/runc"
# The profile of podman's containers, in the notation of containers/common.
SECCOMP_PROFILE = "/usr/share/containers/seccomp.json"
# The capabilities that Docker and podman leave to root.
CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETFCAP",
                "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT")

# Becomes the user, if one is named, in the root file system.
ENTER = """
root=$1 user=$2
shift 2
mount --rbind /dev "$root/dev"
exec chroot ${user:+"--userspec=$user:$user"} "$root" "$@"
"""
MOUNT_PROC = 'mount -t proc proc "$1/proc"\n'
LOOPBACK_UP = "ip link set lo up\n"


def why_not(place):
    """The reason why this machine has no such place, or None."""
    needed = {"bubblewrap": ["/usr/bin/bwrap"], "container": [RUNC, SECCOMP_PROFILE],
              "hardened_container": [RUNC, SECCOMP_PROFILE]}
    missing = [file for file in needed.get(place.__name__, ()) if not os.path.exists(file)]
    return f"{missing[0]} is not installed: see tools/setup" if missing else None


def _as_context(place):
    """Makes a place a context: all places are, as some need a clean-up."""
    @contextlib.contextmanager
    @functools.wraps(place)
    def entered(*arguments):
        yield place(*arguments)
    return entered


def _as_user(uid):
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]


@_as_context
def chroot(root, uid, command):
    return ["unshare", "--mount", "sh", "-ec", MOUNT_PROC + ENTER, "sh", root, str(uid), *command]


@_as_context
def no_proc(root, uid, command):
    return ["unshare", "--mount", "sh", "-ec", ENTER, "sh", root, str(uid), *command]


@_as_context
def namespaces(root, uid, command):
    """A namespace of each kind, made by the user, who is root inside the user namespace."""
    return [*_as_user(uid), "unshare", "--map-root-user", "--net", "--pid", "--fork", "--ipc",
            "--uts", "--mount", "sh", "-ec", LOOPBACK_UP + MOUNT_PROC + ENTER, "sh", root,
            "", *command]


@_as_context
def bubblewrap(root, uid, command):
    """A sandbox made by the user, with only /usr, /etc and /opt of the root file system."""
    links = [word for name in ("bin", "lib", "lib64", "sbin")
             for word in ("--symlink", f"usr/{name}", f"/{name}")]
    binds = [word for name in ("usr", "etc", "opt")
             for word in ("--ro-bind", f"{root}/{name}", f"/{name}")]
    return [*_as_user(uid), "bwrap", "--unshare-all", "--die-with-parent", *links, *binds,
            "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", *command]


def _applies(rule):
    """Whether a rule of the profile applies with CAPABILITIES on this architecture."""
    ours = {f"CAP_{name}" for name in CAPABILITIES}
    wanted, unwanted = rule.get("includes") or {}, rule.get("excludes") or {}
    return (set(wanted.get("caps", ())) <= ours and not ours & set(unwanted.get("caps", ())) and
            "amd64" in wanted.get("arches", ["amd64"]))


def seccomp():
    """The profile in the runtime's format."""
    with open(SECCOMP_PROFILE, encoding="utf-8") as file:
        profile = json.load(file)
    rules = [{key: rule[key] for key in ("names", "action", "args", "errnoRet") if rule.get(key)}
             for rule in profile["syscalls"] if _applies(rule)]
    return {"defaultAction": profile["defaultAction"],
            "defaultErrnoRet": profile["defaultErrnoRet"],
            "architectures": ["SCMP_ARCH_X86_64"], "syscalls": rules}


def _configure(bundle, root, uid, command, is_hardened):
    subprocess.run([RUNC, "spec", "--bundle", bundle], check=True)
    path = os.path.join(bundle, "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    held = [f"CAP_{name}" for name in CAPABILITIES]
    config["process"].update(
        terminal=False, user={"uid": uid, "gid": uid}, args=list(command),
        capabilities={"bounding": held, "effective": held if uid == ROOT else [],
                      "permitted": held if uid == ROOT else []})
    config["root"] = {"path": root, "readonly": is_hardened}
    config["mounts"] = [mount for mount in config["mounts"] if mount["type"] != "cgroup"]
    if is_hardened:
        shm = next(mount for mount in config["mounts"] if mount["destination"] == "/dev/shm")
        shm["options"] = [option for option in shm["options"] if not option.startswith("size=")]
        shm["options"].append(f"size={SMALL_SHM_BYTES}")
    config["linux"]["seccomp"] = seccomp()
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)


@contextlib.contextmanager
def container(root, uid, command, is_hardened=False):
    """A container of runc, with the default seccomp profile and capabilities of podman."""
    with tempfile.TemporaryDirectory(prefix="uroce-container-") as bundle:
        _configure(bundle, root, uid, command, is_hardened)
        yield [RUNC, "run", "--bundle", bundle, os.path.basename(bundle)]


def hardened_container(root, uid, command):
    """The same, with nothing writable but 1 MB of /dev/shm."""
    return container(root, uid, command, is_hardened=True)


ALL = (chroot, no_proc, namespaces, bubblewrap, container, hardened_container)
