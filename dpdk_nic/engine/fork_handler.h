#pragma once

namespace uroce::nic {

class Engine;

// Keeps fork() from copying an engine in the middle of a pass, and tells the child's copies that
// they are copies.
class ForkHandler {
 public:
  static void Add(Engine& engine);
  static void Remove(Engine& engine);

 private:
  static void Prepare();
  static void InParent();
  static void InChild();
};

}  // namespace uroce::nic
