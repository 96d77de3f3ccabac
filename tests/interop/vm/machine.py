"""The virtual machine and its network: a namespace of our own with a bridge.

```
    guest: eth0, rxe0              tap0 ─┐
    uroce: direct mode on uroce0 ─ veth ─┴─ bridge br0: TCP between the programs, UDP sockets
```

Nothing of it reaches outside, and nothing is left behind however the test ends: the namespace lives
as long as the process that holds it, which ends with its standard input, and so does QEMU.
"""

import os
import shutil
import subprocess
import time

from vm import initramfs, kernel

GUEST_IPV4 = "10.88.0.1"
GUEST_IPV6 = "fd00:88::1"
HOST_IPV4 = "10.88.0.254"
HOST_IPV6 = "fd00:88::fe"
UROCE_IPV4 = "10.88.0.2"
UROCE_IPV6 = "fd00:88::2"
LINK_MTU = 4200  # Room for a path MTU of 4096.
AGENT_PORT = 4790
BOOT_LIMIT_SECONDS = 300

QEMU = "qemu-system-x86_64"
INTERFACE = "uroce0"
NETWORK = f"""
set -e
ip link set lo up
ip link add br0 type bridge mcast_snooping 0 forward_delay 0 stp_state 0
ip tuntap add tap0 mode tap
ip link add {INTERFACE} type veth peer name port0
for port in tap0 port0; do ip link set $port mtu {LINK_MTU} master br0 up; done
ip link set {INTERFACE} mtu {LINK_MTU} up
ip link set br0 mtu {LINK_MTU} up
ip address add {HOST_IPV4}/24 dev br0
ip address add {HOST_IPV6}/64 dev br0 nodad
echo ready
cat
"""
# A processor without fast string instructions: emulated, they copy byte by byte.
CPU = "Nehalem,+pclmulqdq"
MEMORY_MB = 512


def _beside(name):
    return os.path.join(os.path.dirname(os.path.realpath(__file__)), name)


class Machine:
    """A running virtual machine. `why_not()` says why there cannot be one."""

    def __init__(self, folder, programs):
        """Files go to `folder`, which is new. `programs` of ours run in it by their names."""
        self.kernel = kernel.prepare()
        self.console = os.path.join(folder, "console.txt")
        self._initramfs = os.path.join(folder, "initramfs.cpio")
        initramfs.write(self._initramfs, self.kernel, _beside("guest_init"), programs)
        self._namespace = None
        self._qemu = None

    @staticmethod
    def why_not():
        if os.geteuid() != 0:
            return "the network of the virtual machine needs root"
        if shutil.which(QEMU) is None:
            return f"{QEMU} is missing: run 'tools/setup'"
        probe = subprocess.run(["unshare", "--net", "sh", "-c", NETWORK], check=False,
                               stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if probe.returncode != 0:
            return f"no network for the virtual machine can be made: {probe.stderr.strip()}"
        return None

    def __enter__(self):
        self._namespace = subprocess.Popen(["unshare", "--net", "sh", "-c", NETWORK],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._namespace.stdout.readline() == "ready\n"
        self._start()
        try:
            self._wait()
        except Exception:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self._qemu.kill()
        self._qemu.wait()
        self._namespace.communicate()

    def _start(self):
        settings = {"guest_mtu": LINK_MTU, "guest_port": AGENT_PORT,
                    "guest_ipv4": f"{GUEST_IPV4}/24", "guest_ipv6": f"{GUEST_IPV6}/64"}
        kernel_options = ("console=ttyS0 quiet panic=-1 net.ifnames=0 mitigations=off tsc=reliable "
                          "no_timer_check random.trust_cpu=on")
        append = " ".join([kernel_options,
                           *(f"{name}={value}" for name, value in settings.items())])
        self._qemu = subprocess.Popen(
            [*self.prefix(), "setpriv", "--pdeathsig", "KILL", QEMU,
             "-accel", "tcg,thread=multi", "-M", "q35", "-cpu", CPU, "-m", str(MEMORY_MB),
             "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
             "-kernel", self.kernel.image, "-initrd", self._initramfs, "-append", append,
             "-serial", f"file:{self.console}",
             "-object", "rng-random,id=rng,filename=/dev/urandom",
             "-device", "virtio-rng-pci,rng=rng",
             "-netdev", "tap,id=net,ifname=tap0,script=no,downscript=no",
             # Without the ways in which a notification could be saved: one too few stops it.
             "-device", "virtio-net-pci,netdev=net,mac=52:54:00:88:00:01,romfile=,"
             "ioeventfd=off,event_idx=off"],
            stdin=subprocess.DEVNULL)

    def _wait(self):
        deadline = time.monotonic() + BOOT_LIMIT_SECONDS
        while b"guest_agent: ready" not in self.console_output():
            if self._qemu.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the virtual machine did not come up; its console says:\n"
                                   + self.console_output().decode(errors="replace"))
            time.sleep(0.05)
        # A queue pair of rxe's waits for two seconds when its peer has to be found first.
        self.run("busybox", "ping", "-6", "-c", "1", "-W", "60", HOST_IPV6)

    def console_output(self):
        try:
            with open(self.console, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""

    def lost_its_network(self):
        """Whether QEMU's network interface has stopped: seen once in thousands of runs, on a
        machine with six times as much to do as it has processors."""
        return b"NETDEV WATCHDOG" in self.console_output()

    def has_crashed(self):
        """Whether its kernel has panicked. rdma_rxe of Linux 6.1 does when a damaged packet is
        shorter than a BTH or for an address that it has not: it drops a reference to a queue pair
        that it did not look up (rxe_rcv)."""
        return b"Kernel panic" in self.console_output()

    def restart(self):
        self._qemu.kill()
        self._qemu.wait()
        os.remove(self.console)
        self._start()
        self._wait()

    def unplug(self):
        """Pulls the cable of the machine's network interface; `plug` puts it back."""
        subprocess.run([*self.prefix(), "ip", "link", "set", "tap0", "nomaster"], check=True)

    def plug(self):
        subprocess.run([*self.prefix(), "ip", "link", "set", "tap0", "master", "br0"], check=True)

    def prefix(self):
        """Goes before a command that is to run in the network namespace, outside of the machine."""
        return ["nsenter", f"--net=/proc/{self._namespace.pid}/ns/net"]

    def inside(self, *command):
        """The command that runs `command` in the machine."""
        return [*self.prefix(), _beside("guest_run.py"), GUEST_IPV4, str(AGENT_PORT), *command]

    def run(self, *command):
        """Runs a command in the machine and returns what it prints."""
        return subprocess.run(self.inside(*command), check=True, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True).stdout
