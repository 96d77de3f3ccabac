"""Virtual machines and their network: a namespace of our own with a bridge.

```
    guest: eth0, rxe0              tap0 ─┐
    uroce: direct mode on uroce0 ─ veth ─┼─ bridge br0: TCP between the programs, UDP sockets
    guest: eth0                    tap1 ─┤
           PCI NICs for uroce  tap2, tap3 ┘
```

No frame leaves the namespace, and nothing is left behind however the test ends: the namespace lives
as long as a process in it, which ends with its standard input, and QEMU ends with the test.
"""

import contextlib
import dataclasses
import os
import shutil
import socket
import subprocess
import time

from vm import initramfs, kernel

GUEST_IPV4 = "10.88.0.1"
GUEST_IPV6 = "fd00:88::1"
HOST_IPV4 = "10.88.0.254"
HOST_IPV6 = "fd00:88::fe"
UROCE_IPV4 = "10.88.0.2"
NIC_GUEST_IPV4 = "10.88.0.3"
NIC_GUEST_IPV6 = "fd00:88::3"
NIC_IPV4 = "10.88.0.4"  # uroce on a NIC of that machine.
UROCE_IPV6 = "fd00:88::2"
LINK_MTU = 4200  # Room for a path MTU of 4096.
AGENT_PORT = 4790
GROUP_PORT = 4789  # Nothing is sent to it.
BOOT_LIMIT_SECONDS = 300
FIRST_SLOT = 2  # Of eth0 on the PCI bus; the other NICs follow.

QEMU = "qemu-system-x86_64"
INTERFACE = "uroce0"
NETWORK = f"""
set -e
ip link set lo up
ip link add br0 type bridge mcast_snooping 0 forward_delay 0 stp_state 0
for tap in tap0 tap1 tap2 tap3; do ip tuntap add $tap mode tap; done
ip link add {INTERFACE} type veth peer name port0
for port in tap0 tap1 tap2 tap3 port0; do ip link set $port mtu {LINK_MTU} master br0 up; done
ip link set {INTERFACE} mtu {LINK_MTU} up
ip link set br0 mtu {LINK_MTU} up
ip address add {HOST_IPV4}/24 dev br0
ip address add {HOST_IPV6}/64 dev br0 nodad
echo ready
cat
"""
# A processor without fast string instructions, which QEMU emulates byte by byte.
CPU = "Nehalem,+pclmulqdq"
MEMORY_MB = 512


def _beside(name):
    return os.path.join(os.path.dirname(os.path.realpath(__file__)), name)


@dataclasses.dataclass(frozen=True)
class Setup:
    """A machine: its first interface, eth0 in it, and its further equipment.

    `nics` are PCI NICs, named as devices of QEMU, at tap2, tap3 and so on.
    """

    tap: str
    ipv4: str
    ipv6: str
    has_rxe: bool = False
    has_iommu: bool = False
    processors: int = 1
    nics: tuple = ()


RXE_SETUP = Setup("tap0", GUEST_IPV4, GUEST_IPV6, has_rxe=True)


class Network:
    """The namespace, while the `with` block runs."""

    def __enter__(self):
        self._process = subprocess.Popen(["unshare", "--net", "sh", "-c", NETWORK],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_):
        self._process.communicate()

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

    def prefix(self):
        """The prefix that runs a command in the namespace, outside of the machines."""
        return ["nsenter", f"--net=/proc/{self._process.pid}/ns/net"]


