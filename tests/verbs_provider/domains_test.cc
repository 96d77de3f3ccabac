// Parent and thread domains, and objects of another context of the same device file.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "dpdk_nic/base/unique_fd.h"
#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {
namespace {

class DomainsTest : public ::testing::Test {
 protected:
  Td CreateThreadDomain() {
    ibv_td_init_attr attributes = {};
    return Td(ibv_alloc_td(host_.context.get(), &attributes));
  }
  Pd CreateParentDomain(ibv_pd* pd, ibv_td* td = nullptr, uint32_t mask = 0) {
    errno = 0;
    ibv_parent_domain_init_attr attributes = {};
    attributes.pd = pd;
    attributes.td = td;
    attributes.comp_mask = mask;
    return Pd(ibv_alloc_parent_domain(host_.context.get(), &attributes));
  }

  Host host_;
};

// Objects of the parent domain and of its protection domain work together.
TEST_F(DomainsTest, ParentDomainSharesTheProtectionDomain) {
  const Td td = CreateThreadDomain();
  const Pd parent = CreateParentDomain(host_.pd.get(), td.get());
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(parent->context, host_.context.get());
  const Cq cq = host_.CreateCq(16);
  ibv_qp_init_attr attributes = RcAttributes(cq.get(), cq.get());
  const Qp of_parent(ibv_create_qp(parent.get(), &attributes));
  const Qp of_original(ibv_create_qp(host_.pd.get(), &attributes));
  ASSERT_NE(of_parent, nullptr);
  ASSERT_NE(of_original, nullptr);
  EXPECT_EQ(of_parent->pd, parent.get());
  const Mr mr(ibv_reg_mr(parent.get(), host_.data(), 4'096, Host::kAllAccess));
  ASSERT_NE(mr, nullptr);
  ConnectLoopback(of_parent.get(), of_original.get());

  host_.data()[0] = 17;
  const ibv_sge source = {.addr = host_.address(0), .length = 1, .lkey = host_.mr->lkey};
  ASSERT_EQ(SendRequest(IBV_WR_RDMA_WRITE, source)
                .Remote(host_.address(100), mr->rkey)
                .Post(of_parent.get()),
            0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(host_.data()[100], 17);
}

// The device has no buffers that an allocator of the application could place.
TEST_F(DomainsTest, ParentDomainTakesAllocators) {
  constexpr uint32_t kAllowUnprotected = 1 << 2;  // ALLOW_CC_UNPROTECTED_ALLOC of release 65
  ibv_parent_domain_init_attr attributes = {};
  attributes.pd = host_.pd.get();
  attributes.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
                         IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | kAllowUnprotected;
  attributes.alloc = [](ibv_pd*, void*, size_t, size_t, uint64_t) {
    return IBV_ALLOCATOR_USE_DEFAULT;
  };
  attributes.free = [](ibv_pd*, void*, void*, uint64_t) {};
  attributes.pd_context = this;
  const Pd parent(ibv_alloc_parent_domain(host_.context.get(), &attributes));
  ASSERT_NE(parent, nullptr);
  const Cq cq = host_.CreateCq(16);
  ibv_qp_init_attr qp_attributes = RcAttributes(cq.get(), cq.get());
  EXPECT_NE(Qp(ibv_create_qp(parent.get(), &qp_attributes)), nullptr);
}

TEST_F(DomainsTest, CompletionQueueMayBeOfAParentDomain) {
  const auto create = [&](ibv_pd* pd) {
    errno = 0;
    ibv_cq_init_attr_ex attributes = {};
    attributes.cqe = 16;
    attributes.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
    attributes.parent_domain = pd;
    ibv_cq_ex* const cq = ibv_create_cq_ex(host_.context.get(), &attributes);
    return Cq(cq == nullptr ? nullptr : ibv_cq_ex_to_cq(cq));
  };
  Pd parent = CreateParentDomain(host_.pd.get());
  Cq cq = create(parent.get());
  ASSERT_NE(cq, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(parent.get()), EBUSY);
  cq.reset();
  parent.reset();

  const Host other;
  const Pd of_other_context = [&] {
    ibv_parent_domain_init_attr attributes = {};
    attributes.pd = other.pd.get();
    return Pd(ibv_alloc_parent_domain(other.context.get(), &attributes));
  }();
  for (ibv_pd* pd : {static_cast<ibv_pd*>(nullptr), host_.pd.get(), of_other_context.get()}) {
    EXPECT_EQ(create(pd), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
}

TEST_F(DomainsTest, DomainInUseIsBusy) {
  const Td td = CreateThreadDomain();
  Pd pd(ibv_alloc_pd(host_.context.get()));
  Pd parent = CreateParentDomain(pd.get(), td.get());
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
  EXPECT_EQ(ibv_dealloc_td(td.get()), EBUSY);

  Mr mr(ibv_reg_mr(parent.get(), host_.data(), 100, 0));
  EXPECT_EQ(ibv_dealloc_pd(parent.get()), EBUSY);
  mr.reset();
  parent.reset();
  pd.reset();
}

TEST_F(DomainsTest, ParentDomainMayStandForAnotherOne) {
  const Pd first = CreateParentDomain(host_.pd.get());
  const Pd second = CreateParentDomain(first.get());
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(first.get()), EBUSY);
}

class ImportTest : public DomainsTest {
 protected:
  ImportTest() : imported_(ibv_import_device(dup(host_.context->cmd_fd))) {}
  void SetUp() override { ASSERT_NE(imported_, nullptr); }

  const Context imported_;
};

TEST_F(ImportTest, ObjectsOfTheDeviceFileAreUsedByTheirHandles) {
  ibv_pd* const pd = ibv_import_pd(imported_.get(), host_.pd->handle);
  ASSERT_NE(pd, nullptr);
  EXPECT_EQ(pd->context, imported_.get());
  EXPECT_EQ(pd->handle, host_.pd->handle);
  ibv_mr* const mr = ibv_import_mr(pd, host_.mr->handle);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->pd, pd);
  EXPECT_EQ(mr->addr, nullptr);
  EXPECT_EQ(mr->length, host_.mr->length);
  EXPECT_EQ(mr->handle, host_.mr->handle);

  const Cq cq = host_.CreateCq(16);
  const Cq imported_cq(ibv_create_cq(imported_.get(), 16, nullptr, nullptr, 0));
  ibv_qp_init_attr attributes = RcAttributes(cq.get(), cq.get());
  const Qp peer(ibv_create_qp(host_.pd.get(), &attributes));
  attributes = RcAttributes(imported_cq.get(), imported_cq.get());
  const Qp qp(ibv_create_qp(pd, &attributes));
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(qp->context, imported_.get());
  ConnectLoopback(qp.get(), peer.get());
  host_.data()[0] = 17;
  const ibv_sge source = {.addr = host_.address(0), .length = 1, .lkey = mr->lkey};
  ASSERT_EQ(
      SendRequest(IBV_WR_RDMA_WRITE, source).Remote(host_.address(100), mr->rkey).Post(qp.get()),
      0);
  EXPECT_EQ(WaitForCompletion(imported_cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(host_.data()[100], 17);

  EXPECT_EQ(ibv_dealloc_pd(host_.pd.get()), EBUSY);
  // The domain stays while the queue pair uses it.
  ibv_unimport_mr(mr);
  ibv_unimport_pd(pd);
}

TEST_F(ImportTest, DeviceMemoryIsTheSame) {
  ibv_alloc_dm_attr attributes = {};
  attributes.length = 8;
  const Dm dm(ibv_alloc_dm(host_.context.get(), &attributes));
  ibv_dm* const other = ibv_import_dm(imported_.get(), dm->handle);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->context, imported_.get());
  const uint64_t number = 17;
  uint64_t seen = 0;
  ASSERT_EQ(ibv_memcpy_to_dm(dm.get(), 0, &number, sizeof number), 0);
  ASSERT_EQ(ibv_memcpy_from_dm(&seen, other, 0, sizeof seen), 0);
  EXPECT_EQ(seen, number);
  EXPECT_EQ(ibv_free_dm(dm.get()), EBUSY);
  ibv_unimport_dm(other);
}

TEST_F(ImportTest, HandleOfNoObjectIsNotFound) {
  const auto is_not_found = [](const void* object) {
    return object == nullptr && std::exchange(errno, 0) == ENOENT;
  };
  errno = 0;
  EXPECT_TRUE(is_not_found(ibv_import_pd(imported_.get(), host_.mr->handle))) << "of a region";
  EXPECT_TRUE(is_not_found(ibv_import_mr(host_.pd.get(), host_.pd->handle))) << "of a domain";
  EXPECT_TRUE(is_not_found(ibv_import_dm(imported_.get(), host_.pd->handle)));
  const Context separate = OpenUroce();
  EXPECT_TRUE(is_not_found(ibv_import_pd(separate.get(), host_.pd->handle)))
      << "of another device file";
}

// As in the kernel, where the last descriptor of the file counts.
TEST_F(ImportTest, ObjectsOutliveTheContextThatMadeThem) {
  Context first = OpenUroce();
  Context second(ibv_import_device(dup(first->cmd_fd)));
  ASSERT_NE(second, nullptr);
  // Static: nothing can destroy them once their context is closed, and they are no leak.
  static ibv_pd* pd = nullptr;
  static ibv_mr* mr = nullptr;
  pd = ibv_alloc_pd(first.get());
  mr = ibv_reg_mr(pd, host_.data(), 4'096, Host::kAllAccess);
  const uint32_t rkey = mr->rkey;
  first.reset();

  const Cq cq = host_.CreateCq(16);
  ibv_qp_init_attr attributes = RcAttributes(cq.get(), cq.get());
  ibv_pd* const imported = ibv_import_pd(second.get(), pd->handle);
  ASSERT_NE(imported, nullptr);
  const Cq own_cq(ibv_create_cq(second.get(), 16, nullptr, nullptr, 0));
  const Qp qp(ibv_create_qp(host_.pd.get(), &attributes));
  attributes = RcAttributes(own_cq.get(), own_cq.get());
  const Qp peer(ibv_create_qp(imported, &attributes));
  ConnectLoopback(qp.get(), peer.get());
  ASSERT_EQ(SendRequest(IBV_WR_RDMA_WRITE, host_.Sge(0, 1))
                .Remote(host_.address(100), rkey)
                .Post(qp.get()),
            0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
  ibv_unimport_pd(imported);
}

TEST_F(ImportTest, WhatIsNoDeviceFileCannotBeImported) {
  const nic::UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(ibv_import_device(null.get()), nullptr);
}

TEST_F(DomainsTest, WrongAttributesAreRefused) {
  const Host other;
  EXPECT_EQ(CreateParentDomain(nullptr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(CreateParentDomain(other.pd.get()), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(CreateParentDomain(host_.pd.get(), nullptr, 1 << 10), nullptr);
  EXPECT_EQ(errno, EINVAL);

  ibv_td_init_attr attributes = {.comp_mask = 1};
  EXPECT_EQ(ibv_alloc_td(host_.context.get(), &attributes), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace uroce::verbs::testing
