#!/usr/bin/python3
"""Processes that connect to themselves, die, come back, or fork."""

from harness import report
from harness.agents import Agent, TalkingAgent, join
from harness.cases import InstallationTestCase
from harness.daemons import wait_for
from harness.programs import Program
from harness.wires import IPV4, IPV6, FabricWire, MemifWire, VethWire

PATIENT = {"timeout": 18, "retry_count": 7}  # 8.6 s
ENDLESS = {"timeout": 0, "retry_count": 7}
IMPATIENT = {"timeout": 16, "retry_count": 3}  # 1.1 s


class ProcessLifeTest(InstallationTestCase):

    def on_each_wire(self, check, ips=IPV4):
        for wire_class in (FabricWire, MemifWire):
            with self.subTest(wire=wire_class.name, ips=ips):
                with wire_class(self.installation, ips) as wire:
                    check(wire)

    def test_two_queue_pairs_of_one_process(self):
        def check(wire):
            with Agent(wire, 0) as agent:
                one, other = join(agent, agent, **PATIENT)
                self.check_write(agent, one, agent, other, 5)
                self.check_write(agent, other, agent, one, 6)

        self.on_each_wire(check, IPV4)
        self.on_each_wire(check, IPV6)

    def test_a_peer_that_is_killed_and_another_that_joins(self):
        def check(wire):
            with TalkingAgent(wire, 1) as survivor:
                for value in (1, 2, 3):
                    with Agent(wire, 0) as victim:
                        self.check_killed(wire, survivor, victim, value)

        self.on_each_wire(check)

    def check_killed(self, wire, survivor, victim, value):
        """The survivor's requests fail when their retries are used up, and not in any other way.
        On a fabric they fail at once, and the survivor says why."""
        is_linked = isinstance(wire, FabricWire)
        number, other_number = join(survivor, victim, **PATIENT)
        self.check_write(survivor, number, victim, other_number, value)
        doomed, _ = join(survivor, victim, **(ENDLESS if is_linked else IMPATIENT))
        survivor.tell(f"stream {doomed}")
        self.assertEqual(survivor.answer(), "streaming")
        victim.kill()
        self.assertEqual(survivor.outcome(survivor.answer()).status, "RETRY_EXC_ERR")
        if is_linked:
            wait_for(lambda: survivor.hears("the other end of 1 queue pair has ended", number),
                     "said that its peer has ended")
            survivor.sentences.clear()
            self.assertEqual(survivor.write(number, value, 8).status, "RETRY_EXC_ERR")
        survivor.ask(f"close {number}")
        survivor.ask(f"close {doomed}")

    def test_a_sender_that_is_killed_and_replaced(self):
        def check(wire):
            with Agent(wire, 0) as victim, Agent(wire, 1) as survivor:
                number, _ = join(victim, survivor, **PATIENT)
                victim.tell(f"stream {number}")
                self.assertEqual(victim.answer(), "streaming")
                victim.kill()
                with Agent(wire, 0) as successor:
                    number, other_number = join(successor, survivor, **PATIENT)
                    self.check_write(successor, number, survivor, other_number, 9)
                    self.check_write(survivor, other_number, successor, number, 10)

        self.on_each_wire(check)

    def test_a_program_that_forks(self):
        def check(wire):
            with Agent(wire, 0) as other, Agent(wire, 1) as agent:
                number, other_number = join(agent, other, **PATIENT)
                for value, how in enumerate(("exec", "exit", "exit", "exec"), 1):
                    self.assertEqual(agent.ask(f"fork {how}"), "0")
                    self.check_write(agent, number, other, other_number, value)
                    self.check_write(other, other_number, agent, number, 100 + value)

        self.on_each_wire(check)

    def test_a_device_whose_interface_is_deleted(self):
        if why_not := VethWire.why_not():
            self.skipTest(why_not)
        with VethWire(self.installation, IPV4) as wire:
            # It would buffer its lines, as it does not write to a terminal.
            command = ["stdbuf", "--output=L", "ibv_asyncwatch", "-d", "uroce0"]
            with Program(wire.command(0, command)) as watcher:
                watcher.wait_until(lambda: "async event FD" in watcher.output(), "was ready")
                wire.delete_interface(0)
                watcher.wait_until(lambda: "IBV_EVENT_DEVICE_FATAL" in watcher.output(),
                                   "heard of the end of the device")

    def test_an_rdma_cm_id_whose_interface_is_deleted(self):
        if why_not := VethWire.why_not():
            self.skipTest(why_not)
        with VethWire(self.installation, IPV4) as wire:
            command = ["stdbuf", "--output=L", "rping", "-s", "-d", "-a", wire.host(0)]
            with Program(wire.command(0, command)) as server:
                server.wait_until(lambda: "rdma_listen" in server.output(), "listened")
                wire.delete_interface(0)
                server.wait_until(lambda: "device removal" in server.output(),
                                  "heard of the removal of the device")


if __name__ == "__main__":
    report.main()