class Machine:
    """A running virtual machine."""

    def __init__(self, folder, network, setup, programs, libraries=()):
        """Files go to `folder`, which is new. `programs` of ours run in the machine by name."""
        self.kernel = kernel.prepare()
        self.console = os.path.join(folder, "console.txt")
        self._initramfs = os.path.join(folder, "initramfs.cpio")
        initramfs.write(self._initramfs, self.kernel, _beside("guest_init"), programs, libraries)
        self._monitor = os.path.join(folder, "monitor")
        self._network = network
        self._setup = setup
        self._qemu = None

    def __enter__(self):
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

    def _kernel_options(self):
        setup = self._setup
        settings = {"guest_mtu": LINK_MTU, "guest_port": AGENT_PORT,
                    "guest_ipv4": f"{setup.ipv4}/24", "guest_ipv6": f"{setup.ipv6}/64",
                    "guest_rxe": "1" if setup.has_rxe else ""}
        fixed = ("console=ttyS0 quiet panic=-1 net.ifnames=0 mitigations=off tsc=reliable "
                 "no_timer_check random.trust_cpu=on")
        return " ".join([fixed, *(f"{name}={value}" for name, value in settings.items())])

    def _network_options(self):
        # Without the options that save notifications: a missing notification stops the interface.
        first = "virtio-net-pci,ioeventfd=off,event_idx=off"
        for number, device in enumerate([first, *self._setup.nics]):
            tap = self._setup.tap if number == 0 else f"tap{number + 1}"
            last_byte = int(tap[len("tap"):]) + 1
            yield from ("-netdev", f"tap,id=net{number},ifname={tap},script=no,downscript=no",
                        "-device", f"{device},id=nic{number},netdev=net{number},romfile=,"
                        f"mac=52:54:00:88:00:{last_byte:02x},addr={FIRST_SLOT + number:x}.0")

    def _start(self):
        self._qemu = subprocess.Popen(
            [*self.prefix(), "setpriv", "--pdeathsig", "KILL", QEMU,
             "-accel", "tcg,thread=multi", "-M", "q35", "-cpu", CPU, "-m", str(MEMORY_MB),
             "-smp", str(self._setup.processors),
             "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
             "-kernel", self.kernel.image, "-initrd", self._initramfs,
             "-append", self._kernel_options(), "-serial", f"file:{self.console}",
             "-monitor", f"unix:{self._monitor},server=on,wait=off",
             *(["-device", "intel-iommu"] if self._setup.has_iommu else []),
             "-object", "rng-random,id=rng,filename=/dev/urandom",
             "-device", "virtio-rng-pci,rng=rng,addr=1.0", *self._network_options()],
            stdin=subprocess.DEVNULL)

    def _wait(self):
        deadline = time.monotonic() + BOOT_LIMIT_SECONDS
        while b"guest_agent: ready" not in self.console_output():
            if self._qemu.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the virtual machine did not come up; its console says:\n"
                                   + self.console_output().decode(errors="replace"))
            time.sleep(0.05)
        # A queue pair of rxe waits for two seconds if it has to resolve its peer first.
        self.run("busybox", "ping", "-6", "-c", "1", "-W", "60", HOST_IPV6)

    def console_output(self):
        try:
            with open(self.console, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""

    def lost_its_network(self):
        """Whether QEMU's network interface has stopped: seen once in thousands of runs, on a
        machine with a load of six times its processors."""
        return b"NETDEV WATCHDOG" in self.console_output()

    def has_crashed(self):
        """Whether its kernel has panicked. rdma_rxe of Linux 6.1 panics on a damaged packet that is
        shorter than a BTH or for a foreign address: it drops a reference to a queue pair that it
        did not look up (rxe_rcv)."""
        return b"Kernel panic" in self.console_output()

    def restart(self):
        self._qemu.kill()
        self._qemu.wait()
        os.remove(self.console)
        self._start()
        self._wait()

    def unplug(self):
        """Pulls the cable of the machine's network interface; `plug` puts it back."""
        self._set_tap("nomaster")

    def plug(self):
        self._set_tap("master", "br0")

    def _set_tap(self, *words):
        subprocess.run([*self.prefix(), "ip", "link", "set", self._setup.tap, *words], check=True)

    def set_link(self, number, state):
        """Pulls (state "off") or plugs in ("on") the cable of the machine's NIC of that number; the
        NIC sees the change of its link."""
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.connect(self._monitor)
            monitor.sendall(f"set_link nic{number} {state}\n".encode())
            answer = b""
            while answer.count(b"(qemu)") < 2:
                answer += monitor.recv(4096)

    @contextlib.contextmanager
    def in_group(self, group):
        """Makes the machine's kernel a member of the IP multicast group. rxe alone joins no group:
        it only has the interface take the frames, which IP then drops."""
        source = (f"UDP6-RECV:{GROUP_PORT},ipv6-join-group=[{group}]:eth0" if ":" in group else
                  f"UDP4-RECV:{GROUP_PORT},ip-add-membership={group}:eth0")
        with subprocess.Popen(self.inside("socat", "-u", source, "/dev/null"),
                              stdin=subprocess.DEVNULL) as member:
            while f" {group}\n" not in self.run("ip", "maddress", "show", "dev", "eth0"):
                assert member.poll() is None, f"socat could not join {group}"
            try:
                yield
            finally:
                member.kill()

    def prefix(self):
        """The prefix that runs a command in the network namespace, outside of the machine."""
        return self._network.prefix()

    def inside(self, *command):
        """The command that runs `command` in the machine."""
        return [*self.prefix(), _beside("guest_run.py"), self._setup.ipv4, str(AGENT_PORT),
                *command]

    def run(self, *command):
        """Runs a command in the machine and returns what it prints."""
        return subprocess.run(self.inside(*command), check=True, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True).stdout
