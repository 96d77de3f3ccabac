#!/usr/bin/python3
"""pyverbs in a Python program: with faulthandler, in threads, and in children of multiprocessing.

Prints a line for each of them that carries traffic, and exits with status 1 if one does not.
"""

import faulthandler
import multiprocessing
import sys
import threading

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
HALF = 4096
WRITES = 200
LIMIT_SECONDS = 120


def connected_pair(context, pd, cq):
    """Two queue pairs of this process that are connected to each other."""
    initial = QPAttr(port_num=1)
    initial.qp_access_flags = ACCESS
    pair = [QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(16, 16, 1, 1)),
               initial) for _ in range(2)]
    for qp, peer in (pair, reversed(pair)):
        route = GlobalRoute(dgid=context.query_gid(1, 0), sgid_index=0)
        attr = QPAttr(port_num=1)
        attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=route)
        attr.dest_qp_num = peer.qp_num
        attr.path_mtu = e.IBV_MTU_1024
        attr.qp_access_flags = ACCESS
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        attr.rnr_retry = attr.retry_cnt = 7
        attr.timeout = 14
        attr.min_rnr_timer = 12
        qp.to_rts(attr)
    return pair


def carries_traffic():
    """Writes from one half of a buffer to the other over a device of its own."""
    context = Context(name="uroce0")
    pd = PD(context)
    cq = CQ(context, 64)
    pair = connected_pair(context, pd, cq)
    mr = MR(pd, 2 * HALF, ACCESS)
    for number in range(WRITES):
        text = f"{number:06}"
        mr.write(text, len(text))
        request = SendWR(wr_id=number, num_sge=1, sg=[SGE(mr.buf, 64, mr.lkey)],
                         opcode=e.IBV_WR_RDMA_WRITE)
        request.set_wr_rdma(mr.rkey, mr.buf + HALF)
        pair[0].post_send(request)
        count = 0
        while count == 0:
            count, completions = cq.poll(1)
        if completions[0].status != e.IBV_WC_SUCCESS:
            return False
        if mr.read(len(text), HALF) != text.encode():
            return False
    return True


def threads_carry_traffic():
    results = []
    threads = [threading.Thread(target=lambda: results.append(carries_traffic()))
               for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results == [True] * 8


def child(queue):
    queue.put(carries_traffic())


def child_carries_traffic(method):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    result = queue.get(timeout=LIMIT_SECONDS)
    process.join()
    return result and process.exitcode == 0


def main():
    faulthandler.enable()
    results = {"process": carries_traffic(), "threads": threads_carry_traffic()}
    for method in ("fork", "spawn", "forkserver"):
        results[method] = child_carries_traffic(method)
    results["process again"] = carries_traffic()
    for name, result in results.items():
        print(name, "works" if result else "fails")
    return 0 if all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
