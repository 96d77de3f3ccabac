#include "transport/memory/memory_table.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "transport/limits.h"

namespace uroce::transport {
namespace {

constexpr PdId kPd{1};
constexpr PdId kOtherPd{2};
constexpr Qpn kQpn{0x100};
constexpr Qpn kOtherQpn{0x101};
constexpr uint32_t kNoAccess = 0;
constexpr uint32_t kLocalWrite = AccessFlags::kLocalWrite;
constexpr uint32_t kRemoteRead = AccessFlags::kRemoteRead;
constexpr uint32_t kRemoteWrite = AccessFlags::kRemoteWrite;
constexpr uint32_t kRemoteAtomic = AccessFlags::kRemoteAtomic;
constexpr uint32_t kWindowBind = AccessFlags::kWindowBind;
constexpr uint32_t kZeroBased = AccessFlags::kZeroBased;
constexpr uint32_t kEverything =
    kLocalWrite | kRemoteRead | kRemoteWrite | kRemoteAtomic | kWindowBind;

class MemoryTableTest : public testing::Test {
 protected:
  MemoryRegion Region(uint64_t iova, uint64_t length, uint32_t access) {
    return {.pd = kPd,
            .iova = iova,
            .host_address = bytes_.data(),
            .length = length,
            .access = AccessFlags(access)};
  }
  LKey Register(uint64_t iova, uint64_t length, uint32_t access) {
    return table_.Register(Region(iova, length, access)).value();
  }
  uint8_t* Local(LKey key, uint64_t address, uint64_t length, uint32_t wanted = kNoAccess) {
    return table_.LocalAddress(kPd, key, address, length, wanted);
  }
  uint8_t* Remote(RKey key, uint64_t address, uint64_t length, uint32_t wanted, Qpn qpn = kQpn) {
    return table_.RemoteAddress(kPd, qpn, key, address, length, wanted);
  }
  static RKey AsRKey(LKey key) { return RKey{key.value}; }
  // ibv_inc_rkey.
  static RKey Next(RKey key) { return RKey{(key.value & ~0xffu) | ((key.value + 1) & 0xff)}; }

