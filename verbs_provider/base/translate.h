#pragma once

#include <infiniband/verbs.h>

#include "transport/access.h"
#include "transport/address.h"
#include "transport/completion.h"
#include "transport/ids.h"
#include "transport/qp_attributes.h"

// Translates between the structs of verbs and those of the transport. The transport's enumerations
// have the values of verbs on purpose (translate.cc proves it at compile time), so that each value
// is copied as a number.
namespace uroce::verbs {

// Passes on the flags that the transport ignores, too: hints, on-demand paging.
transport::AccessFlags ToAccessFlags(unsigned int ibv_access_flags);

transport::QpCapabilities ToCapabilities(const ibv_qp_cap& cap);
ibv_qp_cap FromCapabilities(const transport::QpCapabilities& capabilities);

transport::Gid ToGid(const ibv_gid& gid);

// Leaves out the neighbour's Ethernet address, which has to be resolved.
transport::AddressVector ToAddressVector(const ibv_ah_attr& attr);
ibv_ah_attr FromAddressVector(const transport::AddressVector& address);

// Reads only the fields that `mask` names; the others stay zero.
transport::QpAttributes ToQpAttributes(const ibv_qp_attr& attr, uint32_t mask);
ibv_qp_attr FromQpAttributes(const transport::QpAttributes& attributes);

// Fills every member of `*wc`.
inline void FromCompletion(const transport::Completion& completion, ibv_wc* wc) {
  wc->wr_id = completion.wr_id;
  wc->status = static_cast<ibv_wc_status>(completion.status);
  wc->opcode = static_cast<ibv_wc_opcode>(completion.opcode);
  wc->vendor_err = static_cast<uint32_t>(completion.vendor_error);
  wc->byte_len = completion.byte_length;
  wc->imm_data = completion.immediate_or_rkey;
  wc->qp_num = completion.qpn.value;
  wc->src_qp = completion.source_qpn.value;
  wc->wc_flags = completion.flags;
  wc->pkey_index = 0;
  wc->slid = 0;
  wc->sl = static_cast<uint8_t>(completion.datagram_ip);
  wc->dlid_path_bits = 0;
}

}  // namespace uroce::verbs
