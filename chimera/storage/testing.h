// A simulated disk for tests, of which a power cut takes what was not synced.
//
// It keeps two things: what programs see, and what may be on the platter. Of a file, the bytes of
// its last sync are safe; later ones may be there, in part, or be garbage where they would lie. Of
// a folder, the names as of its last sync are safe; of each change since (a name made, moved or
// removed) it is open whether it reached the disk, independently of all others: stricter than any
// journalling file system. A rename within a folder is one change: both names or neither.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/storage/disk.h"

namespace chimera::testing {

// Thrown in the place of the call at which the power went.
struct PowerCut {};

class SimulatedDisk final : public Disk {
 public:
  SimulatedDisk() : root_(std::make_shared<Node>(Node{.is_folder = true})) {}

  // A disk of its own.
  SimulatedDisk(const SimulatedDisk& other) {
    *this = SimulatedDisk();
    std::map<const Node*, std::shared_ptr<Node>> copies;
    root_ = copied(other.root_, copies);
    calls_ = other.calls_;
  }
  SimulatedDisk(SimulatedDisk&&) = default;
  SimulatedDisk& operator=(SimulatedDisk&&) = default;

  // The power goes before the call after so many that change something.
  void cut_after(int calls) { calls_left_ = calls; }
  [[nodiscard]] int calls() const { return calls_; }

  // The next call of that kind on a path that contains `part` fails as the system would.
  void fail(std::string part, std::string reason) {
    fail_part_ = std::move(part);
    fail_reason_ = std::move(reason);
  }

  // What the disk may hold after the power is back: `pick` says of each thing that is open whether
  // it reached the disk.
  [[nodiscard]] SimulatedDisk after_cut(const std::function<bool()>& pick) const {
    SimulatedDisk after;
    std::map<const Node*, std::shared_ptr<Node>> copies;
    after.root_ = surviving(*root_, pick, copies);
    return after;
  }

  // For damage.
  [[nodiscard]] std::string& content(const std::string& path) { return find(path)->content; }

  void make_folder(const std::string& path) override {
    begin(path, "make");
    auto& parent = folder(folder_of(path));
    if (parent.entries.contains(name_of(path))) return;
    set(parent, name_of(path), std::make_shared<Node>(Node{.is_folder = true}));
  }

  std::unique_ptr<NewFile> create(const std::string& path) override {
    begin(path, "write");
    auto& parent = folder(folder_of(path));
    auto file = std::make_shared<Node>();
    set(parent, name_of(path), file);
    return std::make_unique<File>(*this, path, file);
  }

  void rename(const std::string& from, const std::string& to) override {
    begin(to, "rename");
    auto& parent = folder(folder_of(from));
    if (folder_of(from) != folder_of(to)) throw std::logic_error("not simulated");
    const auto moved = parent.entries.at(name_of(from));
    const auto there = parent.entries.find(name_of(to));
    if (there != parent.entries.end() && there->second->is_folder &&
        !there->second->entries.empty()) {
      throw Error(ErrorCode::kIo, cat("cannot rename to '", to, "': Directory not empty"));
    }
    parent.entries.erase(name_of(from));
    parent.entries[name_of(to)] = moved;
    parent.changes.push_back({{name_of(from), nullptr}, {name_of(to), moved}});
  }

  void sync_folder(const std::string& path) override {
    begin(path, "sync");
    Node& node = folder(path);
    node.safe_entries = node.entries;
    node.changes.clear();
  }

  void remove(const std::string& path) override {
    begin(path, "remove");
    Node& parent = folder(folder_of(path));
    const auto found = parent.entries.find(name_of(path));
    if (found == parent.entries.end()) missing(path);
    if (!found->second->entries.empty()) {
      throw Error(ErrorCode::kIo, cat("cannot remove '", path, "': Directory not empty"));
    }
    set(parent, name_of(path), nullptr);
  }

  std::vector<std::string> list(const std::string& path) const override {
    std::vector<std::string> names;
    for (const auto& [name, node] : find(path)->entries) names.push_back(name);
    return names;
  }
  bool exists(const std::string& path) const override { return lookup(path) != nullptr; }
  bool is_folder(const std::string& path) const override {
    const auto node = lookup(path);
    return node != nullptr && node->is_folder;
  }
  std::uint64_t size(const std::string& path) const override { return find(path)->content.size(); }
  std::size_t read(const std::string& path, std::uint64_t offset,
                   std::span<std::byte> bytes) const override {
    const std::string& content = find(path)->content;
    const std::size_t begin = std::min<std::size_t>(offset, content.size());
    const std::size_t count = std::min(bytes.size(), content.size() - begin);
    std::memcpy(bytes.data(), content.data() + begin, count);
    return count;
  }

