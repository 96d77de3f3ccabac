#!/usr/bin/python3
"""Programs without libibverbs see the device that `uroce run` gives to their children."""

import json

from harness import report
from harness.cases import InstallationTestCase
from harness.programs import Program
from harness.users import all_users
from harness.wires import IPV4, FabricWire

DEVICE = "/sys/class/infiniband/uroce0"

# Reads names in every way that libc has, and only then uses libibverbs.
READERS = f"""
import ctypes, glob, os
device = {DEVICE!r}
print("listdir", os.listdir("/sys/class/infiniband"))
print("scandir", [entry.name for entry in os.scandir(device + "/ports")])
print("glob", glob.glob("/sys/class/infiniband/*/ports/*/state"))
print("walk", sum(len(files) for _, _, files in os.walk(device + "/ports/1/gid_attrs")))
print("realpath", os.path.realpath(device + "/device"))
print("readlink", os.readlink(device))
class Found(ctypes.Structure):
    _fields_ = [("count", ctypes.c_size_t), ("paths", ctypes.POINTER(ctypes.c_char_p)),
                ("rest", ctypes.c_char * 128)]
libc = ctypes.CDLL(None)
found = Found()
libc.glob(b"/sys/class/infiniband/*/node_g*", 0, None, ctypes.byref(found))
print("libc glob", [found.paths[index].decode() for index in range(found.count)])
names = ctypes.c_void_p()
print("libc scandir", libc.scandir(b"/sys/class/infiniband/uroce0/ports/1/pkeys",
                                   ctypes.byref(names), None, None))
print("libc eaccess", libc.eaccess(b"/sys/class/infiniband/uroce0/node_guid", os.R_OK))
libibverbs = ctypes.CDLL("libibverbs.so.1")
count = ctypes.c_int()
libibverbs.ibv_get_device_list.restype = ctypes.c_void_p
libibverbs.ibv_get_device_list(ctypes.byref(count))
print("libibverbs", count.value)
"""
READ = f"""\
listdir ['uroce0']
scandir ['1']
glob ['{DEVICE}/ports/1/state']
walk 4
realpath /sys/devices/uroce0
readlink ../../devices/uroce0/infiniband/uroce0
libc glob ['{DEVICE}/node_guid']
libc scandir 3
libc eaccess 0
libibverbs 1
"""


# Reads counters in sysfs while two processes exchange messages.
COUNTS = f"""
count() {{ cat {DEVICE}/ports/1/$1; }}
[ "$(count counters/port_xmit_packets)" -eq 0 ] || exit 10
ibv_rc_pingpong -g 0 -p 18733 -n 100000000 > /dev/null &
server=$!
sleep 1
ibv_rc_pingpong -g 0 -p 18733 -n 100000000 127.0.0.1 > /dev/null &
client=$!
until [ "$(count counters/port_xmit_packets)" -gt 1000 ]; do sleep 0.1; done
before=$(count counters/port_rcv_data)
until [ "$(count counters/port_rcv_data)" -gt "$before" ]; do sleep 0.1; done
[ "$(count hw_counters/req_transport_retries_exceeded)" -eq 0 ] || exit 11
kill "$server" "$client"
ls {DEVICE}/ports/1/counters {DEVICE}/ports/1/hw_counters
"""

# Has the port open while it runs other programs.
OWNER = """
import ctypes, subprocess
libibverbs = ctypes.CDLL("libibverbs.so.1")
libibverbs.ibv_get_device_list.restype = ctypes.c_void_p
libibverbs.ibv_get_device_list(None)
subprocess.call(["sh", "-c", {looks!r}], start_new_session=True)
"""


