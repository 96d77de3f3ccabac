#!/usr/bin/python3
"""When the peer falls silent, a request fails in real time after timeout and retry_cnt."""

from harness import report
from harness.agents import Agent, join
from harness.cases import InstallationTestCase
from harness.wires import IPV4, FabricWire, MemifWire

# timeout, retry_cnt. Half a second and more in all, so that a busy machine can keep up.
CASES = ((14, 7), (16, 1), (17, 0), (15, 4), (18, 1))
# Spoils hardly any frame.
SPOILED = ["--impair", "reorder=0.0001%"]


def shortest_seconds(timeout, retry_count):
    """The least time until the failure. It may take up to four times as long (IBA C9-140)."""
    return 4.096e-6 * 2 ** timeout * (retry_count + 1)


class RetryTimeTest(InstallationTestCase):

    def test_a_process_that_stands_still(self):
        """Where frames may be lost: by a wire, and by a link one end of which spoils frames."""
        wires = {"memif": lambda: MemifWire(self.installation, IPV4),
                 "spoiled link": lambda: FabricWire(self.installation, IPV4, SPOILED)}
        for name, make_wire in wires.items():
            for timeout, retry_count in CASES:
                with self.subTest(wire=name, timeout=timeout, retry_count=retry_count):
                    self.check(make_wire(), timeout, retry_count, lambda peer, _: peer.stop())

    def test_a_queue_pair_that_is_gone(self):
        """Its process takes the frames of the link and drops them."""
        for timeout, retry_count in CASES:
            with self.subTest(timeout=timeout, retry_count=retry_count):
                self.check(FabricWire(self.installation, IPV4), timeout, retry_count,
                           lambda peer, number: peer.ask(f"close {number}"))

    def check(self, wire, timeout, retry_count, silence):
        with wire, Agent(wire, 0) as silent, Agent(wire, 1) as agent:
            # Frames are lost until the wire is up; a queue pair without retries must not send
            # before.
            patient, _ = join(agent, silent, timeout=18, retry_count=7)
            self.assertEqual(agent.write(patient, 1, 100).status, "SUCCESS")
            number, other_number = join(agent, silent, timeout=timeout, retry_count=retry_count)
            self.assertEqual(agent.write(number, 1, 100).status, "SUCCESS")
            silence(silent, other_number)
            outcome = agent.write(number, 2, 100)
            self.assertEqual(outcome.status, "RETRY_EXC_ERR")
            shortest = shortest_seconds(timeout, retry_count)
            self.assertGreaterEqual(outcome.seconds, shortest)
            self.assertLessEqual(outcome.seconds, 4 * shortest)
            self.assertEqual(agent.write(number, 3, 100).status, "WR_FLUSH_ERR")

    def test_a_peer_that_is_silent_for_a_while(self):
        wire = FabricWire(self.installation, IPV4)
        with wire, Agent(wire, 0) as silent, Agent(wire, 1) as agent:
            number, other_number = join(agent, silent, timeout=20, retry_count=7)
            self.assertEqual(agent.write(number, 1, 100).status, "SUCCESS")
            silent.stop()
            agent.tell(f"write {number} 2 1000")
            silent.resume()
            self.assertEqual(agent.outcome(agent.answer()).status, "SUCCESS")
            self.assertEqual(silent.count(other_number, 2), 1000)


if __name__ == "__main__":
    report.main()
