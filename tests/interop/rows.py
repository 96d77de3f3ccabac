"""The rows of the interop matrix: the cases between uroce and rxe.

Each row is run in both directions.
"""

import dataclasses
import itertools
import json
import random

PATH_MTUS = (256, 1024, 4096)
IPS = ("IPv4", "IPv6 link-local", "IPv6 global")
LARGEST_MESSAGE = 8 << 20  # rxe's limit.
GROUPS = {"IPv4": "239.1.2.3", "IPv6 global": "ff1e::1:7"}
# Values of the ACK timeout: 4.096 us * 2^timeout; every request is sent eight times.
NO_TIMEOUT = 0  # Waits for ever, so a loss that no NAK repairs hangs.
RETRY_TIMEOUT = 16  # 0.3 s: for losses that cost a timeout
PATIENT_TIMEOUT = 17  # 0.5 s: for a machine that is busy with something else


@dataclasses.dataclass(frozen=True)
class Fault:
    """The faults at uroce's end: by chance for frames that it sends, by rules for both
    directions."""

    name: str
    impair: str = ""
    rules: tuple = ()

    def scenario(self):
        return json.dumps({"rules": [dict(rule) for rule in self.rules]})


NO_FAULT = Fault("none")


@dataclasses.dataclass(frozen=True)
class Row:
    """A case. `kind` is the way to call the program; `options` follow the arguments of every call.

    `rxe_is_plain`: the mover has rxe post nothing that its requester cannot send again (README).
    `port`: the kind of uroce's port, a name of wire.PORTS.
    `end_options`: options of the server and of the client alone; "{host}" is the server's address.
    """

    group: str
    program: str
    variant: str
    kind: str
    path_mtu: int
    ip: str
    fault: Fault = NO_FAULT
    options: tuple = ()
    rxe_is_plain: bool = False
    port: str = "af_packet"
    end_options: tuple = ((), ())

    @property
    def name(self):
        path_mtu = self.path_mtu and f"path MTU {self.path_mtu}"
        return ", ".join(filter(None, [self.program, self.variant, path_mtu, self.ip]))


def _each_path():
    """Every path MTU and every kind of address, but not all of their pairs."""
    for path_mtu in PATH_MTUS:
        yield path_mtu, "IPv4"
    yield 256, "IPv6 link-local"
    yield 1024, "IPv6 global"
    yield 4096, "IPv6 link-local"


def _ping_pongs():
    for path_mtu in PATH_MTUS:
        for ip in IPS:
            for service in ("rc", "uc"):
                yield Row("ping-pong", f"ibv_{service}_pingpong", "", "ping-pong", path_mtu, ip,
                          options=("-s", "10000", "-n", "20", "-c"))
    for ip in IPS:
        yield Row("ping-pong", "ibv_ud_pingpong", "", "ping-pong", None, ip,
                  options=("-s", "1000", "-n", "20", "-c"))
    yield Row("ping-pong", "ibv_srq_pingpong", "4 queue pairs", "ping-pong", 1024, "IPv4",
              options=("-s", "3000", "-n", "40", "-q", "4"))


SIZES = {"bw": "16384", "lat": "100"}