  std::array<uint8_t, 4096> bytes_;
  MemoryTable table_;
};

TEST_F(MemoryTableTest, AddressIsTranslated) {
  const LKey key = Register(0x10000, 4096, kLocalWrite);
  EXPECT_EQ(bytes_.data(), Local(key, 0x10000, 4096));
  EXPECT_EQ(bytes_.data() + 5, Local(key, 0x10005, 1));
  EXPECT_EQ(bytes_.data() + 4095, Local(key, 0x10fff, 1));
  EXPECT_EQ(bytes_.data() + 4096, Local(key, 0x11000, 0));  // no bytes, right at the end
}

TEST_F(MemoryTableTest, NothingOutsideTheRegionIsReached) {
  const LKey key = Register(0x10000, 4096, kLocalWrite);
  EXPECT_EQ(nullptr, Local(key, 0xffff, 1));
  EXPECT_EQ(nullptr, Local(key, 0xffff, 2));
  EXPECT_EQ(nullptr, Local(key, 0x11000, 1));
  EXPECT_EQ(nullptr, Local(key, 0x10fff, 2));
  EXPECT_EQ(nullptr, Local(key, 0x10000, 4097));
  EXPECT_EQ(nullptr, Local(key, 0x11001, 0));
}

TEST_F(MemoryTableTest, SumsThatOverflow64BitsAreNotInTheRegion) {
  const LKey key = Register(0x10000, 4096, kLocalWrite);
  EXPECT_EQ(nullptr, Local(key, 0x10001, UINT64_MAX));
  EXPECT_EQ(nullptr, Local(key, 0x10000, UINT64_MAX));
  EXPECT_EQ(nullptr, Local(key, UINT64_MAX, 0x10002));
  EXPECT_EQ(nullptr, Local(key, UINT64_MAX, UINT64_MAX));

  // A region at the very top of the address space.
  const LKey top = Register(UINT64_MAX - 15, 16, kLocalWrite);
  EXPECT_EQ(bytes_.data() + 15, Local(top, UINT64_MAX, 1));
  EXPECT_EQ(nullptr, Local(top, UINT64_MAX, 2));
  EXPECT_EQ(nullptr, Local(top, 0, 1));
}

TEST_F(MemoryTableTest, OtherProtectionDomainIsRefused) {
  const LKey key = Register(0, 100, kEverything);
  EXPECT_EQ(nullptr, table_.LocalAddress(kOtherPd, key, 0, 1, kNoAccess));
  EXPECT_EQ(nullptr, table_.RemoteAddress(kOtherPd, kQpn, AsRKey(key), 0, 1, kRemoteRead));
}

TEST_F(MemoryTableTest, EveryAccessMustHaveBeenGranted) {
  constexpr uint32_t kFlags[] = {kLocalWrite, kRemoteRead, kRemoteWrite, kRemoteAtomic};
  for (const uint32_t granted : kFlags) {
    const LKey key = Register(0, 100, granted);
    EXPECT_NE(nullptr, Local(key, 0, 1, kNoAccess));
    for (const uint32_t wanted : kFlags) {
      EXPECT_EQ(wanted == granted, Local(key, 0, 1, wanted) != nullptr);
      EXPECT_EQ(wanted == granted, Remote(AsRKey(key), 0, 1, wanted) != nullptr);
    }
    EXPECT_EQ(nullptr, Remote(AsRKey(key), 0, 1, kLocalWrite | kRemoteRead));
  }
}

TEST_F(MemoryTableTest, KeysThatWereNeverGivenAreRefused) {
  const LKey key = Register(0, 100, kEverything);
  for (const uint32_t wrong : {0u, 1u, 0xffu, key.value + 1, key.value - 1, key.value ^ 0x80,
                               key.value + 0x100, 0x7fffffffu, 0xffffffffu}) {
    EXPECT_EQ(nullptr, Local(LKey{wrong}, 0, 1)) << wrong;
    EXPECT_EQ(nullptr, Remote(RKey{wrong}, 0, 1, kRemoteRead)) << wrong;
    EXPECT_EQ(Status::kInvalidArgument, table_.Deregister(LKey{wrong})) << wrong;
    EXPECT_EQ(Status::kInvalidArgument, table_.Reregister(LKey{wrong}, Region(0, 1, 0))) << wrong;
  }
}

TEST_F(MemoryTableTest, KeyIsStaleAfterDeregistration) {
  const LKey key = Register(0, 100, kEverything);
  ASSERT_EQ(Status::kOk, table_.Deregister(key));
  EXPECT_EQ(nullptr, Local(key, 0, 1));
  EXPECT_EQ(Status::kInvalidArgument, table_.Deregister(key));
}

TEST_F(MemoryTableTest, StaleKeyStaysStaleWhenItsSlotIsReused) {
  const LKey stale = Register(0, 100, kEverything);
  ASSERT_EQ(Status::kOk, table_.Deregister(stale));
  for (int i = 0; i < 100'000; ++i) {
    const LKey key = Register(0, 100, kEverything);
    ASSERT_EQ(nullptr, Local(stale, 0, 1));
    ASSERT_EQ(Status::kOk, table_.Deregister(key));
  }
}

TEST_F(MemoryTableTest, KeysFollowFromTheSeedAlone) {
  MemoryTable a({1, 2}), same({1, 2}), other({1, 3});
  for (int i = 0; i < 100; ++i) {
    const LKey key = a.Register(Region(0, 1, kLocalWrite)).value();
    EXPECT_EQ(key, same.Register(Region(0, 1, kLocalWrite)).value());
    EXPECT_NE(key, other.Register(Region(0, 1, kLocalWrite)).value());
  }
}

// Every bit of a key is 0 or 1 with equal chance, however few keys there are.
TEST_F(MemoryTableTest, EveryBitOfAKeyIsRandom) {
  constexpr int kKeys = 1'000;
  std::array<int, 32> ones{};
  for (int i = 0; i < kKeys; ++i) {
    const LKey key = Register(0, 1, kLocalWrite);
    for (size_t bit = 0; bit < ones.size(); ++bit) ones[bit] += key.value >> bit & 1;
    ASSERT_EQ(Status::kOk, table_.Deregister(key));
  }
  for (const int count : ones) {
    EXPECT_GT(count, kKeys * 2 / 5);
    EXPECT_LT(count, kKeys * 3 / 5);
  }
}

TEST_F(MemoryTableTest, KeyOfTheCallersChoiceIsHadOnce) {
  const LKey wanted{0x1234'5678};
  ASSERT_TRUE(table_.RegisterAs(wanted, Region(0, 100, kLocalWrite)));
  EXPECT_EQ(bytes_.data(), Local(wanted, 0, 100, kLocalWrite));
  EXPECT_FALSE(table_.RegisterAs(wanted, Region(0, 100, kLocalWrite)));
  EXPECT_EQ(Status::kOk, table_.Deregister(wanted));
  EXPECT_TRUE(table_.RegisterAs(wanted, Region(0, 100, kLocalWrite)));
}

// Keys that share a slot make the table grow until they do not.
TEST_F(MemoryTableTest, KeysThatDifferInOneHighBitDoNotMeet) {
  const LKey low{0x0000'1200};
  const LKey high{0x0100'1200};
  ASSERT_TRUE(table_.RegisterAs(low, Region(0, 1, kLocalWrite)));
  ASSERT_TRUE(table_.RegisterAs(high, Region(1, 1, kLocalWrite)));
  EXPECT_NE(nullptr, Local(low, 0, 1));
  EXPECT_EQ(nullptr, Local(low, 1, 1));
  EXPECT_NE(nullptr, Local(high, 1, 1));
}

TEST_F(MemoryTableTest, TableIsFullAtItsLimitAndUsableAfterwards) {
  std::vector<LKey> keys;
  while (const std::optional<LKey> key = table_.Register(Region(keys.size(), 1, kLocalWrite))) {
    keys.push_back(*key);
  }
  EXPECT_EQ(kMaxMemoryRegions, keys.size());
  EXPECT_EQ(kMaxMemoryRegions, table_.regions_in_use());
  EXPECT_FALSE(table_.AllocateWindow(kPd, WindowType::kType1));
  for (size_t i = 0; i < keys.size(); i += 4'099) EXPECT_NE(nullptr, Local(keys[i], i, 1));
  ASSERT_EQ(Status::kOk, table_.Deregister(keys[12'345]));
  EXPECT_EQ(kMaxMemoryRegions - 1, table_.regions_in_use());
  const std::optional<LKey> again = table_.Register(Region(7, 1, kLocalWrite));
  ASSERT_TRUE(again);
  EXPECT_NE(keys[12'345], *again);
  EXPECT_NE(nullptr, Local(*again, 7, 1));
}

TEST_F(MemoryTableTest, ReregisteringKeepsTheKeyAndReplacesTheRest) {
  const LKey key = Register(0x1000, 100, kLocalWrite);
  ASSERT_EQ(Status::kOk, table_.Reregister(key, Region(0x2000, 50, kRemoteRead)));
  EXPECT_EQ(nullptr, Local(key, 0x1000, 1));
  EXPECT_EQ(nullptr, Local(key, 0x2000, 1, kLocalWrite));
  EXPECT_EQ(nullptr, Local(key, 0x2000, 51));
  EXPECT_EQ(bytes_.data(), Remote(AsRKey(key), 0x2000, 50, kRemoteRead));
  EXPECT_EQ(1u, table_.regions_in_use());
}

TEST_F(MemoryTableTest, NullRegionIsForLocalAccessesAlone) {
  const LKey key = table_.RegisterNull(kPd).value();
  EXPECT_TRUE(table_.IsNull(key));
  uint8_t* const to = Local(key, 0x1234, 100, kLocalWrite);
  ASSERT_NE(nullptr, to);
  *to = 7;
  const uint8_t* const from = Local(key, UINT64_MAX, 4'096);
  ASSERT_NE(nullptr, from);
  EXPECT_EQ(0, *from);
  EXPECT_EQ(nullptr, table_.LocalAddress(kOtherPd, key, 0, 1, kNoAccess));
  EXPECT_EQ(nullptr, table_.RemoteAddress(kPd, kQpn, RKey{key.value}, 0, 1, kNoAccess));
  EXPECT_EQ(Status::kInvalidArgument, table_.Reregister(key, Region(0, 1, kNoAccess)));
  EXPECT_EQ(1u, table_.regions_in_use());
  EXPECT_EQ(Status::kOk, table_.Deregister(key));
  EXPECT_EQ(0u, table_.regions_in_use());
  EXPECT_EQ(nullptr, Local(key, 0, 1));
  EXPECT_FALSE(table_.IsNull(key));
}

class MemoryWindowTest : public MemoryTableTest, public testing::WithParamInterface<WindowType> {
 protected:
  bool is_type_1() const { return GetParam() == WindowType::kType1; }
  MemoryTable::Binding Bytes(uint64_t address, uint64_t length, uint32_t access = kRemoteRead) {
    return {.region = region_, .address = address, .length = length, .access = AccessFlags(access)};
  }
  // Binds the window of this test to its next key.
  Status Bind(const MemoryTable::Binding& binding) {
    const RKey next = Next(window_);
    const Status status = table_.BindWindow(kPd, kQpn, window_, next, binding);
    if (status == Status::kOk) window_ = next;
    return status;
  }

  LKey region_ = Register(0x1000, 4096, kEverything);
  RKey window_ = table_.AllocateWindow(kPd, GetParam()).value();
};

TEST_P(MemoryWindowTest, UnboundWindowOpensNothing) {
  EXPECT_EQ(nullptr, Remote(window_, 0, 0, kNoAccess));
  EXPECT_EQ(nullptr, Remote(window_, 0x1000, 1, kRemoteRead));
  EXPECT_EQ(1u, table_.regions_in_use());  // windows are not regions
}

TEST_P(MemoryWindowTest, BoundWindowOpensItsRangeWithItsAccess) {
  ASSERT_EQ(Status::kOk, Bind(Bytes(0x1100, 0x80, kRemoteWrite)));
  EXPECT_EQ(bytes_.data() + 0x100, Remote(window_, 0x1100, 0x80, kRemoteWrite));
  EXPECT_EQ(bytes_.data() + 0x17f, Remote(window_, 0x117f, 1, kRemoteWrite));
  EXPECT_EQ(nullptr, Remote(window_, 0x10ff, 1, kRemoteWrite));
  EXPECT_EQ(nullptr, Remote(window_, 0x1180, 1, kRemoteWrite));
  EXPECT_EQ(nullptr, Remote(window_, 0x1100, 1, kRemoteRead));  // denied by the window alone
  EXPECT_EQ(nullptr, Local(LKey{window_.value}, 0x1100, 1));    // an rkey is no lkey
  EXPECT_EQ(nullptr, table_.RemoteAddress(kOtherPd, kQpn, window_, 0x1100, 1, kRemoteWrite));
}

// IBA 10.6.7.2.4: the binding moves to the new key.
TEST_P(MemoryWindowTest, OldKeyIsStaleAfterBinding) {
  const RKey old = window_;
  ASSERT_EQ(Status::kOk, Bind(Bytes(0x1000, 16)));
  EXPECT_EQ(nullptr, Remote(old, 0x1000, 1, kRemoteRead));
  EXPECT_NE(nullptr, Remote(window_, 0x1000, 1, kRemoteRead));
}

TEST_P(MemoryWindowTest, OnlyType2IsTiedToItsQp) {
  ASSERT_EQ(Status::kOk, Bind(Bytes(0x1000, 16)));
  EXPECT_NE(nullptr, Remote(window_, 0x1000, 1, kRemoteRead, kQpn));
  EXPECT_EQ(is_type_1(), Remote(window_, 0x1000, 1, kRemoteRead, kOtherQpn) != nullptr);
}

// IBA o10-37.2.30.
TEST_P(MemoryWindowTest, SecondBindingReplacesTheFirstForType1Only) {
  ASSERT_EQ(Status::kOk, Bind(Bytes(0x1000, 16)));
  EXPECT_EQ(is_type_1() ? Status::kOk : Status::kInvalidArgument, Bind(Bytes(0x1020, 16)));
  EXPECT_EQ(is_type_1(), Remote(window_, 0x1020, 16, kRemoteRead) != nullptr);
  EXPECT_EQ(is_type_1(), Remote(window_, 0x1000, 16, kRemoteRead) == nullptr);
}

// Each binding holds the region until it is replaced or the window is gone.
TEST_P(MemoryWindowTest, RegionIsFreeWhenEveryBindingHasEnded) {
  ASSERT_EQ(Status::kOk, Bind(Bytes(0x1000, 16)));
  if (is_type_1()) {
    ASSERT_EQ(Status::kOk, Bind(Bytes(0x1020, 16)));
  }
  EXPECT_EQ(Status::kBusy, table_.Deregister(region_));
  ASSERT_EQ(Status::kOk, table_.DeallocateWindow(window_));
  EXPECT_EQ(Status::kOk, table_.Deregister(region_));
}

// IBA o10-37.2.40.
TEST_P(MemoryWindowTest, ZeroLengthUnbindsType1Only) {
  EXPECT_EQ(is_type_1() ? Status::kOk : Status::kInvalidArgument, Bind(Bytes(0, 0)));  // free
  ASSERT_EQ(Status::kOk, Bind(Bytes(0x1000, 16)));
  EXPECT_EQ(is_type_1() ? Status::kOk : Status::kInvalidArgument, Bind(Bytes(0, 0)));
  EXPECT_EQ(is_type_1(), Remote(window_, 0x1000, 16, kRemoteRead) == nullptr);
  EXPECT_EQ(is_type_1() ? Status::kOk : Status::kBusy, table_.Deregister(region_));
}

// IBA o10-36.2.2.
TEST_P(MemoryWindowTest, OnlyType2CanBeZeroBased) {
  const Status status = Bind(Bytes(0x1100, 16, kRemoteRead | kZeroBased));
  EXPECT_EQ(is_type_1() ? Status::kInvalidArgument : Status::kOk, status);
  if (is_type_1()) return;
  EXPECT_EQ(bytes_.data() + 0x103, Remote(window_, 3, 13, kRemoteRead));
  EXPECT_EQ(nullptr, Remote(window_, 3, 14, kRemoteRead));
  EXPECT_EQ(nullptr, Remote(window_, 0x1100, 1, kRemoteRead));
}

// IBA C10-75.
TEST_P(MemoryWindowTest, BindingOutsideTheRegionIsRefused) {
  EXPECT_EQ(Status::kInvalidArgument, Bind(Bytes(0xfff, 2)));
  EXPECT_EQ(Status::kInvalidArgument, Bind(Bytes(0x1fff, 2)));
  EXPECT_EQ(Status::kInvalidArgument, Bind(Bytes(0x1001, UINT64_MAX)));
  EXPECT_EQ(nullptr, Remote(window_, 0x1000, 1, kRemoteRead));
  EXPECT_EQ(Status::kOk, table_.Deregister(region_));  // no binding is left
}

TEST_P(MemoryWindowTest, RegionMustAllowTheBinding) {
  // IBA C10-73.
  region_ = Register(0x1000, 4096, kEverything & ~kWindowBind);
  EXPECT_EQ(Status::kInvalidArgument, Bind(Bytes(0x1000, 16)));
  // IBA C10-74: a binding that lets the peer write needs local write access.
  region_ = Register(0x1000, 4096, kWindowBind);
  EXPECT_EQ(Status::kInvalidArgument, Bind(Bytes(0x1000, 16, kRemoteWrite)));
  EXPECT_EQ(Status::kInvalidArgument, Bind(Bytes(0x1000, 16, kRemoteAtomic)));
  EXPECT_EQ(Status::kOk, Bind(Bytes(0x1000, 16, kRemoteRead)));
}

// As with rdma_rxe, whether or not the region itself permits a flush.
TEST_P(MemoryWindowTest, FlushIsGrantedByTheWindow) {
  constexpr uint32_t kFlush = AccessFlags::kFlushGlobal;
  ASSERT_EQ(Status::kOk, Bind(Bytes(0x1100, 0x80, kRemoteWrite)));
  EXPECT_FALSE(table_.RemotePermits(kPd, kQpn, window_, kFlush));
  if (!is_type_1()) {
    ASSERT_EQ(Status::kOk, table_.InvalidateWindow(kPd, kQpn, window_));
  }
  ASSERT_EQ(Status::kOk, Bind(Bytes(0x1100, 0x80, kFlush)));
  EXPECT_TRUE(table_.RemotePermits(kPd, kQpn, window_, kFlush));
  EXPECT_FALSE(table_.RemotePermits(kOtherPd, kQpn, window_, kFlush));
  EXPECT_EQ(table_.RemotePermits(kPd, kOtherQpn, window_, kFlush), is_type_1());
  EXPECT_NE(nullptr, Remote(window_, 0x1100, 0x80, kFlush));
  EXPECT_EQ(nullptr, Remote(window_, 0x1100, 0x81, kFlush));
  EXPECT_EQ(nullptr, Remote(window_, 0x1100, 1, kRemoteWrite));
}

TEST_P(MemoryWindowTest, OnlyRemoteAccessCanBeGranted) {
  EXPECT_EQ(Status::kInvalidArgument, Bind(Bytes(0x1000, 16, kRemoteRead | kLocalWrite)));
  EXPECT_EQ(Status::kInvalidArgument, Bind(Bytes(0x1000, 16, kWindowBind)));
  EXPECT_EQ(Status::kInvalidArgument, Bind(Bytes(0x1000, 16, 1u << 20)));
}

TEST_P(MemoryWindowTest, AllMustBeOfOneProtectionDomain) {
  const auto bind = [&](PdId pd) {
    return table_.BindWindow(pd, kQpn, window_, Next(window_), Bytes(0x1000, 16));
  };
  EXPECT_EQ(Status::kInvalidArgument, bind(kOtherPd));  // IBA C10-72
  MemoryRegion foreign = Region(0x1000, 4096, kEverything);
  foreign.pd = kOtherPd;
  region_ = table_.Register(foreign).value();
  EXPECT_EQ(Status::kInvalidArgument, bind(kPd));
  EXPECT_EQ(Status::kInvalidArgument, bind(kOtherPd));
}

// IBA 10.6.7.2.4: the consumer chooses the lower 8 bits, the others are ignored.
TEST_P(MemoryWindowTest, OnlyTheTagOfTheNextKeyCounts) {
  const RKey next{~window_.value};
  const RKey key{(window_.value & ~0xffu) | (next.value & 0xff)};
  ASSERT_EQ(Status::kOk, table_.BindWindow(kPd, kQpn, window_, next, Bytes(0x1000, 16)));
  EXPECT_NE(nullptr, Remote(key, 0x1000, 16, kRemoteRead));
  EXPECT_EQ(nullptr, Remote(next, 0x1000, 16, kRemoteRead));
  EXPECT_EQ(nullptr, Remote(window_, 0x1000, 16, kRemoteRead));
}

TEST_P(MemoryWindowTest, WindowMayKeepItsTag) {
  ASSERT_EQ(Status::kOk, table_.BindWindow(kPd, kQpn, window_, window_, Bytes(0x1000, 16)));
  EXPECT_NE(nullptr, Remote(window_, 0x1000, 16, kRemoteRead));
}

// A failed binding did not change the tag, but the program does not know that.
TEST_P(MemoryWindowTest, AnyKeyThatTheWindowEverHadNamesIt) {
  const RKey first = window_;
  ASSERT_EQ(Status::kInvalidArgument, Bind(Bytes(0x1000, 4097)));
  window_ = Next(window_);
  ASSERT_EQ(Status::kOk, Bind(Bytes(0x1000, 16)));
  EXPECT_NE(nullptr, Remote(window_, 0x1000, 16, kRemoteRead));
  EXPECT_EQ(Status::kOk, table_.DeallocateWindow(first));
}

TEST_P(MemoryWindowTest, RegionsAndWindowsAreNotInterchangeable) {
  const RKey region = AsRKey(region_);
  EXPECT_EQ(Status::kInvalidArgument,
            table_.BindWindow(kPd, kQpn, region, Next(region), Bytes(0x1000, 16)));
  EXPECT_EQ(Status::kInvalidArgument, table_.DeallocateWindow(region));
  EXPECT_EQ(Status::kInvalidArgument, table_.InvalidateWindow(kPd, kQpn, region));
  EXPECT_EQ(Status::kInvalidArgument, table_.Deregister(LKey{window_.value}));
  EXPECT_EQ(Status::kInvalidArgument,
            table_.Reregister(LKey{window_.value}, Region(0, 1, kNoAccess)));
  region_ = LKey{window_.value};
  EXPECT_EQ(Status::kInvalidArgument, Bind(Bytes(0x1000, 16)));
}

// IBA 10.6.7.2.6.
TEST_P(MemoryWindowTest, RegionWithWindowsIsBusy) {
  const RKey second = table_.AllocateWindow(kPd, GetParam()).value();
  ASSERT_EQ(Status::kOk, Bind(Bytes(0x1000, 16)));
  ASSERT_EQ(Status::kOk, table_.BindWindow(kPd, kQpn, second, Next(second), Bytes(0x1000, 16)));
  EXPECT_EQ(Status::kBusy, table_.Deregister(region_));
  EXPECT_EQ(Status::kBusy, table_.Reregister(region_, Region(0, 1, kNoAccess)));
  EXPECT_EQ(Status::kOk, table_.DeallocateWindow(window_));
  EXPECT_EQ(Status::kBusy, table_.Deregister(region_));
  EXPECT_EQ(Status::kOk, table_.DeallocateWindow(Next(second)));
  EXPECT_EQ(Status::kOk, table_.Deregister(region_));
}

TEST_P(MemoryWindowTest, DeallocatedWindowIsGone) {
  ASSERT_EQ(Status::kOk, Bind(Bytes(0x1000, 16)));
  ASSERT_EQ(Status::kOk, table_.DeallocateWindow(window_));
  EXPECT_EQ(nullptr, Remote(window_, 0x1000, 1, kRemoteRead));
  EXPECT_EQ(Status::kInvalidArgument, table_.DeallocateWindow(window_));
  EXPECT_EQ(Status::kInvalidArgument, Bind(Bytes(0x1000, 16)));
}

// IBA o10-37.2.26.
TEST_P(MemoryWindowTest, OnlyABoundType2WindowIsInvalidatedAndOnlyByItsQp) {
  EXPECT_EQ(Status::kInvalidArgument, table_.InvalidateWindow(kPd, kQpn, window_));  // not bound
  ASSERT_EQ(Status::kOk, Bind(Bytes(0x1000, 16)));
  EXPECT_EQ(Status::kInvalidArgument, table_.InvalidateWindow(kPd, kOtherQpn, window_));
  EXPECT_EQ(Status::kInvalidArgument, table_.InvalidateWindow(kOtherPd, kQpn, window_));
  EXPECT_NE(nullptr, Remote(window_, 0x1000, 1, kRemoteRead));

  const Status status = table_.InvalidateWindow(kPd, kQpn, window_);
  EXPECT_EQ(is_type_1() ? Status::kInvalidArgument : Status::kOk, status);
  EXPECT_EQ(is_type_1(), Remote(window_, 0x1000, 1, kRemoteRead) != nullptr);
  if (is_type_1()) return;
  EXPECT_EQ(Status::kInvalidArgument, table_.InvalidateWindow(kPd, kQpn, window_));
  EXPECT_EQ(Status::kOk, Bind(Bytes(0x1000, 16)));  // it can be bound again
}

INSTANTIATE_TEST_SUITE_P(Types, MemoryWindowTest,
                         testing::Values(WindowType::kType1, WindowType::kType2),
                         [](const auto& type) {
                           return type.param == WindowType::kType1 ? "Type1" : "Type2";
                         });

}  // namespace
}  // namespace uroce::transport