 private:
  struct Node;
  using Entries = std::map<std::string, std::shared_ptr<Node>>;
  // Names that change together; no node: the name goes.
  using Change = std::vector<std::pair<std::string, std::shared_ptr<Node>>>;

  struct Node {
    bool is_folder = false;
    std::string content = {}, safe_content = {};
    Entries entries = {}, safe_entries = {};
    std::vector<Change> changes = {};  // since the last sync
  };

  class File final : public NewFile {
   public:
    File(SimulatedDisk& disk, std::string path, std::shared_ptr<Node> node)
        : disk_(disk), path_(std::move(path)), node_(std::move(node)) {}
    void write(std::span<const std::byte> bytes) override {
      disk_.begin(path_, "write");
      node_->content.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    void sync() override {
      disk_.begin(path_, "sync");
      node_->safe_content = node_->content;
    }
    void close() override {}

   private:
    SimulatedDisk& disk_;
    std::string path_;
    std::shared_ptr<Node> node_;
  };

  void begin(const std::string& path, std::string_view verb) {
    if (calls_left_-- == 0) throw PowerCut();
    ++calls_;
    if (!fail_part_.empty() && path.find(fail_part_) != std::string::npos) {
      throw Error(ErrorCode::kIo, cat("cannot ", verb, " '", path, "': ", fail_reason_));
    }
  }

  static void set(Node& parent, const std::string& name, const std::shared_ptr<Node>& node) {
    if (node == nullptr) {
      parent.entries.erase(name);
    } else {
      parent.entries[name] = node;
    }
    parent.changes.push_back({{name, node}});
  }

  [[noreturn]] static void missing(const std::string& path) {
    throw Error(ErrorCode::kIo, cat("cannot open '", path, "': No such file or directory"));
  }

  [[nodiscard]] std::shared_ptr<Node> lookup(const std::string& path) const {
    std::shared_ptr<Node> node = root_;
    for (const std::string_view name : split(path, '/')) {
      if (name.empty() || name == ".") continue;
      const auto found = node->entries.find(std::string(name));
      if (found == node->entries.end()) return nullptr;
      node = found->second;
    }
    return node;
  }
  [[nodiscard]] std::shared_ptr<Node> find(const std::string& path) const {
    const auto node = lookup(path);
    if (node == nullptr) missing(path);
    return node;
  }
  [[nodiscard]] Node& folder(const std::string& path) { return *find(path); }

  static std::string surviving_content(const Node& node, const std::function<bool()>& pick) {
    if (node.content == node.safe_content) return node.content;
    if (pick()) return node.content;
    if (pick()) return node.safe_content;
    std::string torn = node.content;
    for (std::size_t i = node.safe_content.size(); i < torn.size(); i += 16) {
      if (pick()) continue;
      for (std::size_t j = i; j < std::min(i + 16, torn.size()); ++j) torn[j] = '\0';
    }
    return torn;
  }

  static std::shared_ptr<Node> copied(const std::shared_ptr<Node>& node,
                                      std::map<const Node*, std::shared_ptr<Node>>& copies) {
    if (node == nullptr) return nullptr;
    if (const auto done = copies.find(node.get()); done != copies.end()) return done->second;
    const auto copy = copies[node.get()] = std::make_shared<Node>(*node);
    for (Entries* entries : {&copy->entries, &copy->safe_entries}) {
      for (auto& [name, target] : *entries) target = copied(target, copies);
    }
    for (Change& change : copy->changes) {
      for (auto& [name, target] : change) target = copied(target, copies);
    }
    return copy;
  }

  // A node may be under two names: moved, one of them unsynced. So each is copied once.
  static std::shared_ptr<Node> surviving(const Node& node, const std::function<bool()>& pick,
                                         std::map<const Node*, std::shared_ptr<Node>>& copies) {
    std::shared_ptr<Node>& copy = copies[&node];
    if (copy != nullptr) return copy;
    copy = std::make_shared<Node>(Node{.is_folder = node.is_folder});
    const std::shared_ptr<Node> result = copy;
    if (!node.is_folder) {
      result->content = result->safe_content = surviving_content(node, pick);
      return result;
    }
    Entries entries = node.safe_entries;
    for (const Change& change : node.changes) {
      if (!pick()) continue;
      for (const auto& [name, target] : change) {
        if (target == nullptr) {
          entries.erase(name);
        } else {
          entries[name] = target;
        }
      }
    }
    for (const auto& [name, target] : entries) {
      result->entries[name] = surviving(*target, pick, copies);
    }
    result->safe_entries = result->entries;
    return result;
  }

  std::shared_ptr<Node> root_;
  int calls_left_ = -1;
  int calls_ = 0;
  std::string fail_part_, fail_reason_;
};

}  // namespace chimera::testing
