#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace uroce::verbs::rdma_cm {

// Objects by number, the lowest free one first: librdmacm indexes a table with them.
template <class Object>
class Slots {
 public:
  uint32_t Add(std::unique_ptr<Object> object) {
    if (free_.empty()) {
      objects_.push_back(std::move(object));
      return static_cast<uint32_t>(objects_.size() - 1);
    }
    const uint32_t number = *free_.begin();
    free_.erase(free_.begin());
    objects_[number] = std::move(object);
    return number;
  }
  Object* Find(uint32_t number) const {
    return number < objects_.size() ? objects_[number].get() : nullptr;
  }
  std::unique_ptr<Object> Remove(uint32_t number) {
    free_.insert(number);
    return std::move(objects_[number]);
  }
  bool empty() const { return free_.size() == objects_.size(); }
  size_t size() const { return objects_.size() - free_.size(); }

  template <class Visit>
  void ForEach(Visit visit) const {
    for (const auto& object : objects_) {
      if (object != nullptr) visit(*object);
    }
  }

 private:
  std::vector<std::unique_ptr<Object>> objects_;
  std::set<uint32_t> free_;
};

}  // namespace uroce::verbs::rdma_cm