def _perftests():
    programs = [f"ib_{operation}_{figure}" for operation in ("send", "write", "read")
                for figure in ("bw", "lat")]
    for program in programs:
        size = SIZES[program.rsplit("_", 1)[1]]
        for path_mtu, ip in _each_path():
            yield Row("perftest", program, "", "perftest", path_mtu, ip,
                      options=("-s", size, "-n", "20"))
    for figure in ("bw", "lat"):
        for name, kind in (("compare and swap", "CMP_AND_SWAP"),
                           ("fetch and add", "FETCH_AND_ADD")):
            for ip in IPS:
                yield Row("perftest", f"ib_atomic_{figure}", name, "perftest", 1024, ip,
                          options=("-A", kind, "-n", "20"))
    for program in ("ib_send_bw", "ib_write_bw", "ib_read_bw"):
        yield Row("perftest", program, "8 MiB", "perftest", 4096, "IPv4",
                  options=("-s", str(LARGEST_MESSAGE), "-n", "5"))
        yield Row("perftest", program, "4 queue pairs", "perftest", 1024, "IPv4",
                  options=("-s", "8192", "-n", "20", "-q", "4"))
        yield Row("perftest", program, "both directions", "perftest", 1024, "IPv4",
                  options=("-s", "8192", "-n", "20", "-b"))
    yield Row("perftest", "ib_send_bw", "inline, events", "perftest", 1024, "IPv4",
              options=("-s", "64", "-I", "64", "-e", "-n", "20"))
    for program in ("ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_write_lat"):
        yield Row("perftest", program, "UC", "perftest", 1024, "IPv4",
                  options=("-c", "UC", "-s", "2000", "-n", "20"))
    for program in ("ib_send_bw", "ib_send_lat"):
        yield Row("perftest", program, "UD", "perftest", 1024, "IPv4",
                  options=("-c", "UD", "-s", "1000", "-n", "20"))


# rxe's requester may stop for ever when an RNR NAK meets requests in flight: see the README.
MOVER_OPTIONS = ("--rounds", "1", "--receives-in-advance")


def _movers():
    for seed, (path_mtu, ip) in enumerate(((m, i) for m in PATH_MTUS for i in IPS), 1):
        yield Row("data mover", "mover", "3 queue pairs", "mover", path_mtu, ip,
                  options=(*MOVER_OPTIONS, "--seed", str(seed), "--queue-pairs", "3",
                           "--operations", "32", "--max-message-bytes", "200000",
                           "--arena-bytes", "1000000", "--timeout", str(PATIENT_TIMEOUT)))
    yield Row("data mover", "mover", "1 queue pair, up to 8 MiB", "mover", 4096, "IPv4",
              options=(*MOVER_OPTIONS, "--seed", "50", "--queue-pairs", "1", "--operations", "8",
                       "--max-message-bytes", str(LARGEST_MESSAGE), "--arena-bytes", "20000000",
                       "--timeout", str(PATIENT_TIMEOUT)))


def _received_by_chance(seed, action):
    """Rules that do to received frames by chance what --impair does to sent ones."""
    generator = random.Random(seed)
    return tuple((("direction", "received"), ("nth", nth), *action)
                 for nth in range(1, 20000) if generator.random() < 0.01)[:300]


def _random_faults():
    actions = {"drop": (("action", "drop"),),
               "duplicate": (("action", "duplicate"),),
               "reorder": (("action", "reorder"), ("frames", 2)),
               "corrupt": (("action", "corrupt"), ("at", "icrc"))}
    for seed, (name, action) in enumerate(actions.items(), 1):
        yield Fault(f"{name} 1 %", f"{name}=1%,seed={seed}", _received_by_chance(seed, action))


def _spoiled_mover(group, queue_pairs, path_mtu, ip, fault, *options):
    several = "1 queue pair" if queue_pairs == 1 else f"{queue_pairs} queue pairs"
    return Row(group, "mover", several, "mover", path_mtu, ip, fault, rxe_is_plain=True,
               options=("--rounds", "1", "--queue-pairs", str(queue_pairs), "--max-message-bytes",
                        "200000", "--arena-bytes", "1000000", *options))


def _faults_by_chance():
    group = "random faults, both directions"
    faults = list(_random_faults())
    paths = ((1, 1024, "IPv4"), (3, 1024, "IPv4"), (3, 256, "IPv6 global"),
             (3, 4096, "IPv6 link-local"))
    for seed, (fault, path) in enumerate(itertools.product(faults, paths), 200):
        yield _spoiled_mover(group, *path, fault, "--receives-in-advance", "--seed", str(seed),
                             "--operations", "32", "--timeout", str(RETRY_TIMEOUT))
    for fault in faults:
        for program in ("ib_send_bw", "ib_write_bw", "ib_read_bw"):
            yield Row(group, program, "", "perftest", 1024, "IPv4", fault,
                      options=("-s", "4096", "-n", "100", "-u", str(RETRY_TIMEOUT)))


