#pragma once

namespace uroce::verbs {

// Each object of an ObjectList has one of these as its member `link`, so that listing it takes no
// memory and cannot fail.
template <class Object>
struct ObjectLink {
  Object* previous = nullptr;
  Object* next = nullptr;
};

template <class Object>
class ObjectList {
 public:
  void Add(Object& object) {
    object.link = {.previous = nullptr, .next = first_};
    if (first_ != nullptr) first_->link.previous = &object;
    first_ = &object;
  }
  void Remove(Object& object) {
    Object* const previous = object.link.previous;
    Object* const next = object.link.next;
    (previous == nullptr ? first_ : previous->link.next) = next;
    if (next != nullptr) next->link.previous = previous;
  }
  // `f` may remove the object it is given.
  template <class F>
  void ForEach(F f) {
    for (Object *object = first_, *next; object != nullptr; object = next) {
      next = object->link.next;
      f(*object);
    }
  }

 private:
  Object* first_ = nullptr;
};

}  // namespace uroce::verbs
