#pragma once

#include <cstdint>

#include "transport/time.h"

// The constants by which the drive policy decides, each with its reason. They were found on
// machines where a wakeup costs 20 us, a pass 1 us, a pause of the processor 10 to 40 ns and a
// yield to no other thread 300 ns.
namespace uroce::nic::drive {

using transport::Duration;
using transport::Microseconds;
using transport::Milliseconds;

// FramePolicy: flushing. As many frames as Linux takes in one call with UDP_SEGMENT, and half of
// what perftest has in flight by default: the peer answers these while the program posts the rest.
inline constexpr uint32_t kMostUnflushed = 64;
// From the last flush, and from the pass that answers. Some system calls long.
inline constexpr Duration kLongestForOthers = Microseconds(20);
inline constexpr Duration kLongestForReply = Microseconds(10);

// FramePolicy: holding answers. On a link, messages of 64 bytes come at up to 16 million a second,
// and an ACK for each would cost both sides more than the message.
inline constexpr Duration kCloseTogether{500};
inline constexpr Duration kLongestHold{400};

// FramePolicy: passes in verbs. A program that posts for longer than the ACK timeout without a poll
// would leave all answers in the port, and everything would be sent again.
inline constexpr uint32_t kMostUnread = 256;

// ProgressPolicy: polling. A little more than a wakeup costs both sides together.
inline constexpr Duration kSpin = Microseconds(50);
// Naps of a thread that its source cannot wake: together 2 % of a processor.
inline constexpr Duration kShortestNap = Microseconds(20);
inline constexpr Duration kLongestNap = Milliseconds(1);
// The first sleep after work. During it verbs need not wake the progress thread for their
// retransmission timers, which are later than that.
inline constexpr Duration kLinger = Milliseconds(20);

// ProgressPolicy: standing by. A pass counts as the work of this many frames: on a port of system
// calls many passes are long, and a thread that makes few of them may be driving all the same.
inline constexpr uint32_t kWorkOfAPass = 4;
// An application that has done this much since the last sleep is driving: 8 passes, or fewer that
// had more to do.
inline constexpr uint64_t kWorkThatDrives = 32;
// More than the work of a program that waits for events: each event costs it a wakeup.
inline constexpr uint64_t kWorkAMillisecond = 800;
// Looks at the application: the first find out soon whether it has stopped, later ones whether it
// drives enough.
inline constexpr Duration kFirstLook = Microseconds(100);
inline constexpr Duration kLongestLook = Milliseconds(1);
// An application that drove for this long is trusted again at once.
inline constexpr Duration kProof = Milliseconds(10);
// After an application stopped sooner, the progress thread does not stand by for a time that
// doubles: a program that spins on memory between polls then loses 0.2 % of its time.
inline constexpr Duration kShortestDoubt = Milliseconds(1);
inline constexpr Duration kLongestDoubt = Milliseconds(64);

// PollPolicy: so many empty polls take less time than a wakeup.
inline constexpr uint32_t kPollsBeforeYield = 32;
// A yield that took longer let another thread run.
inline constexpr Duration kOtherThreadRan = Microseconds(1);
inline constexpr uint32_t kSharedYieldsBeforeStep = 16;
// How long to stay on a shared processor between two attempts to leave it. An attempt costs 60 us,
// so on a machine without an idle processor the attempts get rare.
inline constexpr Duration kShortestStay = Milliseconds(5);
inline constexpr Duration kLongestStay = Milliseconds(160);
// Threads that pause by this policy yield long before that.
inline constexpr Duration kHogRan = Microseconds(500);
// After such a yield, how long to sleep instead of yielding.
inline constexpr Duration kShortestHogged = Milliseconds(10);
inline constexpr Duration kLongestHogged = Milliseconds(160);
// So many polls take a millisecond or more.
inline constexpr uint32_t kRefusalsBeforeNap = 4'096;

}  // namespace uroce::nic::drive
