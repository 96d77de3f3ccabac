// Verbs find objects by their handles, as the kernel does: ENOENT if none has the handle, EINVAL if
// another object has it.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {
namespace {

constexpr uint32_t kUnusedHandle = 0xdead'beef;
constexpr ibv_srq_attr kSrqAttributes = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};

// One object of each kind that has a handle.
struct Objects {
  Objects() {
    cq = host.CreateCq(16);
    ibv_srq_init_attr srq_attributes = {nullptr, kSrqAttributes};
    srq.reset(ibv_create_srq(host.pd.get(), &srq_attributes));
    ibv_qp_init_attr qp_attributes = RcAttributes(cq.get(), cq.get());
    qp.reset(ibv_create_qp(host.pd.get(), &qp_attributes));
    mw.reset(ibv_alloc_mw(host.pd.get(), IBV_MW_TYPE_2));
    ibv_alloc_dm_attr dm_attributes = {};
    dm_attributes.length = 4'096;
    dm.reset(ibv_alloc_dm(host.context.get(), &dm_attributes));
    ibv_gid own = {};
    EXPECT_EQ(ibv_query_gid(host.context.get(), 1, 1, &own), 0);
    ibv_ah_attr address = AddressOf(own, 1);
    ah.reset(ibv_create_ah(host.pd.get(), &address));
  }

  Host host;
  Cq cq;
  Srq srq;
  Qp qp;
  Mw mw;
  Dm dm;
  Ah ah;
};

// Each verb that destroys, with the handle of its object.
struct Destroy {
  std::string name;
  uint32_t* handle;
  std::function<int()> run;
};

std::vector<Destroy> AllDestroys(const Objects& objects) {
  ibv_pd* const pd = objects.host.pd.get();
  ibv_mr* const mr = objects.host.mr.get();
  ibv_cq* const cq = objects.cq.get();
  ibv_srq* const srq = objects.srq.get();
  ibv_qp* const qp = objects.qp.get();
  ibv_mw* const mw = objects.mw.get();
  ibv_dm* const dm = objects.dm.get();
  ibv_ah* const ah = objects.ah.get();
  return {{"pd", &pd->handle, [=] { return ibv_dealloc_pd(pd); }},
          {"mr", &mr->handle, [=] { return ibv_dereg_mr(mr); }},
          {"cq", &cq->handle, [=] { return ibv_destroy_cq(cq); }},
          {"srq", &srq->handle, [=] { return ibv_destroy_srq(srq); }},
          {"qp", &qp->handle, [=] { return ibv_destroy_qp(qp); }},
          {"mw", &mw->handle, [=] { return ibv_dealloc_mw(mw); }},
          {"dm", &dm->handle, [=] { return ibv_free_dm(dm); }},
          {"ah", &ah->handle, [=] { return ibv_destroy_ah(ah); }}};
}

// Runs `f` while `handle` has another value.
template <class F>
void With(uint32_t& handle, uint32_t value, F f) {
  const uint32_t own = std::exchange(handle, value);
  f();
  handle = own;
}

TEST(HandlesTest, EachObjectHasItsOwn) {
  const Objects first;
  std::set<uint32_t> handles;
  for (const Destroy& destroy : AllDestroys(first)) {
    EXPECT_NE(*destroy.handle, 0u) << destroy.name;
    EXPECT_TRUE(handles.insert(*destroy.handle).second) << destroy.name;
  }
  const Pd second(ibv_alloc_pd(first.host.context.get()));
  EXPECT_TRUE(handles.insert(second->handle).second);
}

TEST(HandlesTest, UnknownHandleIsNotFound) {
  const Objects objects;
  for (const Destroy& destroy : AllDestroys(objects)) {
    With(*destroy.handle, kUnusedHandle, [&] {
      errno = 0;
      EXPECT_EQ(destroy.run(), ENOENT) << destroy.name;
      EXPECT_EQ(errno, ENOENT) << destroy.name;
    });
  }
}

TEST(HandlesTest, HandleOfAnotherObjectIsInvalid) {
  const Objects objects;
  const Pd pd(ibv_alloc_pd(objects.host.context.get()));
  for (const Destroy& destroy : AllDestroys(objects)) {
    With(*destroy.handle, pd->handle, [&] { EXPECT_EQ(destroy.run(), EINVAL) << destroy.name; });
  }
}

