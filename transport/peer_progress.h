#pragma once

#include "transport/route.h"
#include "transport/time.h"

namespace uroce::transport {

// The carrier of frames may know more about a silent peer. A network does not: there silence means
// loss. Memory that two processes share loses nothing, and shows how far the peer has come: a
// peer that was stopped, or that gets no processor, has not answered yet.
class PeerProgress {
 public:
  virtual ~PeerProgress() = default;
  // False while the peer by `route` still has to read or answer a frame that was sent at `time` or
  // before. True if every answer to these frames has been received, or if the carrier cannot know.
  // May be false for a while longer: it is asked again after the next silence.
  virtual bool HasAnswered(Route route, Time time, Time now) = 0;
};

}  // namespace uroce::transport
