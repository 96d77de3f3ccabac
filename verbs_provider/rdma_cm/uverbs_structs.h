#pragma once

#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include "transport/address.h"
#include "transport/cm/parameters.h"
#include "transport/qp_attributes.h"

// Structs of the transport as the kernel's ABI has them (ib_copy_*_to_user of Linux).
namespace uroce::verbs::rdma_cm {

ib_uverbs_ah_attr ToUser(const transport::AddressVector& address);
ib_uverbs_qp_attr ToUser(const transport::QpAttributes& attributes, uint32_t mask);
ib_user_path_rec ToUser(const transport::cm::Path& path);
// As ib_sa_pack_path has it: the PathRecord attribute of the specification, 64 bytes.
ib_path_rec_data ToPathRecord(const transport::cm::Path& path);

}  // namespace uroce::verbs::rdma_cm
