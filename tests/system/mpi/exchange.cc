// An MPI program that moves data in every way that the MPI libraries map to RDMA, and compares
// every received byte with the byte that the sender must have sent.
//
// usage: exchange ROUNDS PARTS
//
// PARTS names the parts of a round: p (point to point), o (thousands of messages outstanding), c
// (collectives), s (one-sided). After the last round rank 0 prints "verified <bytes that the ranks
// received from each other>" and waits for a line on standard input, so that a test can look at the
// device meanwhile. A difference is printed on standard error and ends the job.

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Bytes = std::vector<uint8_t>;

int rank = 0;
int ranks = 0;
uint64_t received_bytes = 0;  // from other ranks, and verified

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "rank %d: %s\n", rank, what.c_str());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

// Names a message: no two messages of a run have the same content.
struct Message {
  uint64_t round;
  uint64_t part;  // of the program
  int sender;
  int receiver;
  uint64_t number;
};

// SplitMix64, seeded by the name of the message.
class Pattern {
 public:
  explicit Pattern(const Message& message) {
    for (const uint64_t word : {message.round, message.part, static_cast<uint64_t>(message.sender),
                                static_cast<uint64_t>(message.receiver), message.number}) {
      state_ = Mix(state_ ^ word);
    }
  }

  uint64_t Next() { return Mix(state_ += kStep); }

 private:
  static constexpr uint64_t kStep = 0x9e37'79b9'7f4a'7c15;

  static uint64_t Mix(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58'476d'1ce4'e5b9;
    value = (value ^ (value >> 27)) * 0x94d0'49bb'1331'11eb;
    return value ^ (value >> 31);
  }

  uint64_t state_ = kStep;
};

void Fill(const Message& message, uint8_t* data, size_t bytes) {
  Pattern pattern(message);
  for (size_t done = 0; done < bytes; done += sizeof(uint64_t)) {
    const uint64_t word = pattern.Next();
    std::memcpy(data + done, &word, std::min(sizeof word, bytes - done));
  }
}

Bytes Filled(const Message& message, size_t bytes) {
  Bytes data(bytes);
  Fill(message, data.data(), bytes);
  return data;
}

void Check(const Message& message, const uint8_t* data, size_t bytes) {
  Pattern pattern(message);
  for (size_t done = 0; done < bytes; done += sizeof(uint64_t)) {
    const uint64_t word = pattern.Next();
    const size_t length = std::min(sizeof word, bytes - done);
    if (std::memcmp(data + done, &word, length) != 0) {
      Fail("part " + std::to_string(message.part) + ", round " + std::to_string(message.round) +
           ": message " + std::to_string(message.number) + " of " + std::to_string(bytes) +
           " bytes from rank " + std::to_string(message.sender) + " is wrong near byte " +
           std::to_string(done));
    }
  }
  if (message.sender != rank) received_bytes += bytes;
}

void Check(bool holds, const char* what) {
  if (!holds) Fail(what);
}

// --- Point to point: each rank with each other, from 0 bytes to 4 MiB.