def _rule(**words):
    return tuple(words.items())


def _one_shots():
    """The loss of a single packet: if a NAK can report it, there must be no wait for a timeout."""
    faults = {
        "ib_send_bw": ("RC_SEND_MIDDLE", "RC_SEND_LAST", "RC_ACKNOWLEDGE"),
        "ib_write_bw": ("RC_WRITE_FIRST", "RC_WRITE_MIDDLE"),
        "ib_read_bw": ("RC_READ_REQUEST", "RC_READ_RESPONSE_FIRST", "RC_READ_RESPONSE_MIDDLE",
                       "RC_READ_RESPONSE_LAST"),
        "ib_atomic_bw": ("RC_FETCH_ADD", "RC_ATOMIC_ACKNOWLEDGE"),
    }
    group = "one packet lost, no timeout"
    for program, opcodes in faults.items():
        for opcode in opcodes:
            # With perftest such packets go in only one of the two directions.
            rules = tuple(_rule(direction=direction, opcode=opcode, nth=3, action="drop")
                          for direction in ("sent", "received"))
            fault = Fault(f"drop the 3rd {opcode}", rules=rules)
            yield Row(group, program, "", "perftest", 1024, "IPv4", fault,
                      options=_one_shot_options(program))
            # Enough operations for three of each kind. No fences: a fence would wait for a lost
            # packet with no packet behind it that reveals the loss. A send window filled by
            # requests whose ACK was lost would wait in the same way.
            if opcode == "RC_ACKNOWLEDGE":
                continue
            yield _spoiled_mover(group, 1, 1024, "IPv4", fault, "--receives-in-advance",
                                 "--plain", "both", "--seed", "314", "--operations", "64",
                                 "--timeout", str(NO_TIMEOUT))
    for action in (_rule(action="duplicate"), _rule(action="reorder", frames=3),
                   _rule(action="corrupt", at="payload"), _rule(action="delay", us=5000)):
        words = dict(action)
        rules = tuple((*_rule(direction=direction, opcode="RC_SEND_MIDDLE", nth=3), *action)
                      for direction in ("sent", "received"))
        yield Row("one packet spoiled, no timeout", "ib_send_bw", "", "perftest", 1024, "IPv4",
                  Fault(f"{words['action']} the 3rd RC_SEND_MIDDLE", rules=rules),
                  options=_one_shot_options("ib_send_bw"))


def _one_shot_options(program):
    size = () if program == "ib_atomic_bw" else ("-s", "8192")
    return (*size, "-n", "40", "-u", str(NO_TIMEOUT))


def _timeouts():
    """Losses that only a timeout reveals: of the last packet of all, or of its answer."""
    for program, opcode in (("ib_send_lat", "RC_SEND_ONLY"), ("ib_send_lat", "RC_ACKNOWLEDGE"),
                            ("ib_read_lat", "RC_READ_RESPONSE_ONLY"),
                            ("ib_atomic_lat", "RC_ATOMIC_ACKNOWLEDGE")):
        rules = tuple(_rule(direction=direction, opcode=opcode, nth=nth, action="drop")
                      for direction in ("sent", "received") for nth in (3, 4, 9))
        yield Row("recovery by timeout", program, "", "perftest", 1024, "IPv4",
                  Fault(f"drop the 3rd, 4th and 9th {opcode}", rules=rules),
                  options=("-n", "10", "-u", str(RETRY_TIMEOUT)))


def _receiver_not_ready():
    group = "receiver not ready"
    yield Row(group, "ib_send_bw", "1 receive request", "perftest", 1024, "IPv4",
              options=("-s", "256", "-n", "40", "-r", "1"))
    mover = _spoiled_mover(group, 3, 1024, "IPv4", NO_FAULT, "--seed", "4", "--operations", "32",
                           "--timeout", str(PATIENT_TIMEOUT))
    yield dataclasses.replace(mover, variant=f"{mover.variant}, few receive requests")


def _retries_exceeded():
    yield Row("the other end is stopped", "WRITE", "sent three times", "retries", None, "IPv4")