TEST(HandlesTest, CopyOfADestroyedObjectIsNotFound) {
  const Host host;
  ibv_pd* const pd = ibv_alloc_pd(host.context.get());
  ibv_pd pd_copy = *pd;
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_dealloc_pd(&pd_copy), ENOENT);

  ibv_mw* const mw = ibv_alloc_mw(host.pd.get(), IBV_MW_TYPE_2);
  ibv_mw mw_copy = *mw;
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
  EXPECT_EQ(ibv_dealloc_mw(&mw_copy), ENOENT);
}

TEST(HandlesTest, NothingIsMadeWithAnUnknownObject) {
  Objects objects;
  ibv_pd* const pd = objects.host.pd.get();
  const auto create_qp = [&](ibv_cq* send_cq, ibv_cq* receive_cq, ibv_srq* srq) {
    ibv_qp_init_attr attributes = RcAttributes(send_cq, receive_cq);
    attributes.srq = srq;
    errno = 0;
    return ibv_create_qp(pd, &attributes);
  };
  const auto expect_not_found = [](const void* object, const char* what) {
    EXPECT_EQ(object, nullptr) << what;
    EXPECT_EQ(errno, ENOENT) << what;
  };
  ibv_cq* const cq = objects.cq.get();
  const Cq other = objects.host.CreateCq(16);
  With(pd->handle, kUnusedHandle, [&] {
    expect_not_found(create_qp(cq, cq, nullptr), "qp");
    expect_not_found(ibv_reg_mr(pd, objects.host.data(), 100, 0), "mr");
    expect_not_found(ibv_alloc_null_mr(pd), "null mr");
    expect_not_found(ibv_alloc_mw(pd, IBV_MW_TYPE_1), "mw");
    ibv_srq_init_attr attributes = {nullptr, kSrqAttributes};
    expect_not_found(ibv_create_srq(pd, &attributes), "srq");
    ibv_ah_attr address = {};
    expect_not_found(ibv_create_ah(pd, &address), "ah");
  });
  With(other->handle, kUnusedHandle, [&] {
    expect_not_found(create_qp(other.get(), cq, nullptr), "qp, send_cq");
    expect_not_found(create_qp(cq, other.get(), nullptr), "qp, recv_cq");
  });
  With(objects.srq->handle, kUnusedHandle,
       [&] { expect_not_found(create_qp(cq, cq, objects.srq.get()), "qp, srq"); });
  With(objects.dm->handle, kUnusedHandle, [&] {
    expect_not_found(ibv_reg_dm_mr(pd, objects.dm.get(), 0, 100, IBV_ACCESS_ZERO_BASED), "dm mr");
  });
}

TEST(HandlesTest, NothingChangesInAnUnknownObject) {
  Objects objects;
  With(objects.qp->handle, kUnusedHandle, [&] {
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_ERR;
    ibv_qp_init_attr init;
    const ibv_gid group = {};
    EXPECT_EQ(ibv_modify_qp(objects.qp.get(), &attributes, IBV_QP_STATE), ENOENT);
    EXPECT_EQ(ibv_query_qp(objects.qp.get(), &attributes, IBV_QP_STATE, &init), ENOENT);
    EXPECT_EQ(ibv_attach_mcast(objects.qp.get(), &group, 0), ENOENT);
  });
  With(objects.srq->handle, kUnusedHandle, [&] {
    ibv_srq_attr attributes = {};
    EXPECT_EQ(ibv_modify_srq(objects.srq.get(), &attributes, IBV_SRQ_LIMIT), ENOENT);
    EXPECT_EQ(ibv_query_srq(objects.srq.get(), &attributes), ENOENT);
  });
  With(objects.cq->handle, kUnusedHandle, [&] {
    EXPECT_EQ(ibv_resize_cq(objects.cq.get(), 32), ENOENT);
    EXPECT_EQ(ibv_req_notify_cq(objects.cq.get(), 0), ENOENT);
  });
  With(objects.host.mr->handle, kUnusedHandle, [&] {
    EXPECT_EQ(ibv_rereg_mr(objects.host.mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                           Host::kAllAccess),
              IBV_REREG_MR_ERR_CMD);
    EXPECT_EQ(errno, ENOENT);
  });
}

}  // namespace
}  // namespace uroce::verbs::testing