class DeviceViewTest(InstallationTestCase):

    def output_of(self, *command, user=None, ips=None):
        # Independent of the networks of this machine.
        wire = FabricWire(self.installation, ips, ["--no-uplink"])
        with Program(wire.command(0, command, user)) as program:
            return program.wait()

    def test_rdma_dev(self):
        self.assertRegex(self.output_of("rdma", "dev"), r"^\d+: uroce0: node_type ca .*node_guid ")

    def test_rdma_link(self):
        self.assertEqual(self.output_of("rdma", "link").strip(),
                         "link uroce0/1 state ACTIVE physical_state LINK_UP netdev lo")

    def test_rdma_link_without_a_network_interface(self):
        self.assertEqual(self.output_of("rdma", "link", ips=IPV4).strip(),
                         "link uroce0/1 state ACTIVE physical_state LINK_UP")

    def test_rdma_link_as_json(self):
        (link,) = json.loads(self.output_of("rdma", "-j", "link", "show"))
        self.assertEqual((link["ifname"], link["port"], link["state"], link["netdev"]),
                         ("uroce0", 1, "ACTIVE", "lo"))

    def test_counters_of_all_processes(self):
        listed = self.output_of("sh", "-c", COUNTS).split()
        for name in ("port_xmit_data", "port_rcv_packets", "out_of_sequence", "packet_seq_err"):
            self.assertIn(name, listed)

    def test_ibstat(self):
        output = self.output_of("ibstat")
        for text in ("CA 'uroce0'", "CA type: uroce", "State: Active", "Physical state: LinkUp",
                     "Rate: 100", "Link layer: Ethernet"):
            self.assertIn(text, output)

    def test_ls_and_cat_of_every_user(self):
        for user in all_users():
            with self.subTest(user.name):
                self.assertEqual(self.output_of("ls", "/sys/class/infiniband", user=user),
                                 "uroce0\n")
                self.assertRegex(self.output_of("cat", DEVICE + "/node_guid", user=user),
                                 r"^([0-9a-f]{4}:){3}[0-9a-f]{4}\n$")

    def test_ls_of_everything(self):
        output = self.output_of("ls", "-l", "/sys/class/infiniband")
        self.assertIn(" uroce0 -> ../../devices/uroce0/infiniband/uroce0\n", output)
        output = self.output_of("ls", "-lR", "/sys/class/infiniband/uroce0/")
        self.assertNotIn("ls:", output)
        for text in ("/sys/class/infiniband/uroce0/ports/1/gid_attrs/ndevs:", " gids\n",
                     "-r--r--r-- 1 root root 4096 Jan  1  1970 node_guid\n"):
            self.assertIn(text, output)

    def test_find(self):
        found = self.output_of("find", DEVICE + "/device/net", "-type", "f").split()
        self.assertEqual(sorted(found), [DEVICE + "/device/net/lo/dev_port",
                                         DEVICE + "/device/net/lo/ifindex"])

    def test_shell(self):
        script = (f"echo {DEVICE}/ports/*; read state < {DEVICE}/ports/1/state; echo $state; "
                  f"[ -r {DEVICE}/node_guid ] && echo readable; "
                  "cat /sys/class/infiniband/*/ports/*/gid_attrs/ndevs/1")
        for shell in ("bash", "dash"):
            with self.subTest(shell):
                self.assertEqual(self.output_of(shell, "-c", script),
                                 f"{DEVICE}/ports/1\n4: ACTIVE\nreadable\nlo\n")

    def test_readers_of_directories_that_use_libibverbs_afterwards(self):
        self.assertEqual(self.output_of("/usr/bin/python3", "-c", READERS), READ)

    def test_looking_at_the_device_is_not_called_unused(self):
        python = ("/usr/bin/python3", "-c")
        looks = "import os; print(os.listdir('/sys/class/infiniband'))"
        self.assertEqual(self.output_of(*python, looks), "['uroce0']\n")
        self.assertIn("without loading libibverbs", self.output_of(*python, "pass"))

    def test_direct_mode_opens_no_port_for_programs_without_libibverbs(self):
        """If both programs opened the port, one of them would fail."""
        uroce = self.installation.path("tools/uroce")
        script = "ls /sys/class/infiniband/uroce0; ibv_devices"
        with Program([uroce, "run", "--port", "udp", "--", "sh", "-c", script]) as program:
            output = program.wait()
        self.assertIn("No such file", output)
        self.assertRegex(output, r"\buroce0\s+[0-9a-f]{16}")

    def test_direct_mode_shows_the_open_port_to_other_programs(self):
        """Children, and siblings of the program that has the port open."""
        uroce = self.installation.path("tools/uroce")
        looks = ("ls /sys/class/infiniband; cat /sys/class/infiniband/uroce0/ports/1/gids/1; "
                 "rdma link; ibv_devices")
        script = OWNER.format(looks=looks)
        port = "udp,address=127.0.0.7"
        with Program([uroce, "run", "--port", port, "--", "/usr/bin/python3", "-c",
                      script]) as program:
            output = program.wait()
        self.assertIn("uroce0\n0000:0000:0000:0000:0000:ffff:7f00:0007\n"
                      "link uroce0/1 state ACTIVE physical_state LINK_UP", output)
        self.assertRegex(output, r"\buroce0\s+[0-9a-f]{16}")
        self.assertNotIn("uroce:", output)


if __name__ == "__main__":
    report.main()
