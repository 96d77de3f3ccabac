"""A virtual machine with Linux rdma_rxe: the peer of the interop tests."""