SOCKETS = "UDP sockets"


def _sockets():
    """Programs that are started without any option of uroce: some rows of each kind, over UDP
    sockets instead of the other port."""
    rows = [row for row in (*_ping_pongs(), *_perftests(), *_movers(), *_faults_by_chance())
            if row.ip != "IPv6 link-local"]
    wanted = [row for row in rows if row.kind == "ping-pong" or
              (row.kind == "mover" and row.fault is NO_FAULT) or
              (row.kind == "mover" and row.path_mtu == 1024) or
              (row.kind == "perftest" and row.fault is NO_FAULT and
               (row.path_mtu == 4096 or row.variant) and row.program.endswith("_bw"))]
    for row in wanted:
        variant = ", ".join(filter(None, (SOCKETS, row.variant)))
        yield dataclasses.replace(row, group="over UDP sockets", variant=variant, port=SOCKETS)


def _connection_manager():
    """The programs of librdmacm, against the kernel's own connection manager."""
    programs = {
        "rping": (("-V", "-S", "30000", "-C", "10"), ("-s", "-a", "{host}"),
                  ("-c", "-a", "{host}")),
        "ucmatose": (("-c", "3", "-C", "5", "-S", "1000"), ("-b", "{host}"), ("-s", "{host}")),
        "udaddy": (("-c", "2", "-C", "5"), ("-b", "{host}"), ("-s", "{host}")),
        "rstream": (("-S", "1000", "-I", "10", "-C", "10"), ("-b", "{host}"), ("-s", "{host}")),
        "cmtime": (("-c", "20"), ("-b", "{host}"), ("-s", "{host}")),
    }
    for program, (options, server, client) in programs.items():
        for ip in ("IPv4", "IPv6 global"):
            yield Row("connected by rdma_cm", program, "", "connection manager", None, ip,
                      options=options, port=SOCKETS, end_options=(server, client))


def _multicast():
    """mckey joins its group by rdma_cm, which Linux does for RoCEv2 and IPv4 only."""
    for variant, port in ((SOCKETS, SOCKETS), ("", "af_packet")):
        yield Row("multicast", "mckey", variant, "mckey", None, "IPv4", port=port,
                  options=("-m", GROUPS["IPv4"], "-C", "10", "-S", "1000"))
        for ip in ("IPv4", "IPv6 global"):
            yield Row("multicast", "members of a group", variant, "group", None, ip, port=port)


def all_rows():
    """Every row, in the order of the matrix."""
    return [*_ping_pongs(), *_perftests(), *_movers(), *_faults_by_chance(), *_one_shots(),
            *_timeouts(), *_receiver_not_ready(), *_retries_exceeded(), *_sockets(),
            *_connection_manager(), *_multicast()]


def is_short(row):
    """Whether every run tries the row: one of each kind, but none in which a packet lost by the
    busy emulated machine could meet a fault of rxe's own (README) and stop rxe for ever."""
    if row.kind == "connection manager":
        return row.ip == "IPv4" and row.program in ("rping", "udaddy")
    if row.group == "multicast":
        return row.port == SOCKETS and row.ip == "IPv4"
    if row.port == SOCKETS:
        return (row.program, row.path_mtu, row.ip) in (
            ("ibv_rc_pingpong", 1024, "IPv4"), ("ibv_ud_pingpong", None, "IPv6 global"),
            ("ib_write_bw", 4096, "IPv4")) and row.variant == SOCKETS
    if row.kind == "mover":
        return row.rxe_is_plain and "1 queue pair" in row.variant and row.fault.name == "drop 1 %"
    if row.fault is not NO_FAULT:
        return row.group == "recovery by timeout"
    if row.program.startswith("ibv_") or "atomic" in row.program:
        return row.ip == "IPv4" and row.path_mtu in (1024, None)
    return row.kind == "retries" or row.variant in ("UD", "UC", "4 queue pairs") or (
        row.variant == "" and (row.path_mtu, row.ip) == (256, "IPv6 link-local"))
