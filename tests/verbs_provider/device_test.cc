// Queries of the device through the genuine libibverbs.
#include <endian.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <link.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <span>
#include <string_view>

#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {
namespace {

TEST(DeviceTest, AttributesAreTheLimitsThatAreEnforced) {
  const Host host;
  ibv_device_attr attr;
  ASSERT_EQ(ibv_query_device(host.context.get(), &attr), 0);
  EXPECT_GT(std::strlen(attr.fw_ver), 0u);
  EXPECT_EQ(attr.node_guid, ibv_get_device_guid(host.context->device));
  EXPECT_EQ(attr.sys_image_guid, attr.node_guid);
  EXPECT_EQ(attr.phys_port_cnt, 1);
  EXPECT_EQ(attr.atomic_cap, IBV_ATOMIC_HCA);
  EXPECT_EQ(attr.max_pkeys, 1);
  EXPECT_EQ(attr.max_sge, 32);
  EXPECT_TRUE((attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0);
  EXPECT_TRUE((attr.device_cap_flags & IBV_DEVICE_XRC) != 0);
  EXPECT_TRUE((attr.device_cap_flags & IBV_DEVICE_PORT_ACTIVE_EVENT) != 0);

  EXPECT_EQ(ibv_create_cq(host.context.get(), attr.max_cqe + 1, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  const Cq largest(ibv_create_cq(host.context.get(), attr.max_cqe, nullptr, nullptr, 0));
  EXPECT_NE(largest, nullptr);
}

TEST(DeviceTest, ExtendedAttributesContainTheBasicOnes) {
  const Host host;
  ibv_device_attr basic;
  ibv_device_attr_ex extended;
  std::memset(&extended, 0xee, sizeof extended);
  ASSERT_EQ(ibv_query_device(host.context.get(), &basic), 0);
  ASSERT_EQ(ibv_query_device_ex(host.context.get(), nullptr, &extended), 0);
  EXPECT_EQ(std::memcmp(&basic, &extended.orig_attr, sizeof basic), 0);
  EXPECT_EQ(extended.phys_port_cnt_ex, 1u);
  // FLUSH of global visibility and ATOMIC WRITE, not of persistence: IB_UVERBS_DEVICE_*.
  EXPECT_EQ(extended.device_cap_flags_ex, basic.device_cap_flags | 1ull << 38 | 1ull << 40);
  EXPECT_EQ(extended.completion_timestamp_mask, UINT64_MAX);
  EXPECT_EQ(extended.hca_core_clock, 1'000'000u);
  EXPECT_EQ(extended.cq_mod_caps.max_cq_count, UINT16_MAX);
  EXPECT_EQ(extended.cq_mod_caps.max_cq_period, UINT16_MAX);
  EXPECT_EQ(extended.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);

  const ibv_query_device_ex_input unknown = {.comp_mask = 1};
  EXPECT_EQ(ibv_query_device_ex(host.context.get(), &unknown, &extended), EINVAL);
}

TEST(DeviceTest, ShortAttributesAreNotWrittenBeyondTheirEnd) {
  const Host host;
  struct {
    ibv_device_attr attr;
    std::array<uint8_t, 256> behind;
  } caller;
  caller.behind.fill(0xee);
  ASSERT_EQ(ibv_query_device(host.context.get(), &caller.attr), 0);
  for (const uint8_t byte : caller.behind) ASSERT_EQ(byte, 0xee);
}

TEST(DeviceTest, PortIsActiveEthernet) {
  const Host host;
  ibv_port_attr attr;
  ASSERT_EQ(ibv_query_port(host.context.get(), 1, &attr), 0);
  EXPECT_EQ(attr.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(attr.max_mtu, IBV_MTU_4096);
  EXPECT_EQ(attr.active_mtu, IBV_MTU_4096);
  EXPECT_EQ(attr.max_msg_sz, 1u << 31);
  EXPECT_EQ(attr.pkey_tbl_len, 1);
  EXPECT_EQ(attr.gid_tbl_len, 256);
  EXPECT_EQ(attr.lid, 0);
  EXPECT_EQ(ibv_query_port(host.context.get(), 0, &attr), EINVAL);
  EXPECT_EQ(ibv_query_port(host.context.get(), 2, &attr), EINVAL);
}

TEST(DeviceTest, GidTableHasTheLinkLocalGidAndTheAddress) {
  const Host host;
  ibv_gid gid;
  ASSERT_EQ(ibv_query_gid(host.context.get(), 1, 0, &gid), 0);
  EXPECT_EQ(be64toh(gid.global.subnet_prefix), 0xfe80'0000'0000'0000u);
  EXPECT_EQ(gid.global.interface_id, ibv_get_device_guid(host.context->device));

  ASSERT_EQ(ibv_query_gid(host.context.get(), 1, 1, &gid), 0);
  constexpr uint8_t kLoopback[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  EXPECT_EQ(std::memcmp(gid.raw, kLoopback, sizeof kLoopback), 0);
  constexpr uint8_t kFree[16] = {};
  ASSERT_EQ(ibv_query_gid(host.context.get(), 1, 2, &gid), 0);
  EXPECT_EQ(std::memcmp(gid.raw, kFree, sizeof kFree), 0);
  EXPECT_NE(ibv_query_gid(host.context.get(), 1, 256, &gid), 0);
}

TEST(DeviceTest, GidTableIsReadAtOnce) {
  const Host host;
  ibv_gid_entry table[4] = {};
  ASSERT_EQ(ibv_query_gid_table(host.context.get(), table, std::size(table), 0), 2);
  for (uint32_t index = 0; index < 2; ++index) {
    ibv_gid gid;
    ASSERT_EQ(ibv_query_gid(host.context.get(), 1, static_cast<int>(index), &gid), 0);
    EXPECT_EQ(std::memcmp(table[index].gid.raw, gid.raw, sizeof gid.raw), 0);
    EXPECT_EQ(table[index].gid_index, index);
    EXPECT_EQ(table[index].port_num, 1u);
    EXPECT_EQ(table[index].gid_type, uint32_t{IBV_GID_TYPE_ROCE_V2});
    EXPECT_EQ(table[index].ndev_ifindex, 1u);  // lo, which has the address of GID 1
  }
  EXPECT_EQ(ibv_query_gid_table(host.context.get(), table, 1, 0), -EINVAL);  // too short
  EXPECT_EQ(ibv_query_gid_table(host.context.get(), table, std::size(table), 1), -EINVAL);
  ibv_gid_entry entry;
  EXPECT_EQ(ibv_query_gid_ex(host.context.get(), 1, 1, &entry, 0), 0);
  EXPECT_EQ(ibv_query_gid_ex(host.context.get(), 1, 1, &entry, 1), EINVAL);
  EXPECT_EQ(ibv_query_gid_ex(host.context.get(), 1, 2, &entry, 0), ENODATA);
  EXPECT_EQ(ibv_query_gid_ex(host.context.get(), 1, 256, &entry, 0), EINVAL);
  EXPECT_EQ(ibv_query_gid_ex(host.context.get(), 2, 0, &entry, 0), EINVAL);
}

TEST(DeviceTest, PkeyTableHasTheDefaultPartition) {
  const Host host;
  __be16 pkey = 0;
  ASSERT_EQ(ibv_query_pkey(host.context.get(), 1, 0, &pkey), 0);
  EXPECT_EQ(be16toh(pkey), 0xffff);
  EXPECT_NE(ibv_query_pkey(host.context.get(), 1, 1, &pkey), 0);
  EXPECT_EQ(ibv_get_pkey_index(host.context.get(), 1, htobe16(0xffff)), 0);
  EXPECT_EQ(ibv_get_pkey_index(host.context.get(), 1, htobe16(0x8001)), -1);
}

TEST(DeviceTest, OpensOften) {
  const Context first = OpenUroce();
  for (int i = 0; i < 10; ++i) {
    const Context another = OpenUroce();
    EXPECT_NE(another, nullptr);
  }
  ibv_device_attr attr;
  EXPECT_EQ(ibv_query_device(first.get(), &attr), 0);
}

TEST(DeviceTest, ContextsShareOneMemberOfTheFabric) {
  Host first, second;
  const Cq cqs[] = {first.CreateCq(1), second.CreateCq(1)};
  ibv_qp_init_attr attributes[] = {RcAttributes(cqs[0].get(), cqs[0].get()),
                                   RcAttributes(cqs[1].get(), cqs[1].get())};
  const Qp qps[] = {Qp(ibv_create_qp(first.pd.get(), &attributes[0])),
                    Qp(ibv_create_qp(second.pd.get(), &attributes[1]))};
  ASSERT_TRUE(qps[0] != nullptr && qps[1] != nullptr);
  constexpr uint32_t kQpsOfAProcess = 16'384;
  EXPECT_EQ(qps[0]->qp_num / kQpsOfAProcess, qps[1]->qp_num / kQpsOfAProcess);
}

// A program leaves the destruction of everything to ibv_close_device: nothing may access its memory
// after that.
TEST(DeviceTest, ClosingTheDeviceEndsItsQueuePairs) {
  Host host;
  const Cq cq = host.CreateCq(16);
  ibv_qp_init_attr attr = RcAttributes(cq.get(), cq.get());
  const Qp qp(ibv_create_qp(host.pd.get(), &attr));
  ASSERT_NE(qp, nullptr);

  Host leaving;
  Cq left_cq = leaving.CreateCq(16);
  attr = RcAttributes(left_cq.get(), left_cq.get());
  Qp left_qp(ibv_create_qp(leaving.pd.get(), &attr));
  ASSERT_NE(left_qp, nullptr);
  ConnectOptions options;
  options.timeout = 8;  // 1 ms
  options.retry_count = 1;
  ConnectLoopback(qp.get(), left_qp.get(), options);

  SendRequest before(IBV_WR_RDMA_WRITE, host.Sge(0, 8));
  ASSERT_EQ(before.Remote(leaving.address(), leaving.mr->rkey).Post(qp.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);

  const uint32_t rkey = leaving.mr->rkey;
  // The structs stay: the program may still point to them.
  static const std::array<void*, 4> left_behind = {left_qp.release(), left_cq.release(),
                                                   leaving.mr.release(), leaving.pd.release()};
  ASSERT_NE(left_behind[0], nullptr);
  leaving.context.reset();
  SendRequest after(IBV_WR_RDMA_WRITE, host.Sge(0, 8));
  ASSERT_EQ(after.Remote(leaving.address(), rkey).Post(qp.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_RETRY_EXC_ERR);
}

TEST(DeviceTest, AddressHandleIsChecked) {
  Host host;
  ibv_ah_attr attr = {};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.sgid_index = 1;
  ASSERT_EQ(ibv_query_gid(host.context.get(), 1, 1, &attr.grh.dgid), 0);
  const Ah ah(ibv_create_ah(host.pd.get(), &attr));
  ASSERT_NE(ah, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(host.pd.get()), EBUSY);

  const auto refused = [&](ibv_ah_attr wrong) {
    errno = 0;
    return ibv_create_ah(host.pd.get(), &wrong) == nullptr && errno == EINVAL;
  };
  ibv_ah_attr wrong = attr;
  wrong.is_global = 0;
  EXPECT_TRUE(refused(wrong));
  wrong = attr;
  wrong.port_num = 2;
  EXPECT_TRUE(refused(wrong));
  wrong = attr;
  ibv_gid ipv6;
  ASSERT_EQ(ibv_query_gid(host.context.get(), 1, 0, &ipv6), 0);
  for (const ibv_gid& destination : {attr.grh.dgid, ipv6}) {  // one matches any GID read there
    for (const int index : {2, 3, 255}) {
      wrong.grh.dgid = destination;
      wrong.grh.sgid_index = static_cast<uint8_t>(index);
      EXPECT_TRUE(refused(wrong)) << index;
    }
  }
  wrong = attr;
  wrong.grh.sgid_index = 0;  // IPv6 here, IPv4 there
  EXPECT_TRUE(refused(wrong));
  wrong = attr;
  wrong.grh.dgid = {};
  EXPECT_TRUE(refused(wrong));
  wrong.grh.sgid_index = 0;
  EXPECT_TRUE(refused(wrong));
}

// Thread-local memory that is accessed without a call (static TLS) comes from the dynamic linker's
// reserve for all libraries that a program loads late: some 1,600 bytes.
TEST(DeviceTest, ProviderTakesLittleOfTheThreadLocalMemoryForLateLibraries) {
  const Host host;
  size_t bytes = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        if (!std::string_view(info->dlpi_name).ends_with("/liburoce-provider.so")) return 0;
        for (const ElfW(Phdr) & segment : std::span(info->dlpi_phdr, info->dlpi_phnum)) {
          if (segment.p_type == PT_TLS) *static_cast<size_t*>(out) = segment.p_memsz;
        }
        return 0;
      },
      &bytes);
  EXPECT_GT(bytes, 0u);
  EXPECT_LE(bytes, 128u);
}

}  // namespace
}  // namespace uroce::verbs::testing