void PointToPoint(uint64_t round) {
  constexpr size_t kSizes[] = {0, 1, 8, 63, 64, 1000, 4096, 8192, 10'000, 65'536, 1 << 20, 4 << 20};
  for (int distance = 1; distance < ranks; ++distance) {
    const int to = (rank + distance) % ranks;
    const int from = (rank - distance + ranks) % ranks;
    uint64_t number = 0;
    for (const size_t size : kSizes) {
      const Bytes sent = Filled({round, 1, rank, to, number}, size);
      Bytes received(size);
      MPI_Sendrecv(sent.data(), static_cast<int>(size), MPI_BYTE, to, distance, received.data(),
                   static_cast<int>(size), MPI_BYTE, from, distance, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
      Check({round, 1, from, rank, number}, received.data(), size);
      ++number;
    }
  }
}

// --- Thousands of messages outstanding; half of them arrive before their receive is posted.

void Outstanding(uint64_t round) {
  constexpr int kMessages = 4096;  // of a rank, to all others together
  constexpr size_t kSizes[] = {4, 40, 400, 4000, 16'000};
  const int each = kMessages / (ranks - 1);
  struct Flight {
    Message message;
    Bytes data;
  };
  std::vector<Flight> sent;
  std::vector<Flight> received;
  for (int peer = 0; peer < ranks; ++peer) {
    for (int number = 0; peer != rank && number < each; ++number) {
      const size_t size = kSizes[static_cast<size_t>(number) % std::size(kSizes)];
      const Message out = {round, 2, rank, peer, static_cast<uint64_t>(number)};
      sent.push_back({out, Filled(out, size)});
      received.push_back({{round, 2, peer, rank, out.number}, Bytes(size)});
    }
  }
  std::vector<MPI_Request> requests;
  const auto receive_half = [&](uint64_t half) {
    for (Flight& flight : received) {
      if (flight.message.number % 2 != half) continue;
      MPI_Irecv(flight.data.data(), static_cast<int>(flight.data.size()), MPI_BYTE,
                flight.message.sender, static_cast<int>(flight.message.number), MPI_COMM_WORLD,
                &requests.emplace_back());
    }
  };
  receive_half(0);
  for (const Flight& flight : sent) {
    MPI_Isend(flight.data.data(), static_cast<int>(flight.data.size()), MPI_BYTE,
              flight.message.receiver, static_cast<int>(flight.message.number), MPI_COMM_WORLD,
              &requests.emplace_back());
  }
  MPI_Barrier(MPI_COMM_WORLD);
  receive_half(1);
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  for (const Flight& flight : received) {
    Check(flight.message, flight.data.data(), flight.data.size());
  }
}

// --- Collectives.

void Allreduce(uint64_t round, size_t words) {
  std::vector<uint64_t> mine(words);
  std::vector<uint64_t> expected(words);
  for (int from = 0; from < ranks; ++from) {
    Pattern pattern({round, 3, from, -1, words});
    for (size_t i = 0; i < words; ++i) {
      const uint64_t word = pattern.Next();
      expected[i] += word;
      if (from == rank) mine[i] = word;
    }
  }
  std::vector<uint64_t> sum(words);
  MPI_Allreduce(mine.data(), sum.data(), static_cast<int>(words), MPI_UINT64_T, MPI_SUM,
                MPI_COMM_WORLD);
  Check(sum == expected, "the sum of an allreduce is wrong");
}

void Alltoall(uint64_t round, size_t bytes) {
  const auto block = [bytes](int peer) { return static_cast<size_t>(peer) * bytes; };
  Bytes sent(block(ranks));
  Bytes received(block(ranks));
  for (int to = 0; to < ranks; ++to) Fill({round, 4, rank, to, bytes}, &sent[block(to)], bytes);
  MPI_Alltoall(sent.data(), static_cast<int>(bytes), MPI_BYTE, received.data(),
               static_cast<int>(bytes), MPI_BYTE, MPI_COMM_WORLD);
  for (int from = 0; from < ranks; ++from) {
    Check({round, 4, from, rank, bytes}, &received[block(from)], bytes);
  }
}

void Broadcast(uint64_t round, int root, size_t bytes) {
  Bytes data(bytes);
  if (rank == root) Fill({round, 5, root, -1, bytes}, data.data(), bytes);
  MPI_Bcast(data.data(), static_cast<int>(bytes), MPI_BYTE, root, MPI_COMM_WORLD);
  Check({round, 5, root, -1, bytes}, data.data(), bytes);
}

void Collectives(uint64_t round) {
  for (const size_t words : {1, 100, 5000, 200'000}) Allreduce(round, words);
  for (const size_t bytes : {1, 500, 9000, 300'000}) Alltoall(round, bytes);
  for (int root = 0; root < ranks; ++root) Broadcast(round, root, 100'000);
}

// --- One-sided: every rank has a slot in every other's window.

constexpr size_t kSlotBytes = 96 * 1024;

struct Window {
  explicit Window(size_t bytes) {
    MPI_Win_allocate(static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory,
                     &handle);
    std::memset(memory, 0, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  ~Window() { MPI_Win_free(&handle); }

  uint8_t* memory = nullptr;
  MPI_Win handle = MPI_WIN_NULL;
};

MPI_Aint SlotOf(int owner) {
  return static_cast<MPI_Aint>(static_cast<size_t>(owner) * kSlotBytes);
}

void PutsAndGetsBetweenFences(uint64_t round) {
  Window window(kSlotBytes * static_cast<size_t>(ranks));
  std::vector<Bytes> out;
  MPI_Win_fence(0, window.handle);
  for (int target = 0; target < ranks; ++target) {
    out.push_back(Filled({round, 6, rank, target, 0}, kSlotBytes));
    MPI_Put(out.back().data(), kSlotBytes, MPI_BYTE, target, SlotOf(rank), kSlotBytes, MPI_BYTE,
            window.handle);
  }
  MPI_Win_fence(0, window.handle);
  for (int origin = 0; origin < ranks; ++origin) {
    Check({round, 6, origin, rank, 0}, window.memory + SlotOf(origin), kSlotBytes);
  }
  // Each rank reads the bytes that the rank after the target has put there.
  std::vector<Bytes> in(static_cast<size_t>(ranks), Bytes(kSlotBytes));
  MPI_Win_fence(0, window.handle);
  for (int target = 0; target < ranks; ++target) {
    MPI_Get(in[static_cast<size_t>(target)].data(), kSlotBytes, MPI_BYTE, target,
            SlotOf((target + 1) % ranks), kSlotBytes, MPI_BYTE, window.handle);
  }
  MPI_Win_fence(0, window.handle);
  for (int target = 0; target < ranks; ++target) {
    Check({round, 6, (target + 1) % ranks, target, 0}, in[static_cast<size_t>(target)].data(),
          kSlotBytes);
  }
}

void AccumulatesBetweenFences() {
  constexpr size_t kWords = 1000;
  Window window(kWords * sizeof(uint64_t));
  std::vector<uint64_t> added(kWords);
  for (size_t i = 0; i < kWords; ++i) added[i] = i + static_cast<uint64_t>(rank);
  MPI_Win_fence(0, window.handle);
  for (int target = 0; target < ranks; ++target) {
    MPI_Accumulate(added.data(), kWords, MPI_UINT64_T, target, 0, kWords, MPI_UINT64_T, MPI_SUM,
                   window.handle);
  }
  MPI_Win_fence(0, window.handle);
  const auto all = static_cast<uint64_t>(ranks);
  for (size_t i = 0; i < kWords; ++i) {
    uint64_t sum = 0;
    std::memcpy(&sum, window.memory + i * sizeof sum, sizeof sum);
    Check(sum == i * all + all * (all - 1) / 2, "the sum of the accumulates is wrong");
  }
}

// Word 0 is counted up under exclusive locks, word 1 by fetch-and-add, word 2 by compare-and-swap.
void CountersUnderLocks() {
  constexpr int kTurns = 20;
  Window window(3 * sizeof(uint64_t));
  const int target = ranks - 1;
  const uint64_t one = 1;
  uint64_t last_seen = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    uint64_t value = 0;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window.handle);
    MPI_Get(&value, 1, MPI_UINT64_T, target, 0, 1, MPI_UINT64_T, window.handle);
    MPI_Win_flush(target, window.handle);
    ++value;
    MPI_Put(&value, 1, MPI_UINT64_T, target, 0, 1, MPI_UINT64_T, window.handle);
    MPI_Win_unlock(target, window.handle);

    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window.handle);
    uint64_t before = 0;
    MPI_Fetch_and_op(&one, &before, MPI_UINT64_T, target, sizeof(uint64_t), MPI_SUM, window.handle);
    MPI_Win_flush(target, window.handle);
    Check(turn == 0 || before > last_seen, "a counter went back");
    last_seen = before;
    uint64_t expected = 0;
    for (bool swapped = false; !swapped;) {
      const uint64_t next = expected + 1;
      uint64_t found = 0;
      MPI_Compare_and_swap(&next, &expected, &found, MPI_UINT64_T, target, 2 * sizeof(uint64_t),
                           window.handle);
      MPI_Win_flush(target, window.handle);
      swapped = found == expected;
      expected = found;
    }
    MPI_Win_unlock(target, window.handle);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window.handle);
  uint64_t counters[3] = {};
  MPI_Get(counters, 3, MPI_UINT64_T, target, 0, 3, MPI_UINT64_T, window.handle);
  MPI_Win_unlock(target, window.handle);
  for (const uint64_t counter : counters) {
    Check(counter == static_cast<uint64_t>(kTurns) * static_cast<uint64_t>(ranks),
          "increments are lost");
  }
}

void OneSided(uint64_t round) {
  PutsAndGetsBetweenFences(round);
  AccumulatesBetweenFences();
  CountersUnderLocks();
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  Check(ranks >= 2, "at least two ranks are needed");
  Check(argc == 3, "usage: exchange ROUNDS PARTS");
  const uint64_t rounds = std::strtoull(argv[1], nullptr, 10);
  const auto has = [parts = std::string_view(argv[2])](char part) {
    return parts.find(part) != std::string_view::npos;
  };
  for (uint64_t round = 0; round < rounds; ++round) {
    if (has('p')) PointToPoint(round);
    if (has('o')) Outstanding(round);
    if (has('c')) Collectives(round);
    if (has('s')) OneSided(round);
  }
  uint64_t all_bytes = 0;
  MPI_Reduce(&received_bytes, &all_bytes, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    std::printf("verified %llu\n", static_cast<unsigned long long>(all_bytes));
    std::fflush(stdout);
    while (std::getchar() != '\n' && std::feof(stdin) == 0) {
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
